package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// PartsCreator is implemented by stores in which parts of one file can be written at the same time.
type PartsCreator interface {
	// CreateParts is Create for a file whose parts are written in any order and at the same time. errors.ErrUnsupported: here files
	// are written in order only.
	CreateParts(ctx context.Context, name string) (PartsWriter, error)
}

// PartsWriter writes one new file. WritePart may be called by several goroutines at once; Close and Abort when none of these calls is
// under way.
type PartsWriter interface {
	// WritePart writes the bytes from off on: those of data, one after the other. It does not keep data. After an error the file
	// can only be given up.
	WritePart(ctx context.Context, off int64, data [][]byte) error
	// Close makes the file durable and visible as Writer.Close does. Parts that leave a hole or overlap are fs.ErrInvalid.
	Close() error
	// Abort is that of a Writer.
	Abort() error
}

// CreateParts is that of a PartsCreator, and errors.ErrUnsupported of another store.
func CreateParts(ctx context.Context, s Store, name string) (PartsWriter, error) {
	if c, ok := s.(PartsCreator); ok {
		return c.CreateParts(ctx, name)
	}
	return nil, unsupported("CreateParts", s.Address(name))
}

// Claimer is implemented by stores in which a process can hold a name against others.
type Claimer interface {
	// Claim holds a name until Release, or until the process ends or loses the store: others notice the latter at once (store/dir) or
	// after a minute (store/hdfs). It makes missing parent folders, and no file: the name is in no listing, and a file of the same name is not
	// touched. A name that is held matches fs.ErrExist. What killed writers left in the name's folder is removed, as far as can be told. errors.ErrUnsupported: here names
	// cannot be held.
	Claim(ctx context.Context, name string) (Claim, error)
}

// ErrNotHeld: a claim was released or lost, and another process may have the name. It matches ErrUnavailable.
var ErrNotHeld = fmt.Errorf("%w: it is not held any more", ErrUnavailable)

// Claim is a name that is held.
type Claim interface {
	// Held returns nil if nobody else can have had the name since Claim. An error that matches ErrNotHeld says that somebody may have; after any other it is
	// not known.
	Held(ctx context.Context) error
	// Release lets the name go. It may be called again.
	Release() error
}

// Span is a run of a file's bytes.
type Span struct{ Off, Len int64 }

// JoinSpans sorts the spans of a file's parts and returns the length of the file that they make. A hole or an overlap is fs.ErrInvalid.
func JoinSpans(spans []Span) (size int64, err error) {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.Len, b.Len)) })
	for _, s := range spans {
		if s.Off != size || s.Len < 0 {
			return 0, fmt.Errorf("%w: a part begins at byte %d, the parts before it end at %d", fs.ErrInvalid, s.Off, size)
		}
		size += s.Len
	}
	return size, nil
}

// lengthOf is how many bytes pieces hold.
func lengthOf(pieces [][]byte) (n int64) {
	for _, p := range pieces {
		n += int64(len(p))
	}
	return n
}

// unsupported is the answer of a store that cannot do something.
func unsupported(op, name string) error {
	return fmt.Errorf("store.%s %s: %w", op, name, errors.ErrUnsupported)
}
