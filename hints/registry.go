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
	// Address is what a name is called in messages.
	Address(name string) string
	// ListFiles calls each with the base name and the modification time, by the store's clock, of
	// every file of a folder. A missing folder matches fs.ErrNotExist.
	ListFiles(ctx context.Context, dir string, each func(base string, modified time.Time)) error
	// ReadFile returns a file's content, or an error if it has more than limit bytes. A missing file
	// matches fs.ErrNotExist.
	ReadFile(ctx context.Context, name string, limit int64) ([]byte, error)
}

// FileForeseer is implemented by FileReaders that read many files with less work when they are named
// beforehand.
type FileForeseer interface {
	// ExpectFiles says that the files will be read now.
	ExpectFiles(ctx context.Context, names []string)
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

	mu      sync.Mutex
	believe bool
	read    map[string]reading // by base name
}

// reading is what a file held when it was last read.
type reading struct {
	modified time.Time
	since    time.Duration // the reader's clock when it was first seen so
	entry    Entry
	err      error
	renewed  bool // it was written since it was read
	doubted  bool
}

// NewRegistry returns the registry that lies in dir, an absolute path in the store. It does no I/O.
func NewRegistry(f FileReader, dir string) *Registry {
	return &Registry{files: f, dir: dir, read: make(map[string]reading)}
}

// BelieveRenewals makes the Registry take an entry that was written again for the same as before, until
// [Registry.Doubt]: reading it costs a remote store several calls, and an agent writes it all its life. It is called
// before the first List.
func (r *Registry) BelieveRenewals() { r.believe = true }

// Doubt makes the next List read the entries of nodes again, if they were written since: their agents do not answer
// as they should.
func (r *Registry) Doubt(nodes ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, node := range nodes {
		base := node + entrySuffix
		if was, ok := r.read[base]; ok && was.err == nil {
			was.doubted = true
			r.read[base] = was
		}
	}
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
		return Listing{}, fmt.Errorf("hints.List %s: %w", r.files.Address(r.dir), err)
	}
	r.refresh(ctx, found, now)
	if err := ctx.Err(); err != nil {
		return Listing{}, fmt.Errorf("hints.List %s: %w", r.files.Address(r.dir), err)
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
	var changed []string
	for base, modified := range found {
		was, ok := r.read[base]
		switch {
		case !ok || was.err != nil && !errors.Is(was.err, ErrEntry):
			changed = append(changed, base)
		case was.modified.Equal(modified) && !(was.doubted && was.renewed):
		case r.believe && was.err == nil && !was.doubted:
			was.modified, was.since, was.renewed = modified, now, true
			r.read[base] = was
		default:
			changed = append(changed, base)
		}
	}
	r.expect(ctx, changed)
	for _, base := range changed {
		e, err := r.readEntry(ctx, base)
		if errors.Is(err, fs.ErrNotExist) {
			delete(r.read, base) // withdrawn since it was listed
			continue
		}
		r.read[base] = reading{modified: found[base], since: now, entry: e, err: err}
	}
}

// expect tells a reader that can make use of it what will be read.
func (r *Registry) expect(ctx context.Context, bases []string) {
	f, ok := r.files.(FileForeseer)
	if !ok || len(bases) < 2 {
		return
	}
	names := make([]string, len(bases))
	for i, base := range bases {
		names[i] = r.name(base)
	}
	f.ExpectFiles(ctx, names)
}

func (r *Registry) readEntry(ctx context.Context, base string) (Entry, error) {
	name := r.name(base)
	data, err := r.files.ReadFile(ctx, name, maxEntry)
	if err != nil {
		return Entry{}, fmt.Errorf("hints.List %s: %w", r.files.Address(name), err)
	}
	e, err := decodeEntry(r.files.Address(name), data)
	if err == nil && EntryName(r.dir, e.Node) != name {
		err = fmt.Errorf("hints.List %s: %w: it is of node %q", r.files.Address(name), ErrEntry, e.Node)
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
			l.Ignored = append(l.Ignored, fmt.Errorf("hints.List %s: expired: not renewed within %s", r.files.Address(r.name(base)), f.entry.TTL))
		default:
			l.Live = append(l.Live, f.entry)
		}
	}
	slices.SortFunc(l.Live, func(a, b Entry) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortFunc(l.Ignored, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return l
}

func (r *Registry) name(base string) string { return path.Join(r.dir, base) }
