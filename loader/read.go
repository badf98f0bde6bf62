package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// piece is the stored bytes of one part, to be read into buf.
type piece struct {
	binfmt.Extent
	buf []byte // of length Len
	err error  // *corruptError when the bytes are wrong on every replica
}

// corruptError says that no replica of a part has the right bytes.
type corruptError struct {
	tried int
	cause error
}

func (e *corruptError) Error() string {
	return fmt.Sprintf("checksum is wrong on every replica (%d read): %v", e.tried, e.cause)
}

func (e *corruptError) Unwrap() error { return e.cause }

func (e *corruptError) add(cause error) { e.tried, e.cause = e.tried+1, cause }

// read fills pieces of one bin with few, sorted reads and checks every one. A piece that is wrong is
// read from the other replicas; when all are wrong its err says so, and the others are still good. The
// error returned is of the store, after retries.
func (d *dataset) read(ctx context.Context, bin int, pieces []*piece) (failures int, err error) {
	if d.manifest.Bins[bin].IsFolder() {
		return d.readFiles(ctx, bin, pieces)
	}
	slices.SortFunc(pieces, func(a, b *piece) int { return cmp.Compare(a.Off, b.Off) })
	h, err := d.acquire(ctx, bin)
	if err != nil {
		return 0, err
	}
	defer d.bins.Release(h)
	name := d.binName(bin)
	ranges := make([]store.Range, len(pieces))
	for i, p := range pieces {
		ranges[i] = store.Range{Off: p.Off, Buf: p.buf}
	}
	err = again(ctx, func() error { return h.ReadRanges(ctx, ranges) })
	if err != nil && store.ClassOf(err) != store.Corrupt {
		return 0, fmt.Errorf("read %s at offset %d: %w", d.address(bin, ""), pieces[0].Off, err)
	}
	for _, p := range pieces {
		wrong := err // the store itself found wrong bytes somewhere: believe none
		if wrong == nil {
			wrong = p.Check(p.buf)
		}
		if wrong == nil {
			continue
		}
		failures++
		if err := again(ctx, func() error { return d.readOthers(ctx, h, name, p) }); err != nil {
			return failures, fmt.Errorf("read %s at offset %d: %w", d.address(bin, ""), p.Off, err)
		}
	}
	return failures, nil
}

func (d *dataset) acquire(ctx context.Context, bin int) (h *store.OpenFile, err error) {
	err = again(ctx, func() error {
		h, err = d.bins.Acquire(ctx, bin)
		return err
	})
	return h, err
}

// readOthers reads a piece replica by replica until one has the right bytes; else it sets p.err.
func (d *dataset) readOthers(ctx context.Context, h *store.OpenFile, name string, p *piece) error {
	p.err = nil
	rr, ok := h.File.(store.ReplicaReader)
	if !ok {
		return readTwice(ctx, h, p)
	}
	rows, err := d.store.Locate(ctx, name, p.Off, p.Len)
	if err != nil {
		return err
	}
	blocks := store.BlocksOf(rows)
	wrong := &corruptError{}
	var failed error
	for choice := range choices(blocks) {
		err := readChoice(ctx, rr, p, blocks, choice)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return readTwice(ctx, h, p)
		case err == nil:
			if err = p.Check(p.buf); err == nil {
				return nil
			}
			wrong.add(err)
		case store.ClassOf(err) == store.Corrupt:
			wrong.add(err)
		case store.ClassOf(err) == store.NotFound: // the replica has gone since it was located
		default:
			failed = err // this one may have the right bytes: the sample is not known to be bad
		}
	}
	if failed == nil && wrong.tried == 0 {
		failed = fmt.Errorf("no replica is known: %w", store.ErrUnavailable)
	}
	if failed == nil {
		p.err = wrong
	}
	return failed
}

// readTwice is for files whose replicas cannot be told apart: what is wrong twice is wrong.
func readTwice(ctx context.Context, h *store.OpenFile, p *piece) error {
	err := h.ReadRanges(ctx, []store.Range{{Off: p.Off, Buf: p.buf}})
	if err != nil && store.ClassOf(err) != store.Corrupt {
		return err
	}
	if err == nil {
		err = p.Check(p.buf)
	}
	if err != nil {
		p.err = &corruptError{tried: 2, cause: err}
	}
	return nil
}

// readChoice reads p with block i from its replica choice[i].
func readChoice(ctx context.Context, rr store.ReplicaReader, p *piece, blocks store.Blocks, choice []int) error {
	for i, b := range blocks {
		from, to := max(p.Off, b.Off), min(p.Off+p.Len, b.End)
		r := store.Range{Off: from, Buf: p.buf[from-p.Off : to-p.Off]}
		if err := rr.ReadReplica(ctx, b.Nodes[choice[i]], []store.Range{r}); err != nil {
			return err
		}
	}
	return nil
}

// maxChoices bounds the combinations of replicas tried for a part that straddles blocks.
const maxChoices = 64

// choices yields the combinations of one replica a block; the slice is reused.
func choices(blocks store.Blocks) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		choice := make([]int, len(blocks))
		for range maxChoices {
			if len(blocks) == 0 || !yield(choice) {
				return
			}
			i := 0
			for ; i < len(blocks); i++ {
				if choice[i]++; choice[i] < len(blocks[i].Nodes) {
					break
				}
				choice[i] = 0
			}
			if i == len(blocks) {
				return
			}
		}
	}
}

// tries is how often something that may pass is tried before it stops the run.
const tries = 4

// passing tells whether what failed may succeed later.
func passing(err error) bool {
	var t *transform.Error
	if errors.As(err, &t) {
		return t.Kind == transform.KindCrash || t.Kind == transform.KindDeadline || t.Kind == transform.KindIO
	}
	var short *worker.ShortBufferError
	if errors.As(err, &short) {
		return false
	}
	for _, fatal := range []error{binfmt.ErrMismatch, binfmt.ErrHeader, binfmt.ErrVersion, binfmt.ErrIndex, binfmt.ErrChanged, binfmt.ErrNoSample} {
		if errors.Is(err, fatal) {
			return false
		}
	}
	class := store.ClassOf(err)
	return class == store.Retryable || class == store.ClassUnknown
}

// again calls f until it succeeds, fails for good, or has failed tries times.
func again(ctx context.Context, f func() error) error {
	wait := 50 * time.Millisecond
	for i := 1; ; i++ {
		err := f()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if i == tries || !passing(err) {
			return err
		}
		if store.Sleep(ctx, wait) != nil {
			return err
		}
		wait *= 2
	}
}
