package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
)

// CRC32C implements store.Checksummer: DataNodes make it of the sums that they keep with their replicas, and send 4 bytes for a block. Erasure-coded files, files that were being
// written when they were opened, and files whose writers chose sums of another kind have none: errors.ErrUnsupported.
func (f *file) CRC32C(ctx context.Context) (uint32, error) {
	sum, err := f.sum(ctx)
	if err != nil {
		return 0, f.s.failed("CRC32C", f.name, err)
	}
	return sum, nil
}

func (f *file) sum(ctx context.Context) (uint32, error) {
	if err := f.check(ctx, nil); err != nil {
		return 0, err
	}
	switch {
	case f.l.striped != nil:
		return 0, fmt.Errorf("%w: the file is erasure-coded", errors.ErrUnsupported)
	case f.l.open:
		return 0, fmt.Errorf("%w: the file is being written", errors.ErrUnsupported)
	case f.l.size == 0:
		return 0, nil
	}
	return f.s.sumOf(ctx, f.l)
}

// sumOf joins the sums of a file's blocks.
func (s *Store) sumOf(ctx context.Context, l *layout) (uint32, error) {
	blocks, err := s.blocksOf(ctx, l, 0, l.size)
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	sums := make([]uint32, len(blocks))
	s.each(len(blocks), func(i int) {
		if ctx.Err() != nil {
			return
		}
		var err error
		if sums[i], err = s.blockSum(ctx, l, blocks[i]); err != nil {
			stop(err) // the first one counts
		}
	})
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	all := uint32(0)
	for i, b := range blocks {
		all = store.JoinCRC32C(all, sums[i], b.len)
	}
	return all, nil
}

// blockSum asks the places of a block for its CRC32C, one after the other and each once: who gets no answer can still read.
func (s *Store) blockSum(ctx context.Context, l *layout, b *block) (uint32, error) {
	r := blockRead{s: s, l: l, b: b}
	for places := r.places(ctx); len(places) > 0; {
		p := places[0]
		sum, err := s.askSum(ctx, r.b, p)
		switch {
		case err == nil:
			return sum, nil
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case errors.Is(err, errors.ErrUnsupported):
			return 0, err
		case errors.Is(err, datanode.ErrClosed):
			return 0, fmt.Errorf("%w: the store is closed", fs.ErrClosed)
		}
		c := causeOf(err)
		if c == byConnect {
			s.bad.nodeFailed(p.node, time.Now())
		}
		switch r.trial.after(p, c, err) {
		case samePlace:
		case renewAndSame: // the node is the same, the block's token another
			if err := r.renewSoon(ctx, true); err != nil {
				return 0, err
			}
		default:
			places = places[1:]
		}
	}
	return 0, r.trial.error(r.b)
}

// askSum asks one place, which gets the time that reading its sums may take: 4 bytes for 512.
func (s *Store) askSum(ctx context.Context, b *block, p place) (uint32, error) {
	gates := s.gatesOf(ctx)
	if err := gates.enter(ctx, p.node); err != nil {
		return 0, err
	}
	defer gates.leave(p.node)
	deadline, ok := ctx.Deadline()
	limited, stop := context.WithTimeout(ctx, patienceFor(b.len/128, time.Until(deadline), ok))
	defer stop()
	sum, err := s.data.CRC32C(limited, p.node.transfer(), datanode.Block{ExtendedBlock: b.ext, Token: b.token})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = errSlow
	}
	return sum, err
}
