package foreign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/store"
)

// workDir is the folder inside a dataset's while it is indexed.
const workDir = ".stepahead-index"

// Options configure Index. The zero value is usable.
type Options struct {
	// Workers is how many shards are read at the same time. Default: the number of processors, at least 4.
	Workers int
	// Policy is the containers'; it is written into the manifest. Default Strict.
	Policy Policy
	// Fields, if there are any, are the dataset's fields; else it gets all that the containers have, with the
	// container's own renamings where they hold for every sample.
	Fields []Rename
	// Media names fields of the dataset that stay media fields although their values are small.
	Media []string
	// Classes names the values 0, 1, ... of the field label. Default: the container's, if it has any.
	Classes []string
	// SkipIncomplete leaves out samples that lack a field. Default: they are an error.
	SkipIncomplete bool
	// Force replaces another dataset at the destination. Default: that is an error.
	Force bool
	// Accept is asked whether the container that takes the source will do. Default: every one does.
	Accept func(Container) error
	// Progress is called now and then, by one goroutine at a time. Default: nobody is told.
	Progress func(Progress)
	// Report is filled in if it is not nil, also when Index fails.
	Report *Report
}

// Progress says how far Index is.
type Progress struct {
	Phase       string // "scan" or "write"
	Done, Total int64  // bytes of the shards
}

// Report says what Index did.
type Report struct {
	Container  string   `json:"container"`
	Shards     int      `json:"shards"`
	Empty      int      `json:"empty"`      // shards without a sample, which have no bin
	Incomplete int64    `json:"incomplete"` // samples left out
	Bytes      int64    `json:"bytes"`      // of the shards
	Read       int64    `json:"read"`       // of them, to learn what is in them
	Warnings   []string `json:"warnings"`
	Already    bool     `json:"already"` // the same dataset was there
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = max(4, runtime.GOMAXPROCS(0))
	}
	if o.Policy == "" {
		o.Policy = Strict
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Report == nil {
		o.Report = new(Report)
	}
	return o
}

// Index makes a dataset, in the folder dir of the source's store, of the containers that a source holds. The first
// of the containers that takes the source has it. The dataset appears at the end, in one step, with its manifest.
// Until then everything is in the folder .stepahead-index inside dir; after an error or a kill it stays there, and
// the same call goes on from it. Equal input gives equal bytes, whatever the number of workers and of
// interruptions. Only one Index may work on a destination at a time.
func Index(ctx context.Context, containers []Container, src Source, dir string, o Options) (*binfmt.Manifest, error) {
	x := &indexer{Options: o.withDefaults(), src: src, dir: dir, draft: draft.Draft{Store: src.Store, Dir: dir, Work: workDir}}
	m, err := x.run(ctx, containers)
	if err != nil {
		return nil, x.draft.Advise("index", fmt.Errorf("index: %w", err))
	}
	return m, nil
}

type indexer struct {
	Options
	src       Source
	dir       string
	draft     draft.Draft
	container Container
	whole     bool // every byte is read, and compressed files are unpacked: the samples are packed
	shards    []shard
	fields    []chosen

	mu       sync.Mutex
	progress Progress
}

// shard is a shard and the version of it that is indexed.
type shard struct {
	Shard
	path     string // relative to the dataset's folder
	size     int64
	identity store.Identity
	journal  string // name of the file
	scanned  string // names what the scan found, as far as path and identity do not
	sum      *summary
	stats    *stats
}

func (x *indexer) run(ctx context.Context, containers []Container) (*binfmt.Manifest, error) {
	if err := x.plan(ctx, containers); err != nil {
		return nil, err
	}
	x.Report.Container, x.Report.Shards = x.container.Name(), len(x.shards)
	for _, s := range x.shards {
		x.Report.Bytes += s.size
	}
	if err := x.vacant(ctx); err != nil {
		return nil, err
	}
	m, err := x.bins(ctx)
	if err != nil {
		return nil, err
	}
	if len(m.Bins) == 0 && x.Report.Incomplete > 0 {
		return nil, fmt.Errorf("each of the %d samples lacks a field: choose fields that samples have together (--field): %w", x.Report.Incomplete, ErrContainer)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	x.Report.Already, err = x.draft.Finish(ctx, m, x.Force, func() error { return nil })
	return m, err
}

// vacant refuses early what the draft would refuse after all the work: a dataset that is not of these shards.
func (x *indexer) vacant(ctx context.Context) error {
	if x.Force {
		return nil
	}
	name := path.Join(x.dir, binfmt.ManifestName)
	data, err := store.ReadFile(ctx, x.src.Store, name, binfmt.MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	old, err := binfmt.ParseManifest(x.address(name), data)
	if err != nil {
		return fmt.Errorf("there is a manifest that cannot be read; replace it with --force: %w: %w", err, draft.ErrExists)
	}
	ours := make(map[string]bool, len(x.shards))
	for _, s := range x.shards {
		ours[s.path] = true
	}
	for _, b := range old.Bins {
		if b.Foreign == nil || !ours[b.DataName()] {
			return fmt.Errorf("%s is of other files (%s): write to another place, or replace it with --force: %w", x.address(name), b.DataName(), draft.ErrExists)
		}
	}
	return nil
}

// bins makes the manifest; the indexes that it names are then written.
func (x *indexer) bins(ctx context.Context) (*binfmt.Manifest, error) {
	if own, ok := x.container.(Indexed); ok {
		return x.adopt(ctx, own)
	}
	if err := x.scan(ctx); err != nil {
		return nil, err
	}
	return x.write(ctx)
}

// plan finds the container and its shards, and the version of each.
func (x *indexer) plan(ctx context.Context, containers []Container) error {
	var names []string
	for _, c := range containers {
		shards, err := c.Shards(ctx, x.src)
		if err != nil {
			return err
		}
		if len(shards) == 0 {
			if _, ok := c.(refusals); !ok && !slices.Contains(names, c.Name()) {
				names = append(names, c.Name())
			}
			continue
		}
		if x.Accept != nil {
			if err := x.Accept(c); err != nil {
				return err
			}
		}
		x.container = c
		for _, s := range shards {
			x.shards = append(x.shards, shard{Shard: s})
		}
		return x.stat(ctx)
	}
	where := make([]string, len(x.src.Names))
	for i, name := range x.src.Names {
		where[i] = x.address(name)
	}
	return fmt.Errorf("%s: nothing that can be indexed (%s): %w", strings.Join(where, ", "), strings.Join(names, ", "), ErrContainer)
}

// address is what a name of the source is called in messages.
func (x *indexer) address(name string) string { return x.src.Store.Address(name) }

func (x *indexer) stat(ctx context.Context) error {
	names := make([]string, len(x.shards))
	for i, s := range x.shards {
		names[i] = s.Name
	}
	if p, ok := x.src.Store.(store.Prefetcher); ok {
		_ = p.Prefetch(ctx, names) // Stat says what is wrong
	}
	if twice := firstTwice(names); twice != "" {
		return fmt.Errorf("%s is given twice: %w", x.address(twice), ErrContainer)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(x.Workers)
	for i := range x.shards {
		g.Go(func() error { return x.statOne(ctx, &x.shards[i]) })
	}
	return g.Wait()
}

func firstTwice(names []string) string {
	sorted := slices.Sorted(slices.Values(names))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return sorted[i]
		}
	}
	return ""
}

func (x *indexer) statOne(ctx context.Context, s *shard) error {
	info, err := x.src.Store.Stat(ctx, s.Name)
	if err != nil {
		return err
	}
	s.size, s.identity, s.path = info.Size, info.Identity, relative(x.dir, s.Name)
	if info.Dir != (x.container.Name() == binfmt.Folder) {
		return fmt.Errorf("%s: a folder, or no folder, where a %s has the other: %w", x.address(s.Name), x.container.Name(), ErrContainer)
	}
	if s.path == "." && !x.whole {
		return fmt.Errorf("%s: the dataset cannot be written into the folder that it points at: choose another place: %w", x.address(s.Name), ErrContainer)
	}
	return nil
}

// relative returns the path from a folder to a name; both are absolute and clean.
func relative(dir, name string) string {
	from, to := parts(dir), parts(name)
	n := 0
	for n < len(from) && n < len(to) && from[n] == to[n] {
		n++
	}
	up := slices.Repeat([]string{".."}, len(from)-n)
	return path.Join(append(up, to[n:]...)...)
}

func parts(name string) []string {
	name = strings.Trim(name, "/")
	if name == "" {
		return nil
	}
	return strings.Split(name, "/")
}

// begin starts a phase that goes through the shards.
func (x *indexer) begin(phase string) { x.start(Progress{Phase: phase, Total: max(x.Report.Bytes, 1)}) }

func (x *indexer) start(p Progress) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.progress = p
	x.Progress(p)
}

func (x *indexer) step(n int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.progress.Done += n
	x.Progress(x.progress)
}
