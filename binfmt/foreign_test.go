package binfmt

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// goodForeign was printed by Python, as goodManifest was.
const goodForeign = `{"bins":[{"bytes":10240,"foreign":{"container":"tar","identity":"dir:1-2800-3","path":"../shards/a\"é.tar","policy":"as-peer"},"index_sha256":"0000000000000000000000000000000000000000000000000000000000000000","name":"00000-a","samples":3,"uuid":"000102030405060708090a0b0c0d0e0f"},{"bytes":64,"index_sha256":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","name":"00001-b","samples":5,"uuid":"ff0102030405060708090a0b0c0d0e0f"},{"bytes":0,"foreign":{"container":"folder","identity":"","path":"photos"},"index_sha256":"0101010101010101010101010101010101010101010101010101010101010101","name":"00002-c","samples":1,"uuid":"010102030405060708090a0b0c0d0e0f"},{"bytes":12,"foreign":{"container":"megatron","identity":"hdfs:7-12-1","path":"../../text_document.bin"},"index_sha256":"0202020202020202020202020202020202020202020202020202020202020202","name":"00003-d","samples":2,"uuid":"020102030405060708090a0b0c0d0e0f"}],"classes":["é"],"fields":[{"kind":"media","name":"image"},{"dtype":"uint16","kind":"tokens","name":"tokens"},{"kind":"int64","name":"label"}],"format":2}`

func foreignValue() *Manifest {
	digest := func(b string) string { return strings.Repeat(b, 32) }
	return &Manifest{
		Format:  2,
		Fields:  []Field{{Name: "image", Kind: Media}, {Name: "tokens", Kind: Tokens, Dtype: "uint16"}, {Name: "label", Kind: Int64}},
		Classes: []string{"é"},
		Bins: []Bin{
			{Name: "00000-a", UUID: "000102030405060708090a0b0c0d0e0f", Samples: 3, Bytes: 10240, IndexSHA256: digest("00"),
				Foreign: &Foreign{Container: Tar, Path: `../shards/a"é.tar`, Identity: "dir:1-2800-3", Policy: "as-peer"}},
			{Name: "00001-b", UUID: "ff0102030405060708090a0b0c0d0e0f", Samples: 5, Bytes: 64, IndexSHA256: digest("ff")},
			{Name: "00002-c", UUID: "010102030405060708090a0b0c0d0e0f", Samples: 1, IndexSHA256: digest("01"), Foreign: &Foreign{Container: Folder, Path: "photos"}},
			{Name: "00003-d", UUID: "020102030405060708090a0b0c0d0e0f", Samples: 2, Bytes: 12, IndexSHA256: digest("02"),
				Foreign: &Foreign{Container: Megatron, Path: "../../text_document.bin", Identity: "hdfs:7-12-1"}},
		},
	}
}

func TestForeignManifestGolden(t *testing.T) {
	m, err := ParseManifest("dataset.json", []byte(goodForeign))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m, foreignValue()) {
		t.Fatalf("parsed %+v", m)
	}
	if got := string(m.Canonical()); got != goodForeign {
		t.Fatalf("canonical:\n got %s\nwant %s", got, goodForeign)
	}
	for i, want := range [][2]string{
		{`../shards/a"é.tar`, "00000-a.arrow"}, {"00001-b.bin", "00001-b.arrow"}, {"photos", "00002-c.arrow"},
		{"../../text_document.bin", "../../text_document.idx"},
	} {
		if b := m.Bins[i]; b.DataName() != want[0] || b.IndexName() != want[1] || b.IsFolder() != (i == 2) {
			t.Errorf("bin %d: %s, %s, folder %t", i, b.DataName(), b.IndexName(), b.IsFolder())
		}
	}
}

// badForeign are changes to the good one; each error says what is wrong and where.
var badForeign = []struct {
	old, new string
	words    string
}{
	{`"format":2`, `"format":1`, "format is 1, want 2"},
	{`"container":"tar"`, `"container":"zip"`, `bins[0].foreign.container: "zip" is none of`},
	{`"container":"tar"`, `"Container":"tar"`, `unknown key "Container"`},
	{`"container":"tar"`, `"container":"tar","offset":1`, `unknown field "offset"`},
	{`"path":"photos"`, `"path":""`, "bins[2].foreign.path"},
	{`"path":"photos"`, `"path":"/photos"`, "not a clean path"},
	{`"path":"photos"`, `"path":"a/../b"`, "not a clean path"},
	{`"path":"photos"`, `"path":"photos/"`, "not a clean path"},
	{`"path":"photos"`, `"path":".."`, "not a clean path"},
	{`"path":"photos"`, `"path":"a\u0000b"`, "zero byte"},
	{`"path":"photos"`, `"path":"` + strings.Repeat("a", 4097) + `"`, "1 to 4096 bytes"},
	{`text_document.bin`, `text_document.dat`, "does not end in .bin"},
	{`"identity":"dir:1-2800-3"`, `"identity":""`, "bins[0].foreign.identity"},
	{`"identity":"dir:1-2800-3"`, `"identity":"a\nb"`, "bins[0].foreign.identity"},
	{`"identity":"","path":"photos"`, `"identity":"x","path":"photos"`, "bins[2].foreign.identity"},
	{`"policy":"as-peer"`, `"policy":"strict"`, "bins[0].foreign.policy"},
	{`"dtype":"uint16",`, ``, `fields[1].dtype: "" is none of`},
	{`"dtype":"uint16"`, `"dtype":"complex64"`, `fields[1].dtype: "complex64" is none of`},
	{`"bytes":12`, `"bytes":-1`, "bins[3].bytes: -1"},
	{`"bytes":64`, `"bytes":63`, "bins[1].bytes: 63"}, // a bin of our own has its header here too
}

func TestForeignManifestRefuses(t *testing.T) {
	for _, c := range badForeign {
		text := strings.Replace(goodForeign, c.old, c.new, 1)
		if text == goodForeign {
			t.Fatalf("%q does not occur", c.old)
		}
		_, err := ParseManifest("/set/dataset.json", []byte(text))
		if !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q instead of %q: %v, want %q", c.new, c.old, err, c.words)
		}
	}
}

func TestCheckForeignBin(t *testing.T) {
	b := foreignValue().Bins[0]
	if b.HeadSize() != 0 {
		t.Fatalf("a head of %d bytes", b.HeadSize())
	}
	if err := CheckBin("a.tar", b.Bytes, b.Foreign.Identity, nil, b); err != nil {
		t.Fatal(err)
	}
	err := CheckBin("a.tar", b.Bytes, "dir:1-2800-4", nil, b)
	if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "dir:1-2800-4") || !strings.Contains(err.Error(), "dir:1-2800-3") {
		t.Errorf("a changed file: %v", err)
	}
	if err := CheckBin("a.tar", 7, b.Foreign.Identity, nil, b); !errors.Is(err, ErrMismatch) {
		t.Errorf("another size: %v", err)
	}
}

// TestForeignIndex: the rows of a foreign bin keep their order and may share keys; those of a folder have a file
// each; an index of one kind is not taken for the other.
func TestForeignIndex(t *testing.T) {
	fields := []Field{{Name: "image", Kind: Media}}
	rows := []Row{
		{Key: "b", Parts: []Part{{Extent: Extent{Off: 0, Len: 5, File: "x/1.jpg", Version: "dir:1"}}}},
		{Key: "a", Parts: []Part{{Extent: Extent{Off: 3, Len: 0, File: "2.jpg", Version: "dir:2"}}}},
		{Key: "a", Parts: []Part{{Extent: Extent{Off: 5, Len: 2, File: "2.jpg", Version: "dir:3"}}}},
	}
	for _, container := range []string{Tar, Folder} {
		data := foreignBytes(t, fields, rows, container)
		m := manifestOf(fields, testUUID, rows, data)
		m.Format, m.Bins[0].Bytes, m.Bins[0].Foreign = FormatForeign, 7, &Foreign{Container: container, Path: "x", Identity: "dir:9"}
		x := mustOpen(t, m, data)
		for i, r := range rows {
			want := r.Parts[0]
			if container == Tar {
				want.File, want.Version = "", ""
			}
			p, err := x.Part(int64(i), "image")
			key, keyErr := x.Key(int64(i))
			if err != nil || keyErr != nil || key != r.Key || p != want {
				t.Errorf("%s, row %d: %q %+v %v %v", container, i, key, p, err, keyErr)
			}
		}
		other := *m
		other.Format, other.Bins = Format, []Bin{m.Bins[0]}
		other.Bins[0].Foreign = nil
		if _, err := openBytes(t, &other, data); err == nil {
			t.Errorf("%s: taken for the index of a packed bin", container)
		}
	}
	rows[0].Parts[0].File = "../1.jpg"
	w, err := NewForeignIndexWriter(new(strings.Builder), fields, testUUID, Folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(rows[0]); err == nil || !strings.Contains(err.Error(), "leaves the bin's folder") {
		t.Errorf("a file outside the folder: %v", err)
	}
}

func foreignBytes(t *testing.T, fields []Field, rows []Row, container string) []byte {
	t.Helper()
	var out strings.Builder
	w, err := NewForeignIndexWriter(&out, fields, testUUID, container)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(out.String())
}
