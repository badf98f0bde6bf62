// Package pack knows how to make a dataset from a folder or a list of files, and how to look at one
// and check all of it.
package pack

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/store"
)

// ErrExists: there is another dataset at the destination.
var ErrExists = draft.ErrExists

// Options configure Pack. The zero value is usable.
type Options struct {
	// Workers is how many files are read at the same time. Default: the number of processors.
	Workers int
	// BlockSize in bytes: a part that is not larger lies in one block. A multiple of 64. Default: the
	// destination's, else 128 MiB.
	BlockSize int64
	// BinSize is the size in bytes at which a bin is full. Default 16 GiB.
	BinSize int64
	// SkipBad leaves out empty files and, in folders, files of no known media type. Default: they are
	// an error.
	SkipBad bool
	// Force replaces another dataset at the destination. Default: that is an error.
	Force bool
	// Progress is called now and then, by one goroutine at a time. Default: nobody is told.
	Progress func(Progress)
	// Report is filled in if it is not nil, also when Pack fails.
	Report *Report

	testing struct{ chunk int }
}

// Progress says how far Pack or Verify is.
type Progress struct {
	Phase       string // "scan", "write" or "verify"
	Done, Total int64  // files while scanning, else bytes
}

// Report says what Pack did besides packing.
type Report struct {
	Hidden  int      `json:"hidden"`  // files and folders left out because their name starts with a dot
	Skipped []string `json:"skipped"` // bad files left out, each with the reason
	Already bool     `json:"already"` // the same dataset was there: nothing was written
}

// Validate returns what is wrong with the options, all at once.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("pack.Options: "+format, args...)) }
	if o.Workers < 0 || o.Workers > 4096 {
		bad("Workers is %d, want 0 (the default) to 4096", o.Workers)
	}
	if err := o.sizes().Validate(); err != nil {
		bad("%w", err)
	}
	return errors.Join(errs...)
}

func (o Options) sizes() draft.Sizes { return draft.Sizes{Block: o.BlockSize, Bin: o.BinSize} }

// withDefaults fills in what is not given.
func (o Options) withDefaults() Options {
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Report == nil {
		o.Report = new(Report)
	}
	if o.testing.chunk == 0 {
		o.testing.chunk = scanChunk
	}
	return o
}

// Pack reads src twice, once to learn everything about it and once to copy it, and makes a dataset
// in the folder dir of dst. The dataset appears at the end, in one step, with its manifest. Until
// then everything is in the folder .stepahead-pack inside dir; after an error or a kill it stays
// there, and the same call goes on from it. Equal input gives equal bytes, whatever the number of
// workers and of interruptions. Only one Pack may work on a destination at a time.
func Pack(ctx context.Context, src Source, dst store.Store, dir string, o Options) (*binfmt.Manifest, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	sizes, err := o.sizes().Of(dst) // which the store's block size may make wrong
	if err != nil {
		return nil, fmt.Errorf("pack.Options: %w", err)
	}
	p := &packer{Options: o.withDefaults(), sizes: sizes, draft: draft.Draft{Store: dst, Dir: dir, Work: workDir}}
	if err := apart(src, dst, dir); err != nil {
		return nil, err
	}
	list, err := src.List(ctx)
	if err != nil {
		return nil, err
	}
	m, err := p.run(ctx, list)
	if err != nil {
		return nil, p.draft.Advise("pack", fmt.Errorf("pack: %w", err))
	}
	return m, nil
}

// apart refuses to write into what is read.
func apart(src Source, dst store.Store, dir string) error {
	to, ok := draft.LocalPath(dst, dir)
	if !ok {
		return nil
	}
	for _, from := range src.Local() {
		abs, err := filepath.Abs(from)
		if err != nil {
			return fmt.Errorf("pack: %w", err)
		}
		if draft.Within(filepath.ToSlash(abs), filepath.ToSlash(to)) {
			return fmt.Errorf("pack: the destination %s lies inside the source %s: choose another place: %w", to, abs, ErrSource)
		}
	}
	return nil
}

type packer struct {
	Options
	sizes draft.Sizes
	draft draft.Draft
	mu    sync.Mutex
}

func (p *packer) run(ctx context.Context, list *Listing) (*binfmt.Manifest, error) {
	p.Report.Hidden = list.Hidden
	j, err := openJournal(ctx, p.draft)
	if err != nil {
		return nil, err
	}
	items, bins, err := p.learn(ctx, list, j)
	if err != nil {
		return nil, err
	}
	m := draft.Manifest(list.Fields, list.Classes, bins)
	if err := m.Validate(); err != nil {
		return nil, err
	}
	p.Report.Already, err = p.draft.Finish(ctx, m, p.Force, func() error { return p.write(ctx, list, items, bins) })
	if errors.Is(err, ErrChanged) {
		err = errors.Join(err, j.forget(ctx))
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// learn is the first pass and the plan made from it.
func (p *packer) learn(ctx context.Context, list *Listing, j *journal) ([]item, []*draft.Bin, error) {
	progress := Progress{Phase: "scan", Total: int64(len(list.Entries))}
	s := &scanner{files: filesIn(list.Store), journal: j, workers: p.Workers, chunk: p.testing.chunk, step: func(files int, _ int64) {
		progress.Done += int64(files)
		p.Progress(progress)
	}}
	items, err := s.scan(ctx, list.Entries)
	if err != nil {
		return nil, nil, err
	}
	items, p.Report.Skipped, err = sift(items, list, p.SkipBad)
	if err != nil {
		return nil, nil, err
	}
	bins := layout(items, p.sizes)
	var g errgroup.Group
	g.SetLimit(p.Workers)
	for i, b := range bins {
		g.Go(func() error { return b.Seal(i, list.Fields) })
	}
	return items, bins, errors.Join(g.Wait(), ctx.Err())
}

// write is the second pass.
func (p *packer) write(ctx context.Context, list *Listing, items []item, bins []*draft.Bin) error {
	progress := Progress{Phase: "write"}
	for _, b := range bins {
		progress.Total += b.Bytes
	}
	together := min(p.Workers, len(bins))
	w := &binWriter{files: filesIn(list.Store), draft: p.draft, fields: list.Fields, ahead: 2*p.Workers/together + 2, step: func(n int64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		progress.Done += n
		p.Progress(progress)
	}}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(together)
	for _, b := range bins {
		g.Go(func() error { return w.write(ctx, b, items[b.First:b.First+len(b.Rows)]) })
	}
	return g.Wait()
}
