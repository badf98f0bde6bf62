package binfmt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

var testUUID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func drawValue(t *rapid.T, kind Kind) Value {
	switch kind {
	case Int64:
		return Value{Kind: kind, Int: rapid.Int64().Draw(t, "int")}
	case Float64:
		return Value{Kind: kind, Float: rapid.Float64().Draw(t, "float")}
	case Bool:
		return Value{Kind: kind, Bool: rapid.Bool().Draw(t, "bool")}
	default:
		return Value{Kind: UTF8, Str: strings.ToValidUTF8(rapid.StringN(0, 20, 200).Draw(t, "text"), "?")}
	}
}

func drawPart(t *rapid.T) Part {
	u32 := func(name string) uint32 {
		return rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32()).Draw(t, name)
	}
	p := Part{
		Extent: Extent{Off: rapid.Int64Range(HeaderSize, 1<<50).Draw(t, "off"), Len: rapid.Int64Range(0, 1<<40).Draw(t, "len")},
		Type:   rapid.SampledFrom([]string{"", "image/jpeg", "video/mp4"}).Draw(t, "type"),
		Width:  u32("width"), Height: u32("height"), Frames: u32("frames"),
		DurationUS: uint64(u32("duration")), CostUS: uint64(u32("cost")) << 10,
	}
	if p.HasCRC = rapid.Bool().Draw(t, "has crc"); p.HasCRC {
		p.CRC = rapid.Uint32().Draw(t, "crc")
	}
	return p
}

// TestIndexRoundTrip: whatever is written is read, for any mixture of fields.
func TestIndexRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kinds := rapid.SliceOfN(rapid.SampledFrom([]Kind{Media, Int64, Float64, Bool, UTF8}), 1, 6).Draw(rt, "kinds")
		var fields []Field
		for i, k := range kinds {
			fields = append(fields, Field{Name: fmt.Sprintf("f%d", i), Kind: k})
		}
		rows := make([]Row, rapid.IntRange(1, 40).Draw(rt, "rows"))
		for i := range rows {
			rows[i].Key = fmt.Sprintf("%04d-%s", i, rapid.StringMatching(`[a-zé/]{0,9}`).Draw(rt, "key"))
			for _, f := range fields {
				if f.Kind == Media {
					rows[i].Parts = append(rows[i].Parts, drawPart(rt))
				} else {
					rows[i].Scalars = append(rows[i].Scalars, drawValue(rt, f.Kind))
				}
			}
		}
		data := indexBytes(t, fields, testUUID, rows)
		x := mustOpen(t, manifestOf(fields, testUUID, rows, data), data)
		for i := range rows {
			if got := readRow(t, x, fields, int64(i)); !reflect.DeepEqual(got, rows[i]) {
				rt.Fatalf("row %d:\n got %+v\nwant %+v", i, got, rows[i])
			}
		}
	})
}

func readRow(t testing.TB, x *Index, fields []Field, row int64) Row {
	t.Helper()
	var r Row
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	key, err := x.Key(row)
	r.Key = key
	add(err)
	for _, f := range fields {
		if f.Kind == Media {
			p, err := x.Part(row, f.Name)
			r.Parts = append(r.Parts, p)
			add(err)
			continue
		}
		v, err := x.Scalar(row, f.Name)
		r.Scalars = append(r.Scalars, v)
		add(err)
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestIndexBatches crosses from one record batch to the next.
func TestIndexBatches(t *testing.T) {
	for _, n := range []int{BatchRows - 1, BatchRows, BatchRows + 1, 2*BatchRows + 3} {
		rows := photoRows(n)
		data := indexBytes(t, photoFields(), testUUID, rows)
		x := mustOpen(t, manifestOf(photoFields(), testUUID, rows, data), data)
		for _, i := range []int{0, 1, BatchRows - 2, BatchRows - 1, BatchRows, n - 1} {
			if i >= n {
				continue
			}
			if got := readRow(t, x, photoFields(), int64(i)); !reflect.DeepEqual(got, rows[i]) {
				t.Fatalf("%d rows, row %d: got %+v, want %+v", n, i, got, rows[i])
			}
		}
		for _, i := range []int64{-1, int64(n), math.MaxInt64} {
			if _, err := x.Key(i); !errors.Is(err, ErrNoSample) {
				t.Errorf("%d rows, row %d: error %v, want ErrNoSample", n, i, err)
			}
		}
	}
}

// TestIndexIsNotCopied: the columns are pieces of the mapping, and opening a large index takes
// little memory.
func TestIndexIsNotCopied(t *testing.T) {
	rows := photoRows(3 * BatchRows)
	data := indexBytes(t, photoFields(), testUUID, rows)
	m := manifestOf(photoFields(), testUUID, rows, data)
	path := filepath.Join(t.TempDir(), "index.arrow")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	x, err := OpenIndex(LocalIndex{Path: path}, m, 0)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 256<<10 {
		t.Errorf("opening an index of %d bytes allocated %d bytes", len(data), grown)
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(x.data)))
	for i, batch := range x.batches {
		for j, c := range batch {
			for _, b := range [][]byte{c.valid, c.values, c.text} {
				at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
				if len(b) > 0 && (at < start || at+uintptr(len(b)) > start+uintptr(len(x.data))) {
					t.Fatalf("batch %d, column %d is outside the mapping", i, j)
				}
			}
		}
	}
}

// TestIndexCut cuts a file at every length, as if it were still being written: always an error,
// never a panic and never fewer rows.
func TestIndexCut(t *testing.T) {
	rows := photoRows(20)
	data := indexBytes(t, photoFields(), testUUID, rows)
	m := manifestOf(photoFields(), testUUID, rows, data)
	for n := range data {
		_, err := inMemory(m, data[:n])
		if err == nil {
			t.Fatalf("opened with %d of %d bytes", n, len(data))
		}
		if !errors.Is(err, ErrIndex) {
			t.Fatalf("cut to %d bytes: %v does not match ErrIndex", n, err)
		}
	}
}

// TestIndexFlips flips every byte: an error, or values that stay inside the bin.
func TestIndexFlips(t *testing.T) {
	rows := photoRows(3)
	data := indexBytes(t, photoFields(), testUUID, rows)
	m := manifestOf(photoFields(), testUUID, rows, data)
	for i := range data {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			bad := append([]byte(nil), data...)
			bad[i] ^= flip
			tryAll(t, m, bad)
		}
	}
}

// inMemory loads an index from ordinary memory, which is not to be closed.
func inMemory(m *Manifest, data []byte) (*Index, error) {
	x := &Index{mapping: memoryOf(data), bin: m.Bins[0], layout: newLayout(m.Fields, "")}
	return x, x.load()
}

// tryAll loads an index that may be damaged and reads all of it.
func tryAll(t testing.TB, m *Manifest, data []byte) {
	x, err := inMemory(m, data)
	if err != nil {
		if !errors.Is(err, ErrIndex) && !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrVersion) {
			t.Fatalf("an error of no class: %v", err)
		}
		return
	}
	for row := range x.Rows() {
		if _, err := x.Key(row); err != nil && !errors.Is(err, ErrIndex) {
			t.Fatalf("an error of no class: %v", err)
		}
		for _, f := range m.Fields {
			if f.Kind != Media {
				if _, err := x.Scalar(row, f.Name); err != nil && !errors.Is(err, ErrIndex) {
					t.Fatalf("an error of no class: %v", err)
				}
				continue
			}
			p, err := x.Part(row, f.Name)
			if err != nil {
				if !errors.Is(err, ErrIndex) {
					t.Fatalf("an error of no class: %v", err)
				}
				continue
			}
			if p.Off < HeaderSize || p.Len < 0 || p.Off+p.Len > m.Bins[0].Bytes {
				t.Fatalf("row %d: extent %+v outside the bin's %d bytes", row, p.Extent, m.Bins[0].Bytes)
			}
		}
	}
}

// TestIndexBelongsElsewhere: what manifest, bin and index say about each other is compared.
func TestIndexBelongsElsewhere(t *testing.T) {
	rows := photoRows(10)
	data := indexBytes(t, photoFields(), testUUID, rows)
	for name, c := range map[string]struct {
		change func(*Manifest)
		want   error
		words  string
	}{
		"another bin's uuid":    {func(m *Manifest) { m.Bins[0].UUID = strings.Repeat("ab", 16) }, ErrMismatch, "belongs to another bin"},
		"more samples":          {func(m *Manifest) { m.Bins[0].Samples++ }, ErrIndex, "10 values, want 11"},
		"fewer samples":         {func(m *Manifest) { m.Bins[0].Samples-- }, ErrIndex, "10 values, want 9"},
		"many more samples":     {func(m *Manifest) { m.Bins[0].Samples = math.MaxInt64 - BatchRows }, ErrIndex, "record batches"},
		"another field":         {func(m *Manifest) { m.Fields[1].Name = "price" }, ErrIndex, `want "price"`},
		"another kind":          {func(m *Manifest) { m.Fields[1].Kind = Float64 }, ErrIndex, "label int64, want label float64"},
		"text instead of int":   {func(m *Manifest) { m.Fields[1].Kind = UTF8 }, ErrIndex, "label"},
		"one field more":        {func(m *Manifest) { m.Fields = append(m.Fields, Field{Name: "x", Kind: Bool}) }, ErrIndex, "11 columns, the manifest's fields need 12"},
		"a bin that is shorter": {func(m *Manifest) { m.Bins[0].Bytes = 70 }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := manifestOf(photoFields(), testUUID, rows, data)
			c.change(m)
			x, err := openBytes(t, m, data)
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				if _, err := x.Part(9, "image"); !errors.Is(err, ErrIndex) || !strings.Contains(err.Error(), "outside the bin") {
					t.Fatalf("a part behind the end of the bin: error %v", err)
				}
				return
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "index.arrow") {
				t.Fatalf("error %v, want %v with %q and the file's name", err, c.want, c.words)
			}
		})
	}
}

// TestHostileLengths: a vector's length is not an allocation. Each number in the footer is replaced
// by large ones; without the check before the library this takes the process down.
func TestHostileLengths(t *testing.T) {
	rows := photoRows(3)
	data := indexBytes(t, photoFields(), testUUID, rows)
	m := manifestOf(photoFields(), testUUID, rows, data)
	size := int(binary.LittleEndian.Uint32(data[len(data)-10:]))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tried := 0
	for at := len(data) - 10 - size; at+4 <= len(data)-6; at++ {
		for _, v := range []uint32{0x7fffffff, 0xffffffff, 0x0fffffff, uint32(1) << 24} {
			bad := append([]byte(nil), data...)
			binary.LittleEndian.PutUint32(bad[at:], v)
			tryAll(t, m, bad)
			tried++
		}
	}
	runtime.ReadMemStats(&after)
	if perFile := (after.TotalAlloc - before.TotalAlloc) / uint64(tried); perFile > uint64(len(data))+256<<10 {
		t.Errorf("%d bytes allocated a file of %d bytes", perFile, len(data))
	}
}

func TestOpenIndexFiles(t *testing.T) {
	rows := photoRows(1)
	data := indexBytes(t, photoFields(), testUUID, rows)
	m := manifestOf(photoFields(), testUUID, rows, data)
	if _, err := OpenIndex(LocalIndex{Path: filepath.Join(t.TempDir(), "none")}, m, 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := OpenIndex(LocalIndex{Path: t.TempDir()}, m, 0); !errors.Is(err, ErrIndex) {
		t.Errorf("a folder: %v", err)
	}
	x := mustOpen(t, m, data)
	if _, err := x.Part(0, "label"); !errors.Is(err, ErrNoField) {
		t.Errorf("a scalar asked for as a part: %v", err)
	}
	if _, err := x.Scalar(0, "image"); !errors.Is(err, ErrNoField) {
		t.Errorf("a part asked for as a scalar: %v", err)
	}
	if _, err := x.Scalar(0, "nothing"); !errors.Is(err, ErrNoField) {
		t.Errorf("an unknown field: %v", err)
	}
	x.Close()
	if _, err := x.Key(0); err == nil {
		t.Error("a closed index answers")
	}
}

func TestIndexWriterRefuses(t *testing.T) {
	part := []Part{{Extent: Extent{Off: 64, Len: 1}}}
	label := []Value{{Kind: Int64}}
	for words, rows := range map[string][]Row{
		"keys ascend and are unique": {{"b", part, label}, {"a", part, label}},
		`"a" comes after "a"`:        {{"a", part, label}, {"a", part, label}},
		"newline":                    {{"a\nb", part, label}},
		"not UTF-8":                  {{"a\xff", part, label}},
		"1 to 4096 bytes":            {{"", part, label}},
		"has 4097":                   {{strings.Repeat("x", 4097), part, label}},
		"kind float64":               {{"a", part, []Value{{Kind: Float64}}}},
		"1 parts and 0 scalars":      {{"a", part, nil}},
		"0 parts and 1 scalars":      {{"a", nil, label}},
	} {
		w, err := NewIndexWriter(new(strings.Builder), photoFields(), testUUID)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			err = w.Append(r)
		}
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("error %v, want one with %q", err, words)
		}
	}
}

func TestIndexWriterRefusesFields(t *testing.T) {
	fields := []Field{{Name: "label", Kind: Media}, {Name: "label", Kind: Int64}}
	if _, err := NewIndexWriter(new(strings.Builder), fields, testUUID); err == nil || !strings.Contains(err.Error(), `"label" occurs twice`) {
		t.Errorf("error %v", err)
	}
}

func FuzzIndex(f *testing.F) {
	rows := photoRows(3)
	data := indexBytes(f, photoFields(), testUUID, rows)
	m := manifestOf(photoFields(), testUUID, rows, data)
	f.Add(data)
	f.Add(data[:len(data)-3])
	f.Add(indexBytes(f, photoFields()[:1], testUUID, nil))
	f.Fuzz(func(t *testing.T, data []byte) { tryAll(t, m, data) })
}
