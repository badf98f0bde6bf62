package binfmt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
)

// Check reads the whole file and holds every sequence and document to the format's rules, as CheckTokens does.
func (x *TokenIndex) Check(ctx context.Context) error {
	err := x.mapping.read(func() error {
		_, _, err := CheckTokens(ctx, bytes.NewReader(x.data), int64(len(x.data)), x.bytes)
		return err
	})
	if err != nil {
		return fmt.Errorf("binfmt.TokenIndex.Check %s: %w", x.name, err)
	}
	return nil
}

// CheckTokens reads all of an .idx file of size bytes, whose .bin has binBytes, in order and with little memory. It returns the
// fields and the number of samples of a dataset made of it.
//
// It holds the file to the rules that its writer keeps: lengths are not negative, each sequence starts where the one before it
// ends, the last one ends with the .bin, and the document array starts with 0, never decreases and ends with the number of
// sequences. Zero-length sequences, and documents without sequences, are allowed: they own no token. The error names the first
// entry that breaks a rule, and matches ErrIndex, ErrVersion or ErrMismatch.
func CheckTokens(ctx context.Context, r io.ReaderAt, size, binBytes int64) (fields []Field, samples int64, err error) {
	head := make([]byte, min(size, idxHeadSize))
	if err := readAt(r, head, 0); err != nil {
		return nil, 0, err
	}
	h, err := parseIdxHead(head, size)
	if err != nil {
		return nil, 0, err
	}
	if err := h.checkSequences(ctx, r, binBytes); err != nil {
		return nil, 0, err
	}
	if err := h.checkDocuments(ctx, r); err != nil {
		return nil, 0, err
	}
	return h.fields(), h.sequences, nil
}

func (h idxHead) checkSequences(ctx context.Context, r io.ReaderAt, binBytes int64) error {
	lengths := idxArray{r: r, at: h.lengthsAt(), width: 4, left: h.sequences}
	pointers := idxArray{r: r, at: h.pointersAt(), width: 8, left: h.sequences}
	end := int64(0)
	for i := range h.sequences {
		n, err := lengths.next(ctx)
		if err != nil {
			return err
		}
		off, err := pointers.next(ctx)
		if err != nil {
			return err
		}
		if off != end {
			return fmt.Errorf("sequence %d lies at byte %d of the .bin, the one before it ends at %d: pointers are sorted and leave no gap (old writers counted in 32 bits, which wraps): write the .idx again: %w", i, off, end, ErrIndex)
		}
		if n < 0 || n*h.size > binBytes-end {
			return fmt.Errorf("sequence %d has %d elements of %d bytes at byte %d: outside the .bin's %d bytes: %w", i, n, h.size, off, binBytes, ErrIndex)
		}
		end += n * h.size
	}
	return checkEnd(end, binBytes)
}

func checkEnd(end, binBytes int64) error {
	if end != binBytes {
		return fmt.Errorf("its sequences end at byte %d of the .bin, which has %d: one of the two files is cut, or they do not belong together: %w", end, binBytes, ErrMismatch)
	}
	return nil
}

func (h idxHead) checkDocuments(ctx context.Context, r io.ReaderAt) error {
	index := idxArray{r: r, at: h.indexAt(), width: 8, left: h.documents + 1}
	last := int64(0)
	for d := range h.documents + 1 {
		first, err := index.next(ctx)
		if err != nil {
			return err
		}
		if d == 0 && first != 0 {
			return fmt.Errorf("document 0 starts with sequence %d, want 0: %w", first, ErrIndex)
		}
		if first < last || first > h.sequences {
			return fmt.Errorf("entry %d of the document array is %d, the one before it %d, and there are %d sequences: it never decreases: %w", d, first, last, h.sequences, ErrIndex)
		}
		last = first
	}
	return checkLast(last, h.sequences)
}

func checkLast(last, sequences int64) error {
	if last != sequences {
		return fmt.Errorf("the document array ends with %d, there are %d sequences (files of old tools have this): write the .idx again: %w", last, sequences, ErrIndex)
	}
	return nil
}

// idxArray reads an array of an .idx file in order, by the megabyte.
type idxArray struct {
	r     io.ReaderAt
	at    int64
	width int64 // of an entry, 4 or 8 bytes
	left  int64 // entries behind buf
	buf   []byte
	rest  []byte
}

func (a *idxArray) next(ctx context.Context) (int64, error) {
	if len(a.rest) == 0 {
		if err := a.fill(ctx); err != nil {
			return 0, err
		}
	}
	b := a.rest
	a.rest = b[a.width:]
	if a.width == 4 {
		return int64(int32(binary.LittleEndian.Uint32(b))), nil
	}
	return le64(b), nil
}

func (a *idxArray) fill(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n := min(a.left, (1<<20)/a.width)
	if a.buf == nil {
		a.buf = make([]byte, n*a.width)
	}
	a.rest = a.buf[:n*a.width]
	if err := readAt(a.r, a.rest, a.at); err != nil {
		return err
	}
	a.at, a.left = a.at+n*a.width, a.left-n
	return nil
}

// readAt fills b, which lies inside the file.
func readAt(r io.ReaderAt, b []byte, off int64) error {
	if n, err := r.ReadAt(b, off); n < len(b) {
		return fmt.Errorf("%d of %d bytes at offset %d: %w", n, len(b), off, err)
	}
	return nil
}
