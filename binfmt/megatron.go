package binfmt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
)

// Names of the fields of a dataset that was indexed from Megatron files.
const (
	TokensField = "tokens"
	ModeField   = "mode"
)

// TokenIndex is one mapped Megatron .idx file: the sequences of a .bin file of tokens and the documents that they form. Its
// readers may run concurrently with each other, not with Close. What it returns does not refer to the mapping.
//
// Opening it reads a few pages only, whatever the number of sequences; Check reads all.
type TokenIndex struct {
	mapping
	place int   // of the bin in its manifest
	bytes int64 // of the .bin
	idxHead
	lengths  []byte // each array's memory goes on to the end of the file
	pointers []byte
	index    []byte
	modes    []byte
}

// OpenTokenIndex maps an .idx file and checks its head, its size, where its arrays start and end, and that they cover exactly the
// binBytes of the .bin file beside it. It keeps a descriptor of the file until Close. What lies between is checked as it is read, and
// all at once by Check. Errors match ErrIndex, ErrVersion, or, if the two files do not belong together, ErrMismatch. Every method that
// reads compares afterwards what the file is with what it was when it was opened: a *ChangedError says that it was written to.
func OpenTokenIndex(index LocalIndex, binBytes int64) (*TokenIndex, error) {
	file, err := mapFile(index)
	if err != nil {
		return nil, fmt.Errorf("binfmt.OpenTokenIndex %s: %w", index.Path, err)
	}
	x := &TokenIndex{mapping: file, bytes: binBytes}
	if err := x.mapping.read(x.load); err != nil {
		return nil, errors.Join(fmt.Errorf("binfmt.OpenTokenIndex %s: %w", index.Path, err), x.Close())
	}
	return x, nil
}

func (x *TokenIndex) load() (err error) {
	if x.idxHead, err = parseIdxHead(x.data[:min(len(x.data), idxHeadSize)], int64(len(x.data))); err != nil {
		return err
	}
	x.lengths, x.pointers = x.data[x.lengthsAt():], x.data[x.pointersAt():]
	x.index, x.modes = x.data[x.indexAt():], x.data[x.modesAt():]
	return x.ends()
}

// ends checks the first and last entries of the arrays, and with them the size of the .bin.
func (x *TokenIndex) ends() error {
	end := int64(0)
	if x.sequences > 0 {
		if p := le64(x.pointers); p != 0 {
			return fmt.Errorf("sequence 0 lies at byte %d of the .bin, want 0: %w", p, ErrIndex)
		}
		last, err := x.extent(x.sequences - 1)
		if err != nil {
			return err
		}
		end = last.Off + last.Len
	}
	if err := checkEnd(end, x.bytes); err != nil {
		return err
	}
	if first := x.boundary(0); first != 0 {
		return fmt.Errorf("document 0 starts with sequence %d, want 0: %w", first, ErrIndex)
	}
	return checkLast(x.boundary(x.documents), x.sequences)
}

// openTokensOf maps the .idx of the bin at place in the manifest and holds it against the manifest.
func openTokensOf(index LocalIndex, m *Manifest, place int) (*TokenIndex, error) {
	b := m.Bins[place]
	x, err := OpenTokenIndex(index, b.Bytes)
	if err != nil {
		return nil, err
	}
	x.place = place
	if want := m.Fields; !slices.Equal(x.fields(), want) || x.sequences != b.Samples {
		return nil, errors.Join(fmt.Errorf("binfmt.OpenBin %s: %d samples with the fields %v, the manifest says %d with %v: it was written again since: index it again: %w",
			index.Path, x.sequences, x.fields(), b.Samples, want, ErrMismatch), x.Close())
	}
	return x, nil
}

// Close unmaps the file. A second call does nothing.
func (x *TokenIndex) Close() error {
	x.lengths, x.pointers, x.index, x.modes = nil, nil, nil, nil
	if err := x.close(); err != nil {
		return fmt.Errorf("binfmt.TokenIndex.Close %s: %w", x.name, err)
	}
	return nil
}

// Dtype is the NumPy name of the tokens' type, little-endian; TokenSize knows it.
func (x *TokenIndex) Dtype() string { return x.dtype }

// Sequences returns the number of sequences.
func (x *TokenIndex) Sequences() int64 { return x.sequences }

// Rows is Sequences: each is one sample.
func (x *TokenIndex) Rows() int64 { return x.sequences }

// Documents returns the number of documents.
func (x *TokenIndex) Documents() int64 { return x.documents }

// Tokens returns the number of tokens of all sequences.
func (x *TokenIndex) Tokens() int64 { return x.bytes / x.size }

// HasModes tells whether every sequence has a mode.
func (x *TokenIndex) HasModes() bool { return x.modal }

// Lengths fills dst with the numbers of tokens of the sequences from first on.
func (x *TokenIndex) Lengths(dst []uint32, first int64) error {
	if len(dst) == 0 {
		return nil
	}
	last := first + int64(len(dst)) - 1
	if first < 0 || last >= x.sequences {
		return fmt.Errorf("binfmt.TokenIndex.Lengths %s: %d to %d of %d: %w", x.name, first, last, x.sequences, ErrNoSample)
	}
	return x.read("Lengths", first, x.sequences, func() error {
		src := x.lengths[4*first:]
		for i := range dst {
			n := int32(binary.LittleEndian.Uint32(src[4*i:]))
			if n < 0 {
				return fmt.Errorf("the length of sequence %d is %d: %w", first+int64(i), n, ErrIndex)
			}
			dst[i] = uint32(n)
		}
		return nil
	})
}

// Extent returns where sequence i lies. It is inside the .bin and has whole elements.
func (x *TokenIndex) Extent(i int64) (Extent, error) {
	var e Extent
	err := x.read("Extent", i, x.sequences, func() (err error) {
		e, err = x.extent(i)
		return err
	})
	return e, err
}

func (x *TokenIndex) extent(i int64) (Extent, error) {
	off, n := le64(x.pointers[8*i:]), int64(int32(binary.LittleEndian.Uint32(x.lengths[4*i:])))
	if n < 0 || off < 0 || off%x.size != 0 || off > x.bytes || n*x.size > x.bytes-off {
		return Extent{}, fmt.Errorf("sequence %d has %d elements of %d bytes at byte %d: outside the .bin's %d bytes: %w", i, n, x.size, off, x.bytes, ErrIndex)
	}
	return Extent{Bin: x.place, Off: off, Len: n * x.size}, nil
}

// Window returns where the n tokens of sequence i from its token off lie. A window that is not inside the sequence matches ErrShort.
func (x *TokenIndex) Window(i, off, n int64) (Extent, error) {
	e, err := x.Extent(i)
	if err != nil {
		return Extent{}, err
	}
	if length := e.Len / x.size; off < 0 || n < 0 || off > length || n > length-off {
		return Extent{}, fmt.Errorf("binfmt.TokenIndex.Window %s: tokens %d to %d of sequence %d, which has %d: %w", x.name, off, off+n, i, length, ErrShort)
	}
	return Extent{Bin: e.Bin, Off: e.Off + off*x.size, Len: n * x.size}, nil
}

// Document returns the sequences of document d: first to end-1. Documents without sequences exist.
func (x *TokenIndex) Document(d int64) (first, end int64, err error) {
	err = x.read("Document", d, x.documents, func() error {
		first, end = x.boundary(d), x.boundary(d+1)
		if first < 0 || end < first || end > x.sequences {
			return fmt.Errorf("document %d holds the sequences from %d to %d of %d: the document array is not sorted: %w", d, first, end, x.sequences, ErrIndex)
		}
		return nil
	})
	return first, end, err
}

func (x *TokenIndex) boundary(d int64) int64 { return le64(x.index[8*d:]) }

// Mode returns the mode of sequence i, which multimodal files have: 0 is text, 1 an image. Without modes it is 0.
func (x *TokenIndex) Mode(i int64) (int8, error) {
	var mode int8
	err := x.read("Mode", i, x.sequences, func() error {
		if x.HasModes() {
			mode = int8(x.modes[i])
		}
		return nil
	})
	return mode, err
}

// Key returns the key of a sample: the sequence's number.
func (x *TokenIndex) Key(row int64) (string, error) {
	err := x.read("Key", row, x.sequences, func() error { return nil })
	return strconv.FormatInt(row, 10), err
}

// Part returns where a sequence lies. The field is TokensField.
func (x *TokenIndex) Part(row int64, field string) (Part, error) {
	if field != TokensField {
		return Part{}, fmt.Errorf("binfmt.Part %s: field %q: %w", x.name, field, ErrNoField)
	}
	e, err := x.Extent(row)
	return Part{Extent: e, Type: "application/octet-stream"}, err
}

// Scalar returns the mode of a sequence. The field is ModeField.
func (x *TokenIndex) Scalar(row int64, field string) (Value, error) {
	if field != ModeField || !x.HasModes() {
		return Value{}, fmt.Errorf("binfmt.Scalar %s: field %q: %w", x.name, field, ErrNoField)
	}
	mode, err := x.Mode(row)
	return Value{Kind: Int64, Int: int64(mode)}, err
}

// read runs f for entry i of n, and puts file and entry before its error.
func (x *TokenIndex) read(op string, i, n int64, f func() error) error {
	if x.closed() {
		return fmt.Errorf("binfmt.TokenIndex.%s %s: %w", op, x.name, fs.ErrClosed)
	}
	if i < 0 || i >= n {
		return fmt.Errorf("binfmt.TokenIndex.%s %s: %d of %d: %w", op, x.name, i, n, ErrNoSample)
	}
	if err := x.mapping.read(f); err != nil {
		return fmt.Errorf("binfmt.TokenIndex.%s %s: entry %d: %w", op, x.name, i, err)
	}
	return nil
}
