package litdata

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/foreigntest"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

// readPeer gives what LitData's reader gives for every item: the bytes of each leaf (testdata/make.py).
func readPeer(t testing.TB) map[string][]map[string]string {
	t.Helper()
	return testdata.ReadJSON[map[string][]map[string]string](t, "testdata/expect.json")
}

func source(t testing.TB, dir string) foreign.Source {
	return foreign.Source{Store: foreigntest.Store(t, dir), Names: []string{"/"}, Unpack: true}
}

// pack packs a dataset, and returns its samples.
func pack(t testing.TB, dir string) []foreigntest.Sample {
	t.Helper()
	return foreigntest.Pack(t, New(Options{}), source(t, dir), foreign.PackOptions{})
}

// TestAsLitData compares every leaf of every item, byte for byte and in the same order, of datasets that LitData wrote: chunks as they
// are, chunks compressed with Zstandard, and items that are one leaf.
func TestAsLitData(t *testing.T) {
	for name, want := range readPeer(t) {
		t.Run(name, func(t *testing.T) {
			got := pack(t, "testdata/"+name)
			if len(got) != len(want) {
				t.Fatalf("%d samples, the peer gives %d", len(got), len(want))
			}
			for i, s := range got {
				for leaf, value := range want[i] {
					field := foreign.FieldName(leaf)
					raw, isPart := s.Bytes[field]
					if v, isScalar := s.Scalars[field]; isScalar && !isPart {
						raw, isPart = serialised(t, v), true
					}
					if !isPart || hex.EncodeToString(raw) != value {
						t.Errorf("sample %d, leaf %s: %x; the peer gives %s", i, leaf, raw, value)
					}
				}
				if len(s.Bytes)+len(s.Scalars) != len(want[i]) {
					t.Errorf("sample %d: %d fields, the peer gives %d", i, len(s.Bytes)+len(s.Scalars), len(want[i]))
				}
			}
		})
	}
}

// serialised are the bytes that LitData makes of a scalar.
func serialised(t testing.TB, v binfmt.Value) []byte {
	switch v.Kind {
	case binfmt.Int64:
		return binary.LittleEndian.AppendUint64(nil, uint64(v.Int))
	case binfmt.Float64:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v.Float))
	case binfmt.UTF8:
		return []byte(v.Str)
	case binfmt.Bool:
		if v.Bool {
			return []byte{1}
		}
		return []byte{0}
	}
	t.Fatalf("a value of kind %s", v.Kind)
	return nil
}

// TestValues: whole numbers, fractions, truth and short text are scalars, a JPEG leaf is a picture with its size.
func TestValues(t *testing.T) {
	s := pack(t, "testdata/plain")[5]
	for field, want := range map[string]string{"label": "1", "score": "1.25", "even": "false", "caption": "picture 5: é!!!!!"} {
		if got := s.Scalars[field]; got.String() != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	if p := s.Parts["image"]; p.Type != "image/jpeg" || p.Width != 13 || p.Height != 6 || s.Key != "000001-chunk-0-1.bin/000000002" {
		t.Errorf("%s: %+v", s.Key, p)
	}
}

// edited copies a dataset and changes one file of it; nil removes the file.
func edited(t testing.TB, name, file string, change func([]byte) []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/"+name)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	if change == nil {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(data), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRefused: what cannot be read, and what does not fit together, is an error that names it.
func TestRefused(t *testing.T) {
	swap := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(old)) {
				t.Fatalf("no %s in %s", old, b)
			}
			return bytes.Replace(b, []byte(old), []byte(new), 1)
		}
	}
	u32 := func(at int, n uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], n); return b }
	}
	for name, c := range map[string]struct {
		dataset, file string
		change        func([]byte) []byte
		words         string
	}{
		"tokens":              {"arrays", "index.json", swap(`"item_loader": "PyTreeLoader"`, `"item_loader": "TokensLoader"`), "TokensLoader"},
		"one stream":          {"arrays", "index.json", swap(`"dim": null`, `"dim": 10`), "TokensLoader"},
		"another level":       {"frames", "index.json", swap(`"compression_level": "batch"`, `"compression_level": "group"`), `compression_level is "group"`},
		"pickle":              {"plain", "index.json", swap(`"jpeg"`, `"pickle"`), `the leaf "image" is serialised as "pickle"`},
		"pickle, the others":  {"plain", "index.json", swap(`"jpeg"`, `"pickle"`), "--field: label, score, even"},
		"another compression": {"zipped", "index.json", swap(`"compression": "zstd"`, `"compression": "lzma"`), `compressed with "lzma"`},
		"a name outside":      {"plain", "index.json", swap(`"filename": "chunk-0-0.bin"`, `"filename": "../chunk-0-0.bin"`), "no file below"},
		"no items":            {"plain", "index.json", swap(`"chunk_size": 3, "dim"`, `"chunk_size": 0, "dim"`), "chunk_size is 0"},
		"more items":          {"plain", "index.json", swap(`"chunk_size": 3, "dim"`, `"chunk_size": 4, "dim"`), "counts 3 items at offset 0"},
		"many items":          {"plain", "index.json", swap(`"chunk_size": 3, "dim"`, `"chunk_size": 4000000, "dim"`), "the chunk is cut"},
		"a leaf more":         {"plain", "index.json", swap(`"data_format": [`, `"data_format": ["int", `), "data_format 11"},
		"no leaves":           {"single", "index.json", swap(`"data_format": ["bytes"]`, `"data_format": []`), "0 leaves"},
		"a broken tree":       {"plain", "index.json", swap(`"data_spec": "[1, `, `"data_spec": "[2, `), "version 2"},
		"a missing chunk":     {"plain", "chunk-0-1.bin", nil, "chunk-0-1.bin"},
		"a cut chunk":         {"plain", "chunk-0-1.bin", func(b []byte) []byte { return b[:len(b)-1] }, "the end of the chunk"},
		"an offset back":      {"plain", "chunk-0-0.bin", u32(8, 5), "offsets never decrease"},
		"offsets from inside": {"plain", "chunk-0-0.bin", u32(4, 8), "want 20 to"},
		"a size too large":    {"plain", "chunk-0-0.bin", u32(20, 1<<31), "its leaves have"},
		"cut Zstandard":       {"zipped", "chunk-0-0.zstd.bin", func(b []byte) []byte { return b[:len(b)/2] }, "Zstandard"},
		"no Zstandard":        {"zipped", "chunk-0-0.zstd.bin", func(b []byte) []byte { return b[1:] }, "Zstandard"},
		"no frames":           {"frames", "chunk-0-0.bin", func(b []byte) []byte { b[0] = 'X'; return b }, "no chunk of compressed batches"},
		"frames, version 2":   {"frames", "chunk-0-0.bin", func(b []byte) []byte { b[8] = 2; return b }, "version 2"},
		"more frames":         {"frames", "chunk-0-0.bin", u32(20, 6), "6 batches of 5 items"},
		"a frame left out":    {"frames", "chunk-0-0.bin", u32(20, 2), "the batches have 4 items"},
		"frame elsewhere":     {"frames", "chunk-0-0.bin", u32(24+4*6, 1), "batch 0 has 2 items from 1 on"},
		"a frame outside":     {"frames", "chunk-0-0.bin", u32(24+4*6+8, 1<<31), "outside the"},
		"a longer frame":      {"frames", "chunk-0-0.bin", u32(24+4*6+20, 9), "its items have"},
		"a cut frame":         {"frames", "chunk-0-1.bin", func(b []byte) []byte { return b[:len(b)-1] }, "outside the"},
		"a damaged item":      {"items", "chunk-0-0.bin", func(b []byte) []byte { b[24] ^= 1; return b }, "Zstandard"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := edited(t, c.dataset, c.file, c.change)
			_, err := foreign.Pack(t.Context(), []foreign.Container{New(Options{})}, source(t, dir), foreigntest.Store(t, t.TempDir()), "/set", foreign.PackOptions{})
			if err == nil || !strings.Contains(err.Error(), c.words) || c.change != nil && !errors.Is(err, foreign.ErrContainer) {
				t.Errorf("error %v, want one with %q", err, c.words)
			}
		})
	}
}

// TestWanted: leaves that are not asked for may be of any serialiser.
func TestWanted(t *testing.T) {
	dir := edited(t, "plain", "index.json", func(b []byte) []byte { return bytes.Replace(b, []byte(`"jpeg"`), []byte(`"pickle"`), 1) })
	c := New(Options{Wanted: func(field string) bool { return field == "label" || field == "raw" }})
	got := foreigntest.Pack(t, c, source(t, dir), foreign.PackOptions{})
	if len(got) != 7 || len(got[3].Bytes) != 1 || string(got[3].Bytes["raw"]) != "\x00\x01\x02" || got[3].Scalars["label"].Int != -1 {
		t.Errorf("%d samples, the fourth %+v", len(got), got[3])
	}
}

// TestOthers: an index.json of another program, and other folders, are not ours.
func TestOthers(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"mds/index.json": `{"version": 2, "shards": []}`, "text/index.json": `chunks`, "x/a.bin": ""} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/mds", "/text", "/x", "/x/a.bin"} {
		src := foreign.Source{Store: foreigntest.Store(t, dir), Names: []string{name}}
		if shards, err := New(Options{}).Shards(t.Context(), src); shards != nil || err != nil {
			t.Errorf("%s: %v, %v", name, shards, err)
		}
	}
}

// TestNames: leaves are named by keys and places, however deep they are.
func TestNames(t *testing.T) {
	leaf := `{"type": null, "context": null, "children_spec": []}`
	spec := `[1, {"type": "builtins.dict", "context": "[\"a.b\", 2]", "children_spec": [{"type": "builtins.tuple", "context": "null", "children_spec": [` + leaf + `,` + leaf + `]}, ` + leaf + `]}]`
	got, err := config{Format: []string{"int", "int", "int"}, Spec: &spec}.names()
	if err != nil || strings.Join(got, " ") != "a.b.0 a.b.1 2" {
		t.Errorf("%q, %v", got, err)
	}
	for words, bad := range map[string]string{
		"want a version and a tree": `[1]`, "version 0": `[0, {}]`, "want dictionaries": `[1, {"type": "x.Point", "children_spec": [` + leaf + `]}]`,
		"more than 64 levels": `[1, ` + strings.Repeat(`{"type": "builtins.list", "children_spec": [`, 70) + leaf + strings.Repeat(`]}`, 70) + `]`,
		"whose keys are":      `[1, {"type": "builtins.dict", "context": "[]", "children_spec": [` + leaf + `]}]`,
	} {
		if _, err := (config{Format: []string{"int"}, Spec: &bad}).names(); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%.100s: %v, want %q", bad, err, words)
		}
	}
}

// FuzzChunk: any chunk, of every way of storing items, is refused, or all its leaves are inside it.
func FuzzChunk(f *testing.F) {
	for i, name := range []string{"plain/chunk-0-0.bin", "plain/chunk-0-2.bin", "single/chunk-0-0.bin", "frames/chunk-0-0.bin", "items/chunk-0-0.bin"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte{10, 10, 1, 10, 10}[i], []byte{3, 1, 3, 5, 4}[i], []byte{0, 0, 0, 1, 2}[i])
	}
	f.Fuzz(func(t *testing.T, data []byte, n, items, how byte) {
		var leaves []leaf
		for i := range max(n%20, 1) {
			leaves = append(leaves, leafOf(string(rune('a'+i)), []string{"int", "str", "bool", "bytes"}[i%4]))
		}
		k := known{chunk{Name: "x", Items: int64(max(items, 1))}, leaves, []unit{nothing, batches, samples}[how%3]}
		err := New(Options{}).Rows(context.Background(), foreign.Source{}, foreign.Shard{Name: "/x", Known: k}, foreigntest.Reader(data), inside{t, int64(len(data))})
		if err != nil && !errors.Is(err, foreign.ErrContainer) {
			t.Fatalf("an error of no class: %v", err)
		}
	})
}

// inside is a Sink that checks where parts are.
type inside struct {
	t    testing.TB
	size int64
}

func (i inside) Row(r foreign.Row) error {
	for _, p := range r.Parts {
		if p.Data == nil && (p.Off < 0 || p.Len < 0 || p.Off+p.Len > i.size) || p.Data != nil && p.Len != int64(len(p.Data)) {
			i.t.Fatalf("%+v is outside the %d bytes", p, i.size)
		}
	}
	return nil
}

func (inside) Warn(string, ...any) {}

// FuzzIndex: any index.json is refused, or names a serialiser for every leaf.
func FuzzIndex(f *testing.F) {
	for _, name := range []string{"plain", "zipped", "frames", "arrays"} {
		data, err := os.ReadFile("testdata/" + name + "/index.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x, ours, err := parseIndex(data)
		if !ours || err != nil {
			return
		}
		leaves, err := x.Config.check(func(string) bool { return true })
		if err == nil && (len(leaves) == 0 || len(leaves) != len(x.Config.Format)) {
			t.Fatalf("accepted: %d leaves, %d serialisers", len(leaves), len(x.Config.Format))
		}
	})
}
