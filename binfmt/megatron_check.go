package binfmt

import (
	"context"
	"encoding/binary"
	"fmt"
)

// checkEvery is how many entries are checked between two looks at the context: about a millisecond.
const checkEvery = 1 << 18

// Check reads the whole file and holds every sequence and document to the format's rules: lengths are not negative, each
// sequence starts where the one before it ends, and the document array never decreases. Zero-length sequences, and documents
// without sequences, are allowed: they own no token. The error names the first entry that breaks a rule, and matches ErrIndex.
func (x *TokenIndex) Check(ctx context.Context) error {
	err := guarded(func() error {
		if err := x.checkSequences(ctx); err != nil {
			return err
		}
		return x.checkDocuments(ctx)
	})
	if err != nil {
		return fmt.Errorf("binfmt.TokenIndex.Check %s: %w", x.name, err)
	}
	return nil
}

func (x *TokenIndex) checkSequences(ctx context.Context) error {
	end := int64(0)
	for i := range x.sequences {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		off, n := le64(x.pointers[8*i:]), int64(int32(binary.LittleEndian.Uint32(x.lengths[4*i:])))
		if off != end {
			return fmt.Errorf("sequence %d lies at byte %d of the .bin, the one before it ends at %d: pointers leave no gap and are sorted (old writers counted in 32 bits, which wraps): write the .idx again: %w", i, off, end, ErrIndex)
		}
		if n < 0 || n*x.size > x.bytes-end {
			return fmt.Errorf("sequence %d has %d elements of %d bytes at byte %d: outside the .bin's %d bytes: %w", i, n, x.size, off, x.bytes, ErrIndex)
		}
		end += n * x.size
	}
	return nil
}

func (x *TokenIndex) checkDocuments(ctx context.Context) error {
	last := int64(0)
	for d := range x.documents + 1 {
		if d%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		first := x.boundary(d)
		if first < last || first > x.sequences {
			return fmt.Errorf("entry %d of the document array is %d, the one before it %d, and there are %d sequences: it never decreases: %w", d, first, last, x.sequences, ErrIndex)
		}
		last = first
	}
	return nil
}
