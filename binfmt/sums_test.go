package binfmt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// memorySums is a file of sums in memory.
type memorySums struct {
	data   []byte
	closed int
	fail   error
}

func (f *memorySums) Size() int64  { return int64(len(f.data)) }
func (f *memorySums) Close() error { f.closed++; return nil }
func (f *memorySums) ReadAt(_ context.Context, b []byte, off int64) error {
	if f.fail != nil {
		return f.fail
	}
	if off < 0 || off+int64(len(b)) > f.Size() {
		return fmt.Errorf("%d bytes at %d of %d", len(b), off, f.Size())
	}
	copy(b, f.data[off:])
	return nil
}

// sumOf is the sum of a part in the tests.
func sumOf(bin int, row int64, field string) uint32 {
	return uint32(bin)<<24 | uint32(row)<<8 | uint32(field[0])
}

// sumsOf makes a file of sums.
func sumsOf(m *Manifest) []byte {
	s := NewSums(m)
	data := make([]byte, s.Size())
	copy(data, s.Header())
	for bin, b := range m.Bins {
		off, n := s.Range(bin)
		for row := range b.Samples {
			for _, f := range m.Fields {
				s.Put(data[off:off+n], row, f.Name, sumOf(bin, row, f.Name))
			}
		}
		s.Seal(data[off : off+n])
	}
	return data
}

// tars is a dataset of two tar files of 3 and 5 samples with two media fields and no sums, but for one part.
func tars(t testing.TB) *Dataset {
	t.Helper()
	fields := []Field{{Name: "image", Kind: Media}, {Name: "mask", Kind: Media}, {Name: "label", Kind: Int64}}
	m := &Manifest{Format: FormatForeign, Fields: fields}
	dir := t.TempDir()
	for bin, rows := range []int{3, 5} {
		uuid := [16]byte{byte(bin)}
		var index bytes.Buffer
		w, err := NewForeignIndexWriter(&index, fields, uuid, Tar)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			part := Part{Extent: Extent{Off: int64(512 * i), Len: 5}, Type: "image/jpeg"}
			with := part
			if bin == 1 && i == 4 {
				with.CRC, with.HasCRC = 77, true
			}
			if err := w.Append(Row{Key: fmt.Sprint(i), Parts: []Part{part, with}, Scalars: []Value{{Kind: Int64}}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(index.Bytes())
		m.Bins = append(m.Bins, Bin{Name: fmt.Sprint("bin", bin), UUID: hex.EncodeToString(uuid[:]), Samples: int64(rows), Bytes: 10240, IndexSHA256: hex.EncodeToString(sum[:]),
			Foreign: &Foreign{Container: Tar, Path: fmt.Sprintf("../%d.tar", bin), Identity: "dir:1"}})
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(bin)), index.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := NewDataset(m, func(_ context.Context, bin int) (LocalIndex, error) {
		return LocalIndex{Path: filepath.Join(dir, fmt.Sprint(bin))}, nil
	})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestSums: parts have the sums of the file, a sum in the index stays what it is, and closing the dataset closes the file.
func TestSums(t *testing.T) {
	d := tars(t)
	f := &memorySums{data: sumsOf(d.Manifest())}
	if err := d.UseSums(t.Context(), "dataset.sums", func(context.Context) (SumsFile, error) { return f, nil }); err != nil {
		t.Fatal(err)
	}
	for sample := range uint64(8) {
		bin, row, err := d.Find(sample)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"image", "mask"} {
			want := sumOf(bin, row, field)
			if sample == 7 && field == "mask" {
				want = 77
			}
			if p, err := d.Part(t.Context(), sample, field); err != nil || !p.HasCRC || p.CRC != want {
				t.Errorf("sample %d, %s: %+v, %v, want %08x", sample, field, p, err, want)
			}
		}
	}
	if _, err := d.Part(t.Context(), 0, "label"); !errors.Is(err, ErrNoField) {
		t.Errorf("a scalar: %v", err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil || f.closed != 1 {
		t.Errorf("closed %d times: %v", f.closed, err)
	}
}

// TestNoSums: without the file, with that of another dataset, and of a dataset of bins of our own, parts have what the index says.
func TestNoSums(t *testing.T) {
	d := tars(t)
	other := *d.Manifest()
	other.Classes = []string{"a"}
	f := &memorySums{data: sumsOf(&other)}
	for name, open := range map[string]func(context.Context) (SumsFile, error){
		"no file":         func(context.Context) (SumsFile, error) { return nil, fmt.Errorf("open: %w", fs.ErrNotExist) },
		"another dataset": func(context.Context) (SumsFile, error) { return f, nil },
	} {
		if err := d.UseSums(t.Context(), "dataset.sums", open); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p, err := d.Part(t.Context(), 0, "image"); err != nil || p.HasCRC || f.closed != 1 {
		t.Errorf("%+v, %v, closed %d times", p, err, f.closed)
	}
	rows := photoRows(1)
	packed := NewDataset(manifestOf(photoFields(), testUUID, rows, nil), nil)
	if err := packed.UseSums(t.Context(), "dataset.sums", nil); err != nil {
		t.Error(err)
	}
}

// TestSumsRefused: a damaged file of sums is an error that says what to do, when it is opened or when the bin is read.
func TestSumsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]byte) []byte
		want   error
		words  string
	}{
		"empty":           {func(b []byte) []byte { return nil }, ErrIndex, "0 bytes, the header alone has 64"},
		"another file":    {func(b []byte) []byte { b[0] = 'X'; return b }, ErrIndex, "58 41 53 55"},
		"version 2":       {func(b []byte) []byte { b[8] = 2; return b }, ErrVersion, "version 2"},
		"a field more":    {func(b []byte) []byte { b[12]++; return b }, ErrIndex, "3 fields and 8 samples"},
		"reserved bytes":  {func(b []byte) []byte { b[24] = 1; return b }, ErrIndex, "--checksum"},
		"cut":             {func(b []byte) []byte { return b[:len(b)-1] }, ErrIndex, "135 bytes, want 136"},
		"longer":          {func(b []byte) []byte { return append(b, 0) }, ErrIndex, "137 bytes, want 136"},
		"a sum changed":   {func(b []byte) []byte { b[64]++; return b }, ErrIndex, "the sums of bin 0 at offset 64"},
		"its sum changed": {func(b []byte) []byte { b[64+3*8]++; return b }, ErrIndex, "--checksum"},
	} {
		d := tars(t)
		f := &memorySums{data: c.change(sumsOf(d.Manifest()))}
		err := d.UseSums(t.Context(), "/set/dataset.sums", func(context.Context) (SumsFile, error) { return f, nil })
		if err == nil {
			_, err = d.Part(t.Context(), 0, "image")
		} else if f.closed != 1 {
			t.Errorf("%s: closed %d times", name, f.closed)
		}
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "/set/dataset.sums") {
			t.Errorf("%s: %v, want %v with %q", name, err, c.want, c.words)
		}
	}
	d := tars(t)
	broken := errors.New("no answer")
	if err := d.UseSums(t.Context(), "s", func(context.Context) (SumsFile, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// FuzzSums: any file is refused, or gives a sum for every part.
func FuzzSums(f *testing.F) {
	m := tars(f).Manifest()
	f.Add(sumsOf(m))
	f.Add(make([]byte, 136))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := OpenSums(t.Context(), m, "memory", &memorySums{data: data})
		if err != nil {
			if !errors.Is(err, ErrIndex) && !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrVersion) {
				t.Fatalf("an error of no class: %v", err)
			}
			return
		}
		for bin := range m.Bins {
			off, n := r.Range(bin)
			good := CRC32C(0, data[off:off+n-4]) == binary.LittleEndian.Uint32(data[off+n-4:])
			if _, err := r.WithSums(t.Context(), nil, bin); good != (err == nil) {
				t.Fatalf("bin %d: %v", bin, err)
			}
		}
	})
}
