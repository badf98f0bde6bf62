package foreign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// scan learns what is in every shard, or takes it from the journal, and decides on the fields.
func (x *indexer) scan(ctx context.Context) error {
	renames := x.Fields
	if r, ok := x.container.(Renamer); ok && len(renames) == 0 {
		renames = r.Defaults()
	}
	x.begin("scan")
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(x.Workers)
	for i := range x.shards {
		g.Go(func() error {
			s := &x.shards[i]
			if err := x.scanShard(group, s, renames); err != nil {
				return fmt.Errorf("%s: %w", x.address(s.Name), err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	all := newStats(len(renames))
	for _, s := range x.shards {
		all.add(s.stats)
		x.Report.Read += s.sum.Read
		for _, w := range s.sum.Warnings {
			x.Report.Warnings = append(x.Report.Warnings, x.address(s.Name)+": "+w)
		}
	}
	if all.Rows == 0 {
		return fmt.Errorf("there is no sample in %d shards: %w", len(x.shards), ErrContainer)
	}
	var err error
	x.fields, err = choose(all, renames, len(x.Fields) > 0, x.Media)
	return err
}

func (x *indexer) scanShard(ctx context.Context, s *shard, renames []Rename) error {
	j := journal{x.draft}
	s.scanned = fmt.Sprintf("%s %s %s", x.container.Reading(), x.Policy, s.Depends) // all that the outcome depends on besides the shard
	if x.whole {
		s.scanned = "whole " + s.Compression + " " + s.scanned
	}
	s.journal = j.name(s.scanned, s.Shard, s.identity)
	if known, err := x.known(ctx, s, renames); known || err != nil {
		return err
	}
	w, err := j.create(ctx, s.journal)
	if err != nil {
		return err
	}
	s.stats = newStats(len(renames))
	to := &scanSink{w: w, renames: renames, stats: s.stats, sum: &summary{}}
	if err := x.rows(ctx, s, to); err != nil {
		return errors.Join(err, w.out.Abort())
	}
	s.sum = to.sum
	return w.finish(to.sum)
}

// known takes what an earlier run found out about a shard; false if there is nothing.
func (x *indexer) known(ctx context.Context, s *shard, renames []Rename) (bool, error) {
	if x.container.Name() == binfmt.Folder { // whose files may have changed
		return false, nil
	}
	s.stats = newStats(len(renames))
	sum, err := journal{x.draft}.read(ctx, s.journal, func(r Row) error {
		s.stats.count(r, renames)
		return nil
	})
	switch {
	case err == nil:
		s.sum = sum
		x.step(s.size)
		return true, nil
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errJournal):
		return false, nil
	}
	return false, err
}

// rows reads a shard.
func (x *indexer) rows(ctx context.Context, s *shard, to *scanSink) error {
	if x.container.Name() == binfmt.Folder {
		return x.container.Rows(ctx, x.src, s.Shard, nil, to)
	}
	if x.whole {
		return x.samples(ctx, s, reading{sum: to.sum, step: x.step, warn: to.Warn, each: func(f File, r Row) error {
			if err := look(f, r); err != nil {
				return err
			}
			return to.Row(r)
		}})
	}
	f, err := x.open(ctx, s, func(n int64) { to.sum.Read += n }, x.step)
	if err != nil {
		return err
	}
	defer f.f.Close()
	if err := x.container.Rows(ctx, x.src, s.Shard, f, to); err != nil {
		return err
	}
	f.advance(0, s.size)
	return nil
}

// open opens the version of a shard's data file that is to be indexed. read and step are told what storeFile tells.
func (x *indexer) open(ctx context.Context, s *shard, read, step func(int64)) (*storeFile, error) {
	f, err := x.src.Store.Open(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	if f.Identity() != s.identity {
		err := &store.IdentityError{Name: x.address(s.Name), Pinned: s.identity, Now: f.Identity()}
		return nil, errors.Join(fmt.Errorf("the file changed while it was indexed: run the command again: %w", err), f.Close())
	}
	return &storeFile{ctx: ctx, f: f, read: read, step: step}, nil
}

// scanSink writes the journal of one shard.
type scanSink struct {
	w       *journalWriter
	renames []Rename
	stats   *stats
	sum     *summary
}

// Row implements Sink.
func (s *scanSink) Row(r Row) error {
	s.stats.count(r, s.renames)
	s.sum.Rows++
	return s.w.row(r)
}

// Warn implements Sink.
func (s *scanSink) Warn(format string, args ...any) {
	switch n := len(s.sum.Warnings); {
	case n < maxWarnings:
		s.sum.Warnings = append(s.sum.Warnings, fmt.Sprintf(format, args...))
	case n == maxWarnings:
		s.sum.Warnings = append(s.sum.Warnings, "and more of them")
	}
}
