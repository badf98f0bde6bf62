package mds

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/foreigntest"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

// readPeer gives what Mosaic's reader gives for every sample: the bytes of each column (testdata/make.py).
func readPeer(t testing.TB) map[string][]map[string]string {
	t.Helper()
	return testdata.ReadJSON[map[string][]map[string]string](t, "testdata/expect.json")
}

func read(t testing.TB, dir string) ([]foreigntest.Sample, error) {
	samples, _, err := foreigntest.Read(t.Context(), New(), foreign.Source{Store: foreigntest.Store(t, dir), Names: []string{"/"}})
	return samples, err
}

// TestAsMosaic compares every column of every sample, byte for byte and in the same order, on real datasets (one of three parts, the
// last empty) and on made ones, of which one was compressed and has its raw shard beside.
func TestAsMosaic(t *testing.T) {
	for name, want := range readPeer(t) {
		t.Run(name, func(t *testing.T) {
			dir, own := strings.CutPrefix(name, "testdata/")
			if own {
				dir = name
			} else {
				dir = testdata.Path(t, "shards/"+dir)
			}
			got, err := read(t, dir)
			if err != nil || len(got) != len(want) {
				t.Fatalf("%d samples, %v; the peer gives %d", len(got), err, len(want))
			}
			for i, s := range got {
				if !strings.HasPrefix("/"+s.Key, s.Shard+"/") || len(s.Bytes) != len(want[i]) {
					t.Errorf("sample %d: key %q, %d columns; the peer gives %d", i, s.Key, len(s.Bytes), len(want[i]))
				}
				for column, value := range want[i] {
					if got := hex.EncodeToString(s.Bytes[foreign.FieldName(column)]); got != value {
						t.Errorf("sample %d, column %s: %.100s; the peer gives %.100s", i, column, got, value)
					}
				}
			}
		})
	}
}

// TestValues: columns that hold one number or short text are scalars too, with the values that were written; pictures have their type.
func TestValues(t *testing.T) {
	got, err := read(t, "testdata/rich")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range got {
		n := int64(i)
		half := math.Round((1.5+float64(i)/3)*1024) / 1024 // float16 has 10 bits behind 1.
		if i >= 2 {
			half = math.Round((1.5+float64(i)/3)*512) / 512 // and here behind 2
		}
		real := func(f float64) binfmt.Value { return binfmt.Value{Kind: binfmt.Float64, Float: f} }
		text := func(s string) binfmt.Value { return binfmt.Value{Kind: binfmt.UTF8, Str: s} }
		want := map[string]binfmt.Value{
			"count": whole(-1e12 - n), "i8": whole(-n), "i16": whole(-1000 - n), "i32": whole(-100000 - n), "i64": whole(1<<62 + n),
			"u8": whole(250 + n), "u16": whole(65530 + n), "u32": whole(1<<32 - 1 - n), "s_int": whole(int64(math.Pow10(i))),
			"f16": real(half), "f32": real(float64(float32(-0.1 * float64(i)))), "f64": real(1e300 * float64(i)), "s_float": real(float64(i) / 7),
			"a_str": text(strings.Repeat("grün", i)), "s_dec": text(strconv.Itoa(1+i) + ".10"),
		}
		if i < 3 {
			want["u64"] = whole(math.MaxInt64 - 2 + n)
		}
		if len(s.Scalars) != len(want) {
			t.Errorf("sample %d: %d scalars, want %d: %v", i, len(s.Scalars), len(want), s.Scalars)
		}
		for field, v := range want {
			if s.Scalars[field] != v {
				t.Errorf("sample %d: %s is %v, want %v", i, field, s.Scalars[field], v)
			}
		}
		for field, typ := range map[string]string{"image": "image/jpeg", "png": "image/png", "a_bytes": "application/octet-stream", "js": "application/json"} {
			if p := s.Parts[field]; p.Type != typ {
				t.Errorf("sample %d: %s is %s, want %s", i, field, p.Type, typ)
			}
		}
		if p := s.Parts["image"]; p.Width != uint32(5+i) || p.Height != 3 {
			t.Errorf("sample %d: %+v", i, p)
		}
		if odd := s.Parts["odd"]; i%2 == 1 && odd.Type != "image/png" {
			t.Errorf("sample %d: bytes that are a PNG are %s", i, odd.Type)
		}
	}
}

// copyOf copies a dataset of testdata to where it can be broken.
func copyOf(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/"+name)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func edit(t testing.TB, file string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRefused: what cannot be read in place, and what does not fit together, is an error that names it.
func TestRefused(t *testing.T) {
	swap := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(old)) {
				panic(old)
			}
			return bytes.Replace(b, []byte(old), []byte(new), 1)
		}
	}
	u32 := func(at int, change func(uint32) uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[at:], change(binary.LittleEndian.Uint32(b[at:])))
			return b
		}
	}
	add := func(n uint32) func(uint32) uint32 { return func(v uint32) uint32 { return v + n } }
	for name, c := range map[string]struct {
		dataset, file string
		change        func([]byte) []byte
		words         string
	}{
		"compressed":             {"zipped", "index.json", func(b []byte) []byte { return b }, "shard.00000.mds.zstd is compressed (zstd:3)"},
		"a missing shard":        {"rich", "shard.00001.mds", nil, "/shard.00001.mds is missing"},
		"a cut shard":            {"rich", "shard.00001.mds", func(b []byte) []byte { return b[:len(b)-1] }, "bytes, want"},
		"csv":                    {"kept", "index.json", swap(`"format": "mds"`, `"format": "csv"`), `the format is "csv"`},
		"version 1":              {"kept", "index.json", swap(`"version": 2}`, `"version": 1}`), "version is 1"},
		"no version":             {"kept", "index.json", swap(`, "version": 2}`, `}`), "version is"},
		"columns without sizes":  {"kept", "index.json", swap(`"column_sizes": [8, null]`, `"column_sizes": [8]`), "1 column_sizes"},
		"a negative size":        {"kept", "index.json", swap(`"column_sizes": [8, null]`, `"column_sizes": [8, -1]`), "column_sizes[1] is -1"},
		"a name outside":         {"kept", "index.json", swap(`"basename": "shard`, `"basename": "../shard`), "no file below"},
		"negative samples":       {"kept", "index.json", swap(`"samples": 3`, `"samples": -3`), "samples, not -3"},
		"other columns":          {"kept", "index.json", swap(`["x", "y"]`, `["x", "z"]`), "they do not belong together"},
		"other sizes":            {"kept", "index.json", swap(`[8, null]`, `[4, null]`), "they do not belong together"},
		"more samples":           {"kept", "index.json", swap(`"samples": 3`, `"samples": 4`), "counts 3 samples at offset 0"},
		"no samples":             {"kept", "index.json", swap(`"samples": 3`, `"samples": 0`), "has no samples"},
		"columns of one field":   {"kept", "index.json", swap(`["x", "y"]`, `["x.a", "x_a"]`), `would both be the field "x_a"`},
		"no index":               {"kept", "index.json", nil, "but no index.json"},
		"an offset that wraps":   {"kept", "shard.00000.mds", u32(8, func(uint32) uint32 { return 5 }), "offsets never decrease"},
		"a last offset past end": {"kept", "shard.00000.mds", u32(16, add(1)), "the last sample ends at"},
		"no config":              {"kept", "shard.00000.mds", u32(4, func(uint32) uint32 { return 20 }), "the configuration at offset 20"},
		"inside the offsets":     {"kept", "shard.00000.mds", u32(4, func(uint32) uint32 { return 8 }), "inside the 20 bytes"},
		"broken config":          {"kept", "shard.00000.mds", func(b []byte) []byte { b[20] = '['; return b }, "the configuration at offset 20"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, c.dataset)
			if c.change == nil {
				if err := os.Remove(filepath.Join(dir, c.file)); err != nil {
					t.Fatal(err)
				}
			} else {
				edit(t, filepath.Join(dir, c.file), c.change)
			}
			_, err := read(t, dir)
			if !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want one with %q", err, c.words)
			}
		})
	}
}

// TestSizes: sizes of columns that do not fit their sample are errors, as is a sample of no bytes. The sample begins with
// the size of "y", the only column that is not fixed.
func TestSizes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(data []byte, sample uint32)
		words  string
	}{
		"a column past the end": {func(b []byte, at uint32) { binary.LittleEndian.PutUint32(b[at:], 3) }, `column "y" has 3 bytes, 2 are left`},
		"bytes behind":          {func(b []byte, at uint32) { binary.LittleEndian.PutUint32(b[at:], 1) }, "1 bytes behind the last column"},
		"a large size":          {func(b []byte, at uint32) { binary.LittleEndian.PutUint32(b[at:], 1<<32-1) }, "has 4294967295 bytes"},
		"no sample":             {func(b []byte, _ uint32) { copy(b[8:12], b[4:8]) }, "the sample has no bytes"},
		"no room for sizes":     {func(b []byte, _ uint32) { copy(b[8:12], b[4:8]); b[8] += 3 }, "the sizes of its columns alone 4"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, "kept")
			edit(t, filepath.Join(dir, "shard.00000.mds"), func(b []byte) []byte {
				c.change(b, binary.LittleEndian.Uint32(b[12:])) // of sample 2, which is the last and has "yy"
				return b
			})
			_, err := read(t, dir)
			if !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "/shard.00000.mds") {
				t.Errorf("error %v, want one with %q", err, c.words)
			}
		})
	}
}

// TestOthers: an index.json of another program, other files and other folders are not ours.
func TestOthers(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"lit/index.json": `{"chunks": [], "config": {}}`, "list/index.json": `[1]`, "text/index.json": `shards`, "photos/a.jpg": "x", "a.mds": "x",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	st := foreigntest.Store(t, dir)
	for _, name := range []string{"/lit", "/list", "/text", "/photos", "/photos/a.jpg"} {
		if shards, err := New().Shards(t.Context(), foreign.Source{Store: st, Names: []string{name}}); shards != nil || err != nil {
			t.Errorf("%s: %v, %v", name, shards, err)
		}
	}
	if _, err := New().Shards(t.Context(), foreign.Source{Store: st, Names: []string{"/a.mds"}}); !errors.Is(err, foreign.ErrContainer) {
		t.Errorf("a shard alone: %v", err)
	}
	if _, err := foreign.Refusals().Shards(t.Context(), foreign.Source{Store: st, Names: []string{"/lit"}}); !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), "LitData") {
		t.Errorf("LitData: %v", err)
	}
}

// parts keeps the parts of rows.
type parts struct{ all []foreign.Part }

func (p *parts) Row(r foreign.Row) error { p.all = append(p.all, r.Parts...); return nil }
func (*parts) Warn(string, ...any)       {}

// rows reads a shard of the dataset "kept" in memory.
func rows(t testing.TB, data []byte) ([]foreign.Part, error) {
	index, err := os.ReadFile("testdata/kept/index.json")
	if err != nil {
		t.Fatal(err)
	}
	x, _, err := parseIndex(index)
	if err != nil {
		t.Fatal(err)
	}
	var to parts
	err = New().Rows(context.Background(), foreign.Source{}, foreign.Shard{Name: "/x", Known: x.Shards[0]}, foreigntest.Reader(data), &to)
	return to.all, err
}

func shardOf(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/kept/shard.00000.mds")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestCut cuts a shard at every length: always an error that names an offset or a size.
func TestCut(t *testing.T) {
	data := shardOf(t)
	for n := range data {
		if _, err := rows(t, data[:n]); !errors.Is(err, foreign.ErrContainer) {
			t.Errorf("cut to %d of %d bytes: %v", n, len(data), err)
		}
	}
}

// TestFlips flips each byte of the head and the offsets: refused. What flips may change behind it is payload, sizes that are
// held against the sample, and words of the configuration that say nothing of columns.
func TestFlips(t *testing.T) {
	data := shardOf(t)
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 0x21
		all, err := rows(t, bad)
		if err == nil && i < 20 {
			t.Errorf("byte %d was changed, and nothing shows it", i)
		}
		if err != nil && !errors.Is(err, foreign.ErrContainer) {
			t.Errorf("byte %d: an error of no class: %v", i, err)
		}
		inside(t, all, len(data))
	}
}

func inside(t testing.TB, all []foreign.Part, size int) {
	for _, p := range all {
		if p.Off < 0 || p.Len < 0 || p.Off+p.Len > int64(size) {
			t.Fatalf("%+v is outside the %d bytes", p, size)
		}
	}
}

func FuzzShard(f *testing.F) {
	f.Add(shardOf(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := rows(t, data)
		if err != nil && !errors.Is(err, foreign.ErrContainer) {
			t.Fatalf("an error of no class: %v", err)
		}
		inside(t, all, len(data))
	})
}

func FuzzIndex(f *testing.F) {
	for _, name := range []string{"rich", "kept", "zipped"} {
		data, err := os.ReadFile("testdata/" + name + "/index.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x, ours, err := parseIndex(data)
		if err != nil && (!ours || !errors.Is(err, foreign.ErrContainer)) {
			t.Fatalf("an error of no class: %v", err)
		}
		for _, e := range x.Shards {
			if err == nil && (len(e.Columns) != len(e.Sizes) || e.Raw == nil || e.Samples < 0) {
				t.Fatalf("accepted: %+v", e)
			}
		}
	})
}

// TestPackCompressed: compressed shards, which lie at no place of their own, are packed, with the bytes that Mosaic's reader gives: the one
// that its writer compressed, and the same shard in each compression that it knows.
func TestPackCompressed(t *testing.T) {
	want := readPeer(t)["testdata/kept"]
	raw, err := os.ReadFile("testdata/kept/shard.00000.mds")
	if err != nil {
		t.Fatal(err)
	}
	for how, pack := range map[string]func(w io.Writer) io.WriteCloser{
		"zstd":   nil,
		"gz":     func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"br":     func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
		"snappy": func(w io.Writer) io.WriteCloser { return block{w} },
	} {
		t.Run(how, func(t *testing.T) {
			dir := copyOf(t, "kept")
			if err := os.Remove(filepath.Join(dir, "shard.00000.mds")); err != nil {
				t.Fatal(err)
			}
			if pack != nil {
				var b bytes.Buffer
				w := pack(&b)
				if _, err := w.Write(raw); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(w.Close(), os.WriteFile(filepath.Join(dir, "shard.00000.mds."+how), b.Bytes(), 0o644)); err != nil {
					t.Fatal(err)
				}
				reindex(t, dir, how, b.Len())
			}
			src := foreign.Source{Store: foreigntest.Store(t, dir), Names: []string{"/"}, Unpack: true}
			got := foreigntest.Pack(t, New(), src, foreign.PackOptions{Options: foreign.Options{Media: columnsOf(want[0])}})
			if len(got) != len(want) {
				t.Fatalf("%d samples, want %d", len(got), len(want))
			}
			for i, s := range got {
				for column, value := range want[i] {
					if got := hex.EncodeToString(s.Bytes[foreign.FieldName(column)]); got != value {
						t.Errorf("sample %d, column %s: %.100s; the peer gives %.100s", i, column, got, value)
					}
				}
			}
		})
	}
}

func columnsOf(sample map[string]string) []string {
	var all []string
	for column := range sample {
		all = append(all, foreign.FieldName(column))
	}
	return all
}

// block writes one block of Snappy, as Mosaic's does.
type block struct{ w io.Writer }

func (b block) Write(p []byte) (int, error) {
	_, err := b.w.Write(s2.EncodeSnappy(nil, p))
	return len(p), err
}

func (block) Close() error { return nil }

// reindex changes what the index of "kept" says of its compressed shard.
func reindex(t *testing.T, dir, how string, size int) {
	t.Helper()
	edit(t, filepath.Join(dir, "index.json"), func(data []byte) []byte {
		var x map[string]any
		if err := json.Unmarshal(data, &x); err != nil {
			t.Fatal(err)
		}
		shard := x["shards"].([]any)[0].(map[string]any)
		shard["compression"] = how + ":3"
		shard["zip_data"] = map[string]any{"basename": "shard.00000.mds." + how, "bytes": size, "hashes": map[string]string{}}
		data, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		return data
	})
}

// TestPackMissing: a compressed shard that is neither there as it was nor compressed, or is cut, is an error that names it.
func TestPackMissing(t *testing.T) {
	for words, change := range map[string]func(file string) error{
		"shard.00000.mds.zstd is missing, and shard.00000.mds too": os.Remove,
		"bytes, want": func(file string) error { return os.Truncate(file, 10) },
	} {
		dir := copyOf(t, "kept")
		if err := errors.Join(os.Remove(filepath.Join(dir, "shard.00000.mds")), change(filepath.Join(dir, "shard.00000.mds.zstd"))); err != nil {
			t.Fatal(err)
		}
		src := foreign.Source{Store: foreigntest.Store(t, dir), Names: []string{"/"}, Unpack: true}
		if _, err := New().Shards(t.Context(), src); !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
}
