package hints

import (
	"context"
	"errors"
	"time"
)

// Entry is what an agent says about itself in <registry>/<node>.json.
type Entry struct {
	Node string
	Addr string // host:port
	// Versions maps the name of a protocol ("fetch", "hints") to the version the agent speaks.
	Versions map[string]int
	// TTL is how long the file counts after it was written, by the store's clock.
	TTL time.Duration
}

// EncodeEntry returns the JSON of an entry.
func EncodeEntry(e Entry) ([]byte, error) { return nil, errors.ErrUnsupported }

// DecodeEntry parses an entry strictly. name is the file's and appears in errors.
func DecodeEntry(name string, data []byte) (Entry, error) { return Entry{}, errors.ErrUnsupported }

// Files is what a [Registry] needs of a store. Paths are absolute slash paths in the store.
type Files interface {
	// ListFiles calls each with the base name and the modification time of every file of a folder. A
	// missing folder matches fs.ErrNotExist.
	ListFiles(ctx context.Context, dir string, each func(name string, modified time.Time)) error
	// ReadFile returns a file's content, or an error if it has more than limit bytes.
	ReadFile(ctx context.Context, name string, limit int64) ([]byte, error)
	// ReplaceFile writes a file beside, makes it durable and renames it; parents are made.
	ReplaceFile(ctx context.Context, name string, data []byte) error
	// RemoveFile removes a file.
	RemoveFile(ctx context.Context, name string) error
}

// Registry is the folder in which agents say where they are. It is safe for concurrent use.
type Registry struct{}

// NewRegistry returns the registry that lies in dir, an absolute path in the store. It does no I/O.
func NewRegistry(f Files, dir string) *Registry { return &Registry{} }

// Publish writes or renews the entry of an agent.
func (r *Registry) Publish(ctx context.Context, e Entry) error { return errors.ErrUnsupported }

// Withdraw removes the entry of an agent. A missing one is no error.
func (r *Registry) Withdraw(ctx context.Context, node string) error { return errors.ErrUnsupported }

// Listing is what a registry holds.
type Listing struct {
	Live    []Entry // sorted by node
	Ignored []error // one for every file that is expired, foreign or not an entry, naming it
}

// List returns the agents that were alive lately. now is any monotonic time that grows from call to
// call: it notices files that nobody renews. A missing folder is an empty listing.
func (r *Registry) List(ctx context.Context, now time.Duration) (Listing, error) {
	return Listing{}, errors.ErrUnsupported
}
