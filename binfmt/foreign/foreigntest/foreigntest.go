// Package foreigntest reads containers whole, as tests of the packages that know them need it.
package foreigntest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// Sample is a sample with the bytes of its parts.
type Sample struct {
	Shard   string
	Key     string
	Parts   map[string]binfmt.Part
	Bytes   map[string][]byte
	Scalars map[string]binfmt.Value
}

// Store opens the store of a folder of this machine. Names in it begin with a slash.
func Store(t testing.TB, root string) store.Store {
	t.Helper()
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// Read gives all samples that a container finds, and the warnings. Every part's place is checked, and its checksum if it has one.
func Read(ctx context.Context, c foreign.Container, src foreign.Source) (samples []Sample, warnings []string, err error) {
	shards, err := c.Shards(ctx, src)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range shards {
		to := &sink{src: src, shard: s.Name}
		if err := to.read(ctx, c, s); err != nil {
			return samples, warnings, fmt.Errorf("%s: %w", s.Name, err)
		}
		samples, warnings = append(samples, to.samples...), append(warnings, to.warnings...)
	}
	return samples, warnings, nil
}

// Reader is a foreign.File of bytes in memory.
type Reader []byte

// Size implements foreign.File.
func (b Reader) Size() int64 { return int64(len(b)) }

// ReadAt implements foreign.File.
func (b Reader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || int64(len(p)) > b.Size()-off {
		return 0, fmt.Errorf("offset %d, %d bytes: outside the %d bytes: %w", off, len(p), len(b), store.ErrRange)
	}
	return copy(p, b[off:]), nil
}

type sink struct {
	src      foreign.Source
	shard    string
	file     foreign.File
	samples  []Sample
	warnings []string
}

func (s *sink) read(ctx context.Context, c foreign.Container, shard foreign.Shard) error {
	if c.Name() != binfmt.Folder {
		f, err := whole(ctx, s.src.Store, shard.Name)
		if err != nil {
			return err
		}
		s.file = f
	}
	return c.Rows(ctx, s.src, shard, s.file, s)
}

func whole(ctx context.Context, st store.Store, name string) (Reader, error) {
	const most = 1 << 30
	b, err := store.ReadFile(ctx, st, name, most)
	return b, err
}

// Row implements foreign.Sink.
func (s *sink) Row(r foreign.Row) error {
	if err := binfmt.CheckKey(r.Key); err != nil {
		return err
	}
	out := Sample{Shard: s.shard, Key: r.Key, Parts: map[string]binfmt.Part{}, Bytes: map[string][]byte{}, Scalars: maps.Clone(r.Scalars)}
	for _, p := range r.Parts {
		b, err := s.bytes(p)
		if err != nil {
			return fmt.Errorf("sample %q, field %q: %w", r.Key, p.Field, err)
		}
		if _, twice := out.Parts[p.Field]; twice {
			return fmt.Errorf("sample %q has the field %q twice", r.Key, p.Field)
		}
		if err := errors.Join(p.Check(b), binfmt.CheckFieldName(p.Field)); err != nil {
			return err
		}
		out.Parts[p.Field], out.Bytes[p.Field] = p.Part, b
	}
	s.samples = append(s.samples, out)
	return nil
}

func (s *sink) bytes(p foreign.Part) ([]byte, error) {
	f := s.file
	if p.File != "" {
		r, err := whole(context.Background(), s.src.Store, path.Join(s.shard, p.File))
		if err != nil {
			return nil, err
		}
		f = r
	}
	if p.Len < 0 || p.Off < 0 || p.Len > f.Size()-p.Off {
		return nil, fmt.Errorf("offset %d, %d bytes: outside the %d bytes", p.Off, p.Len, f.Size())
	}
	b := make([]byte, p.Len)
	_, err := f.ReadAt(b, p.Off)
	return b, err
}

// Warn implements foreign.Sink.
func (s *sink) Warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}
