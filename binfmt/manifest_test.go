package binfmt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// goodManifest was printed by Python:
// json.dumps({...}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
const goodManifest = "{\"bins\":[" +
	"{\"bytes\":4096,\"index_sha256\":\"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\",\"name\":\"00000-a\",\"samples\":3,\"uuid\":\"000102030405060708090a0b0c0d0e0f\"}," +
	"{\"bytes\":64,\"index_sha256\":\"ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\",\"name\":\"00001-b\",\"samples\":5,\"uuid\":\"ff0102030405060708090a0b0c0d0e0f\"}]," +
	"\"classes\":[\"a\\\"\\\\\\n\\u0001\",\"<é&\u2028>\"],\"fields\":[{\"kind\":\"media\",\"name\":\"image\"},{\"kind\":\"int64\",\"name\":\"label\"}],\"format\":1}"

func goodValue() *Manifest {
	return &Manifest{
		Format:  1,
		Fields:  []Field{{Name: "image", Kind: Media}, {Name: "label", Kind: Int64}},
		Classes: []string{"a\"\\\n\x01", "<é&\u2028>"},
		Bins: []Bin{
			{Name: "00000-a", UUID: "000102030405060708090a0b0c0d0e0f", Samples: 3, Bytes: 4096, IndexSHA256: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"},
			{Name: "00001-b", UUID: "ff0102030405060708090a0b0c0d0e0f", Samples: 5, Bytes: 64, IndexSHA256: "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"},
		},
	}
}

func TestManifestGolden(t *testing.T) {
	m, err := ParseManifest("dataset.json", []byte(goodManifest))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m, goodValue()) {
		t.Fatalf("parsed %+v", m)
	}
	if got := string(m.Canonical()); got != goodManifest {
		t.Fatalf("canonical:\n got %s\nwant %s", got, goodManifest)
	}
	if m.Identity() != sha256.Sum256([]byte(goodManifest)) {
		t.Fatal("the identity is not the digest of the canonical JSON")
	}
	if n := m.Samples(); n != 8 {
		t.Fatalf("%d samples, want 8", n)
	}
	// The order and spacing of the file do not matter.
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(goodManifest), "", "\t"); err != nil {
		t.Fatal(err)
	}
	if again, err := ParseManifest("", append(indented.Bytes(), '\n')); err != nil || again.Identity() != m.Identity() {
		t.Fatalf("indented: %v", err)
	}
}

func TestFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &Manifest{}
		for _, n := range rapid.SliceOfN(rapid.Int64Range(1, 5), 1, 10).Draw(t, "samples") {
			m.Bins = append(m.Bins, Bin{Samples: n})
		}
		d := NewDataset(m, nil)
		sample := uint64(0)
		for bin, b := range m.Bins {
			for row := range b.Samples {
				gotBin, gotRow, err := d.Find(sample)
				if gotBin != bin || gotRow != row || err != nil {
					t.Fatalf("sample %d: (%d, %d, %v), want (%d, %d)", sample, gotBin, gotRow, err, bin, row)
				}
				sample++
			}
		}
		for _, s := range []uint64{sample, sample + 1, math.MaxInt64, math.MaxUint64} {
			if _, _, err := d.Find(s); !errors.Is(err, ErrNoSample) {
				t.Fatalf("sample %d of %d: %v", s, sample, err)
			}
		}
	})
}

// badManifests are changes to the good one; each error says what is wrong and where.
var badManifests = []struct {
	old, new string
	want     error
	words    string
}{
	{goodManifest, "", ErrManifest, "the file is empty"},
	{"{", "", ErrManifest, "not valid JSON"},
	{`"format":1}`, `"format":1`, ErrManifest, "not valid JSON"},
	{`"format":1}`, `"format":1}x`, ErrManifest, "not valid JSON"},
	{`"format":1`, `"format":3`, ErrVersion, "use a newer program"},
	{`"format":1`, `"format":2`, ErrManifest, "format is 2, want 1"},
	{`"kind":"media"`, `"dtype":"int32","kind":"media"`, ErrManifest, `fields[0].dtype: "int32"`},
	{`"format":1`, `"format":0`, ErrManifest, "format is 0"},
	{`"format":1`, `"format":1,"format":1`, ErrManifest, `key "format" occurs twice`},
	{`"format":1`, `"format":1,"extra":1`, ErrManifest, `unknown field "extra"`},
	{`"format":1`, `"Format":1`, ErrManifest, `unknown key "Format"`},
	{`,"format":1`, ``, ErrManifest, "format is missing"},
	{`"classes":[`, `"classes":null,"x":[`, ErrManifest, "null"},
	{`"samples":3`, `"samples":-3`, ErrManifest, "bins[0].samples: -3"},
	{`"samples":3`, `"samples":0`, ErrManifest, "bins[0].samples: 0"},
	{`"samples":3`, `"samples":9223372036854775807`, ErrManifest, "bins[1].samples: 5 (9223372036854775807 before it)"},
	{`"samples":3`, `"samples":9223372036854775808`, ErrManifest, "samples"},
	{`"samples":3`, `"samples":"3"`, ErrManifest, "samples"},
	{`"samples":3`, `"samples":3.5`, ErrManifest, "samples"},
	{`"bytes":64`, `"bytes":63`, ErrManifest, "bins[1].bytes: 63"},
	{`"name":"00001-b"`, `"name":"00000-a"`, ErrManifest, `bins[1].name: "00000-a" occurs twice`},
	{`"name":"00001-b"`, `"name":"../b"`, ErrManifest, `bins[1].name: "../b"`},
	{`"name":"00001-b"`, `"name":"a/b"`, ErrManifest, `bins[1].name: "a/b"`},
	{`"name":"00001-b"`, `"name":""`, ErrManifest, `bins[1].name: ""`},
	{`"uuid":"ff`, `"uuid":"FF`, ErrManifest, "bins[1].uuid"},
	{`"index_sha256":"ff`, `"index_sha256":"f`, ErrManifest, "bins[1].index_sha256"},
	{`"kind":"media"`, `"kind":"video"`, ErrManifest, `fields[0].kind: "video" is none of`},
	{`"name":"image"`, `"name":"label"`, ErrManifest, `fields[1].name: "label" occurs twice`},
	{`"name":"image"`, `"name":"a.b"`, ErrManifest, "may not contain a dot"},
	{`"name":"image"`, `"name":"key"`, ErrManifest, "taken by the sample's key"},
	{`"name":"image"`, `"name":"a\u0007"`, ErrManifest, "unprintable"},
	{`"name":"label"`, `"name":"other"`, ErrManifest, `no int64 field "label"`},
	{"<é", "<\xff", ErrManifest, "not UTF-8"},
	{`"<é&` + "\u2028" + `>"`, `""`, ErrManifest, `classes[1]: ""`},
}

func TestManifestRefuses(t *testing.T) {
	for _, c := range badManifests {
		text := strings.Replace(goodManifest, c.old, c.new, 1)
		_, err := ParseManifest("/set/dataset.json", []byte(text))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "/set/dataset.json") {
			t.Errorf("%q instead of %q: error %v, want %v with %q and the file's name", c.new, c.old, err, c.want, c.words)
		}
	}
	for _, empty := range []string{`{"format":1,"fields":[{"kind":"media","name":"image"}],"bins":[]}`, `{"format":1}`} {
		if _, err := ParseManifest("", []byte(empty)); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %v", empty, err)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(goodManifest))
	f.Add([]byte(goodForeign))
	for _, c := range badForeign {
		f.Add([]byte(strings.Replace(goodForeign, c.old, c.new, 1)))
	}
	for _, c := range badManifests {
		f.Add([]byte(strings.Replace(goodManifest, c.old, c.new, 1)))
	}
	f.Add([]byte(`{"format":1,"fields":[{"name":"x","kind":"bool"}],"bins":[{"name":"b","uuid":"","samples":1,"bytes":64}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest("fuzz", data)
		if err != nil {
			if !errors.Is(err, ErrManifest) && !errors.Is(err, ErrVersion) {
				t.Fatalf("an error of no class: %v", err)
			}
			return
		}
		again, err := ParseManifest("canonical", m.Canonical())
		if err != nil || !bytes.Equal(again.Canonical(), m.Canonical()) || again.Samples() < 1 {
			t.Fatalf("the canonical form of %s is not a manifest, or another one: %v", data, err)
		}
	})
}

func TestCheckExtent(t *testing.T) {
	data := []byte("123456789")
	e := Extent{Bin: 2, Off: 64, Len: 9, CRC: 0xe3069283, HasCRC: true} // the check value of CRC-32C
	if err := e.Check(data); err != nil {
		t.Error(err)
	}
	if err := e.Check(data[:8]); !errors.Is(err, ErrShort) {
		t.Errorf("short: %v", err)
	}
	var sum *ChecksumError
	if err := e.Check([]byte("123456788")); !errors.As(err, &sum) || sum.Want != e.CRC || sum.Got == e.CRC || sum.Off != 64 || sum.Bin != 2 {
		t.Errorf("damaged: %v", err)
	}
	e.HasCRC = false
	if err := e.Check([]byte("123456788")); err != nil {
		t.Errorf("without a checksum: %v", err)
	}
}

func TestHeader(t *testing.T) {
	h := Header(testUUID)
	if got, want := hex.EncodeToString(h[:]), "534142494e0a1a0a01000000"+"0102030405060708090a0b0c0d0e0f10"+"40000000"+strings.Repeat("00", 32); got != want {
		t.Fatalf("header\n got %s\nwant %s", got, want)
	}
	bin := Bin{UUID: hex.EncodeToString(testUUID[:])}
	if err := CheckHeader("a.bin", append(h[:], 1, 2, 3), bin); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at    int
		value byte
		want  error
		words string
	}{
		{0, 'T', ErrHeader, "offset 0: magic"},
		{5, '\r', ErrHeader, "offset 0: magic"},
		{8, 2, ErrVersion, "offset 8: version is 2"},
		{12, 9, ErrMismatch, "offset 12: uuid"},
		{28, 3, ErrHeader, "offset 28: alignment is 3"},
		{28, 0, ErrHeader, "offset 28: alignment is 0"},
		{63, 1, ErrHeader, "offset 32: the reserved bytes"},
	} {
		bad := h
		bad[c.at] = c.value
		if err := CheckHeader("a.bin", bad[:], bin); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "a.bin") {
			t.Errorf("byte %d = %d: error %v, want %v with %q", c.at, c.value, err, c.want, c.words)
		}
	}
	for _, n := range []int{0, 1, 63} {
		if err := CheckHeader("a.bin", h[:n], bin); !errors.Is(err, ErrHeader) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	bin.Bytes = 1 << 20
	if err := CheckBin("a.bin", 1<<20, "", h[:], bin); err != nil {
		t.Error(err)
	}
	for size, want := range map[int64]string{0: "has 0 bytes", 1<<20 - 1: "has 1048575 bytes, the manifest says 1048576", 1<<20 + 1: "has 1048577 bytes"} {
		if err := CheckBin("a.bin", size, "", h[:], bin); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if err := CheckBin("a.bin", 1<<20, "", make([]byte, 64), bin); !errors.Is(err, ErrHeader) {
		t.Errorf("another header: %v", err)
	}
}

// TestUUID compares with the rule, computed by hand.
func TestUUID(t *testing.T) {
	h := NewUUIDHash()
	h.Add("a/1.jpg", "image", 258, 0x01020304)
	h.Add("b", "image", 0, 0xffffffff)
	text := "\x07\x00\x00\x00a/1.jpg\x05\x00\x00\x00image\x02\x01\x00\x00\x00\x00\x00\x00\x04\x03\x02\x01" +
		"\x01\x00\x00\x00b\x05\x00\x00\x00image\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"
	sum := sha256.Sum256([]byte(text))
	if got := h.UUID(); got != [16]byte(sum[:16]) {
		t.Fatalf("uuid %x, want %x", got, sum[:16])
	}
}

func FuzzHeader(f *testing.F) {
	h := Header(testUUID)
	f.Add(h[:])
	f.Add(h[:20])
	f.Add([]byte(nil))
	bin := Bin{UUID: hex.EncodeToString(testUUID[:])}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := CheckHeader("fuzz", data, bin); err == nil && !bytes.Equal(data[:28], h[:28]) {
			t.Fatalf("accepted % x", data)
		}
	})
}
