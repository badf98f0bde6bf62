package hints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

const entrySuffix = ".json"

// FileReader is what a [Registry] needs of a store. Names are absolute slash paths in the store.
type FileReader interface {
	// ListFiles calls each with the base name and the modification time, by the store's clock, of
	// every file of a folder. A missing folder matches fs.ErrNotExist.
	ListFiles(ctx context.Context, dir string, each func(base string, modified time.Time)) error
	// ReadFile returns a file's content, or an error if it has more than limit bytes. A missing file
	// matches fs.ErrNotExist.
	ReadFile(ctx context.Context, name string, limit int64) ([]byte, error)
}

// Registry reads the folder in which agents say where they are. It is safe for concurrent use.
//
// An entry is taken for live unless one of two clocks says otherwise, and neither is compared with
// another: by this reader's clock, it has been the same file for longer than its TTL; or by the
// store's clock, its file was last written more than its TTL before the newest of the others was.
// That is a guess in favour of the agent: the test is to call it.
type Registry struct {
	files FileReader
	dir   string

	mu   sync.Mutex
	read map[string]reading // by base name
}

// reading is what a file held when it was last read.
type reading struct {
	modified time.Time
	since    time.Duration // the reader's clock when it was first seen so
	entry    Entry
	err      error
}

// NewRegistry returns the registry that lies in dir, an absolute path in the store. It does no I/O.
func NewRegistry(f FileReader, dir string) *Registry {
	return &Registry{files: f, dir: dir, read: make(map[string]reading)}
}

// Listing is what a registry holds.
type Listing struct {
	Live []Entry // sorted by node
	// Ignored has one error for every file that is expired, cannot be read or is not an entry, naming
	// it.
	Ignored []error
}

// List returns the agents that may be alive. now is any monotonic time of this process that grows from
// call to call. A missing folder is an empty listing; files that do not end in .json, or begin with a
// dot, are not looked at.
func (r *Registry) List(ctx context.Context, now time.Duration) (Listing, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := make(map[string]time.Time)
	err := r.files.ListFiles(ctx, r.dir, func(base string, modified time.Time) {
		if strings.HasSuffix(base, entrySuffix) && !strings.HasPrefix(base, ".") && len(found) < maxAgents {
			found[base] = modified
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Listing{}, fmt.Errorf("hints.List %s: %w", r.dir, err)
	}
	r.refresh(ctx, found, now)
	if err := ctx.Err(); err != nil {
		return Listing{}, fmt.Errorf("hints.List %s: %w", r.dir, err)
	}
	return r.judge(now), nil
}

// refresh reads the files that are new or have changed, and forgets those that are gone.
func (r *Registry) refresh(ctx context.Context, found map[string]time.Time, now time.Duration) {
	for base := range r.read {
		if _, ok := found[base]; !ok {
			delete(r.read, base)
		}
	}
	for base, modified := range found {
		if was, ok := r.read[base]; ok && was.modified.Equal(modified) && (was.err == nil || errors.Is(was.err, ErrEntry)) {
			continue
		}
		e, err := r.readEntry(ctx, base)
		if errors.Is(err, fs.ErrNotExist) {
			delete(r.read, base) // withdrawn since it was listed
			continue
		}
		r.read[base] = reading{modified: modified, since: now, entry: e, err: err}
	}
}

func (r *Registry) readEntry(ctx context.Context, base string) (Entry, error) {
	name := r.name(base)
	data, err := r.files.ReadFile(ctx, name, maxEntry)
	if err != nil {
		return Entry{}, fmt.Errorf("hints.List %s: %w", name, err)
	}
	e, err := decodeEntry(name, data)
	if err == nil && EntryName(r.dir, e.Node) != name {
		err = fmt.Errorf("hints.List %s: %w: it is of node %q", name, ErrEntry, e.Node)
	}
	return e, err
}

// judge tells the live from the others.
func (r *Registry) judge(now time.Duration) Listing {
	stale := func(f reading) bool { return now-f.since > f.entry.TTL }
	var newest time.Time
	for _, f := range r.read {
		if f.err == nil && !stale(f) && f.modified.After(newest) {
			newest = f.modified
		}
	}
	var l Listing
	for base, f := range r.read {
		switch {
		case f.err != nil:
			l.Ignored = append(l.Ignored, f.err)
		case stale(f) || newest.Sub(f.modified) > f.entry.TTL:
			l.Ignored = append(l.Ignored, fmt.Errorf("hints.List %s: expired: not renewed within %s", r.name(base), f.entry.TTL))
		default:
			l.Live = append(l.Live, f.entry)
		}
	}
	slices.SortFunc(l.Live, func(a, b Entry) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortFunc(l.Ignored, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return l
}

func (r *Registry) name(base string) string { return path.Join(r.dir, base) }
