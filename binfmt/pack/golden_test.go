package pack

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/binfmt/draft/drafttest"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

var rewrite = flag.Bool("rewrite", false, "write the golden dataset and its dump anew")

const goldenDir = "../testdata/golden"

// goldenSource has a part that would touch two blocks, and is moved, and one longer than a block.
func goldenSource(t *testing.T) Source {
	root := t.TempDir()
	put(t, root, "a/1.gif", fmt.Appendf(nil, "GIF89a%s", strings.Repeat("one", 10)))
	put(t, root, "a/2.gif", fmt.Appendf(nil, "GIF89a%s", strings.Repeat("2", 950)))
	put(t, root, "é/3.gif", fmt.Appendf(nil, "GIF89a%s", strings.Repeat("three", 300)))
	put(t, root, "list.jsonl", []byte(`{"path":"a/1.gif","label":"cat","score":0.5,"ok":true,"note":"first"}
{"path":"a/2.gif","label":"dog","score":-2,"ok":false,"note":""}
{"path":"é/3.gif","label":"cat","score":1e100,"ok":true,"note":"é"}
`))
	return List{Path: filepath.Join(root, "list.jsonl")}
}

// TestGolden: the bytes of the format are a promise. Packing gives the committed dataset, to the
// byte, and its annotated dump is the committed one. A change of the Arrow library that changes an
// index's bytes, and with them the identity of a dataset packed again, is noticed here.
func TestGolden(t *testing.T) {
	st, root := openDir(t)
	m := mustPack(t, goldenSource(t), st, Options{BlockSize: 1024, BinSize: 2100})
	if len(m.Bins) != 2 {
		t.Fatalf("%d bins, want 2", len(m.Bins))
	}
	got := drafttest.Tree(t, filepath.Join(root, "set"))
	got["dump.txt"] = dump(t, m, got)
	if *rewrite {
		if err := os.RemoveAll(goldenDir); err != nil {
			t.Fatal(err)
		}
		for name, data := range got {
			put(t, goldenDir, name, []byte(data))
		}
	}
	sameTree(t, got, drafttest.Tree(t, goldenDir))
	clean(t, st)
}

// dump annotates all bytes of a dataset.
func dump(t *testing.T, m *binfmt.Manifest, files map[string]string) string {
	var b strings.Builder
	id := m.Identity()
	fmt.Fprintf(&b, "dataset.json, %d bytes; its SHA-256 is the identity, %x\n", len(files[binfmt.ManifestName]), id)
	lines(&b, files[binfmt.ManifestName], 0, len(files[binfmt.ManifestName]), "canonical JSON")
	for i, bin := range m.Bins {
		data := files[bin.DataName()]
		fmt.Fprintf(&b, "\n%s, %d bytes\n", bin.DataName(), len(data))
		lines(&b, data, 0, 8, "magic")
		lines(&b, data, 8, 12, "version 1")
		lines(&b, data, 12, 28, "uuid")
		lines(&b, data, 28, 32, "alignment 64")
		lines(&b, data, 32, 64, "reserved, zero")
		dumpParts(t, &b, m, i, data, files[bin.IndexName()])
	}
	return b.String()
}

func dumpParts(t *testing.T, b *strings.Builder, m *binfmt.Manifest, place int, data, index string) {
	path := filepath.Join(t.TempDir(), "index")
	put(t, filepath.Dir(path), "index", []byte(index))
	x, err := binfmt.OpenIndex(binfmt.LocalIndex{Path: path}, m, place)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var rows strings.Builder
	end := binfmt.HeaderSize
	for row := range x.Rows() {
		key, err1 := x.Key(row)
		p, err2 := x.Part(row, "image")
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		lines(b, data, end, int(p.Off), "padding, zero")
		end = int(p.Off + p.Len)
		lines(b, data, int(p.Off), end, fmt.Sprintf("part: %q, image, %d bytes, CRC32C %08x", key, p.Len, p.CRC))
		fmt.Fprintf(&rows, "row %d: key=%q image.offset=%d image.length=%d image.crc32c=%08x image.type=%s", row, key, p.Off, p.Len, p.CRC, p.Type)
		for _, f := range m.Fields[1:] {
			v, err := x.Scalar(row, f.Name)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&rows, " %s=%q", f.Name, v)
		}
		rows.WriteString("\n")
	}
	fmt.Fprintf(b, "\n%s, %d bytes, SHA-256 %s\n%s", m.Bins[place].IndexName(), len(index), sha(index), rows.String())
	lines(b, index, 0, 8, "Arrow's magic and padding")
	lines(b, index, 8, len(index)-10, "schema, record batches, end of stream, footer")
	lines(b, index, len(index)-10, len(index)-6, "length of the footer")
	lines(b, index, len(index)-6, len(index), "Arrow's magic")
}

// lines dumps [from, to) in lines of 16 bytes, the note on the first; equal lines are left out.
func lines(b *strings.Builder, data string, from, to int, note string) {
	last := ""
	for at := from; at < to; at += 16 {
		row := data[at:min(at+16, to)]
		if row == last && at+16 < to {
			if !strings.HasSuffix(b.String(), "*\n") {
				b.WriteString("*\n")
			}
			continue
		}
		last = row
		text := strings.Map(func(r rune) rune {
			if r < 0x20 || r > 0x7e {
				return '.'
			}
			return r
		}, strings.ToValidUTF8(row, "."))
		fmt.Fprintln(b, strings.TrimRight(fmt.Sprintf("%08x  %-47s  %-16s  %s", at, hexBytes(row), text, note), " "))
		note = ""
	}
}

func hexBytes(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(hex.EncodeToString([]byte(s[i : i+1])))
	}
	return b.String()
}

// python runs a script of ../testdata over a dataset. Without Python and its packages the test is
// skipped, in CI it fails.
func python(t *testing.T, script, folder string, result any) {
	t.Helper()
	exe, err := filepath.Abs("../../.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(exe); err != nil {
		exe = "python3"
	}
	cmd := exec.Command(exe, filepath.Join("../testdata", script), folder)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) || strings.Contains(errOut.String(), "ModuleNotFoundError") {
		testdata.Missing(t, "Python with pyarrow, duckdb and polars (run make setup): %v\n%s", err, errOut.String())
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, errOut.String())
	}
	if err := json.Unmarshal(out, result); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// TestIndependentReader: a reader written from the specification reads every part of what is
// packed, and sees what Inspect says.
func TestIndependentReader(t *testing.T) {
	var got struct {
		Identity              string
		Samples, Parts, Bytes int64
		Types, Labels         map[string]int64
	}
	python(t, "read.py", goldenDir, &got)
	if got.Samples != 3 {
		t.Errorf("the golden dataset: %+v", got)
	}
	source := photos(t, 50)
	st, root := openDir(t)
	mustPack(t, Folder{Root: source}, st, Options{BlockSize: 1024, BinSize: 9_000})
	got.Types, got.Labels = nil, nil
	python(t, "read.py", filepath.Join(root, "set"), &got)
	sum, err := Inspect(context.Background(), st, "/set", "")
	if err != nil {
		t.Fatal(err)
	}
	labels := make(map[string]int64)
	for _, c := range sum.Classes {
		labels[c.Name] = c.Samples
	}
	if got.Identity != sum.Identity || got.Samples != sum.Samples || got.Parts != sum.Samples ||
		!maps.Equal(got.Types, sum.Media["image"].Types) || !maps.Equal(got.Labels, labels) {
		t.Errorf("the reader says %+v, inspect says %+v", got, sum)
	}
}

// putIndexOnly makes a dataset of n samples that has no data file, which Inspect does not read.
func putIndexOnly(t *testing.T, root string, n int64) {
	t.Helper()
	b := &draft.Bin{Bin: binfmt.Bin{Samples: n, Bytes: 64 + 1000*n}}
	for i := range n {
		p := binfmt.Part{Extent: binfmt.Extent{Off: 64 + i, Len: i % 1000, CRC: uint32(i), HasCRC: true}, Type: "image/jpeg"}
		if i%3 != 0 {
			p.Width, p.Height = uint32(i%700+1), uint32(i%500+1)
		}
		b.Rows = append(b.Rows, binfmt.Row{Key: fmt.Sprintf("%06d.jpg", i), Parts: []binfmt.Part{p}})
	}
	fields := []binfmt.Field{{Name: "image", Kind: binfmt.Media}}
	if err := b.Seal(0, fields); err != nil {
		t.Fatal(err)
	}
	var index bytes.Buffer
	if err := b.WriteIndex(&index, fields); err != nil {
		t.Fatal(err)
	}
	put(t, root, "set/"+b.IndexName(), index.Bytes())
	put(t, root, "set/dataset.json", draft.Manifest(fields, nil, []*draft.Bin{b}).Canonical())
}

// TestTables: pyarrow, DuckDB and polars open the indexes and agree with Inspect, over the border
// between two record batches too.
func TestTables(t *testing.T) {
	type view struct{ Samples, Bytes, Widest, Known int64 }
	var got struct {
		PyArrow, DuckDB, Polars view
		Keys                    []string
	}
	const n = binfmt.BatchRows + 10
	st, root := openDir(t)
	putIndexOnly(t, root, n)
	python(t, "tables.py", filepath.Join(root, "set"), &got)
	sum, err := Inspect(context.Background(), st, "/set", "")
	if err != nil {
		t.Fatal(err)
	}
	image := sum.Media["image"]
	want := view{sum.Samples, int64(image.Bytes.Mean*float64(image.Bytes.Count) + 0.5), int64(image.Width.Max), image.Width.Count}
	if got.PyArrow != want || got.DuckDB != want || got.Polars != want {
		t.Errorf("pyarrow %+v, DuckDB %+v, polars %+v, inspect %+v", got.PyArrow, got.DuckDB, got.Polars, want)
	}
	if len(got.Keys) != n || !slices.IsSorted(got.Keys) || got.Keys[n-1] != fmt.Sprintf("%06d.jpg", n-1) {
		t.Errorf("%d keys, the last %q", len(got.Keys), got.Keys[len(got.Keys)-1])
	}
}
