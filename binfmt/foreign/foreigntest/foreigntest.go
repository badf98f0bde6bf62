// Package foreigntest reads containers whole, as tests of the packages that know them need it.
package foreigntest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
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

// Pack packs a source into a new dataset with one container, and reads all samples of it, each part checked.
func Pack(t testing.TB, c foreign.Container, src foreign.Source, o foreign.PackOptions) []Sample {
	t.Helper()
	root := t.TempDir()
	m, err := foreign.Pack(t.Context(), []foreign.Container{c}, src, Store(t, root), "/set", o)
	if err != nil {
		t.Fatal(err)
	}
	return Samples(t, m, filepath.Join(root, "set"))
}

// Samples reads all samples of a packed dataset in a folder of this machine.
func Samples(t testing.TB, m *binfmt.Manifest, folder string) []Sample {
	t.Helper()
	d := binfmt.NewDataset(m, func(_ context.Context, bin int) (binfmt.LocalIndex, error) {
		return binfmt.LocalIndex{Path: filepath.Join(folder, m.Bins[bin].IndexName())}, nil
	})
	defer d.Close()
	samples := make([]Sample, m.Samples())
	for i := range samples {
		if err := samples[i].read(t.Context(), d, uint64(i), folder); err != nil {
			t.Fatalf("sample %d: %v", i, err)
		}
	}
	return samples
}

func (s *Sample) read(ctx context.Context, d *binfmt.Dataset, sample uint64, folder string) (err error) {
	*s = Sample{Parts: map[string]binfmt.Part{}, Bytes: map[string][]byte{}, Scalars: map[string]binfmt.Value{}}
	if s.Key, err = d.Key(ctx, sample); err != nil {
		return err
	}
	for _, f := range d.Manifest().Fields {
		if !f.Kind.InBin() {
			s.Scalars[f.Name], err = d.Scalar(ctx, sample, f.Name)
		} else if s.Parts[f.Name], err = d.Part(ctx, sample, f.Name); err == nil {
			p := s.Parts[f.Name]
			s.Bytes[f.Name], err = piece(filepath.Join(folder, d.Manifest().Bins[p.Bin].DataName()), p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func piece(file string, p binfmt.Part) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, p.Len)
	_, err = f.ReadAt(b, p.Off)
	return b, errors.Join(err, p.Check(b))
}
