package megatron

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/foreigntest"
)

const golden = "../../testdata/megatron"

// pairs copies golden pairs, without their ends, into a folder.
func pairs(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, n := range names {
		base, as, ok := strings.Cut(n, "=")
		if !ok {
			as = base
		}
		data, err := os.ReadFile(filepath.Join(golden, base))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, as), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestShards: a pair may be named in four ways, and what is no pair of Megatron's is left to others.
func TestShards(t *testing.T) {
	dir := pairs(t, "int32.bin", "int32.idx", "modes.bin=b.bin", "modes.idx=b.idx", "zero.idx=alone.idx", "expect.json=other.bin", "expect.json=x.tar.idx", "expect.json=photo.jpg")
	st := foreigntest.Store(t, dir)
	for _, c := range []struct{ names, want, err string }{
		{"/int32.bin", "/int32.bin", ""},
		{"/int32.idx", "/int32.bin", ""},
		{"/int32", "/int32.bin", ""},
		{"/int32.bin /int32.idx /b", "/int32.bin /b.bin", ""},
		{"/other.bin", "", ""},
		{"/x.tar.idx", "", ""},
		{"/photo.jpg", "", ""},
		{"/nothing", "", ""},
		{"/alone.idx", "", "alone.bin that belongs to it does not lie beside it"},
		{"/alone", "", "copy the .idx beside the .bin"},
		{"/", "", "alone.bin"},
	} {
		shards, err := New().Shards(t.Context(), foreign.Source{Store: st, Names: strings.Fields(c.names)})
		var names []string
		for _, s := range shards {
			names = append(names, s.Name)
			if s.Index != strings.TrimSuffix(s.Name, ".bin")+".idx" {
				t.Errorf("%s: the index is %s", s.Name, s.Index)
			}
		}
		if strings.Join(names, " ") != c.want || (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || !errors.Is(err, foreign.ErrContainer)) {
			t.Errorf("%s: %q, %v; want %q, %q", c.names, names, err, c.want, c.err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "alone.idx")); err != nil {
		t.Fatal(err)
	}
	shards, err := New().Shards(t.Context(), foreign.Source{Store: st, Names: []string{"/"}})
	if err != nil || len(shards) != 2 || shards[0].Name != "/b.bin" || shards[1].Name != "/int32.bin" {
		t.Errorf("a folder: %v, %v", shards, err)
	}
}

func read(t *testing.T, name string) foreigntest.Reader {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(golden, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestDescribe: the .idx is read whole and held against the .bin.
func TestDescribe(t *testing.T) {
	s := foreign.Shard{Name: "/modes.bin", Index: "/modes.idx"}
	bin, idx := read(t, "modes.bin"), read(t, "modes.idx")
	fields, samples, err := New().Describe(t.Context(), s, bin, idx)
	if err != nil || samples != 9 || len(fields) != 2 || fields[0].Dtype != "int32" {
		t.Fatalf("%v, %d samples, %v", fields, samples, err)
	}
	broken := append(foreigntest.Reader(nil), idx...)
	broken[0] = 'X'
	unsorted := append(foreigntest.Reader(nil), idx...)
	unsorted[34+4*9+8] ^= 4 // the pointer of sequence 1
	for name, c := range map[string]struct {
		bin, idx foreigntest.Reader
		words    string
	}{
		"wrong magic":      {bin, broken, "not an .idx file"},
		"unsorted":         {bin, unsorted, "sequence 1 lies at byte 8"},
		"cut .idx":         {bin, idx[:len(idx)-1], "cut"},
		"cut .bin":         {bin[:96], idx, "outside the .bin's 96 bytes"},
		"another .bin":     {append(bin, 0, 0, 0, 0), idx, "end at byte 100 of the .bin, which has 104"},
		"no tokens at all": {foreigntest.Reader{}, read(t, "none.idx"), "no token"},
	} {
		if _, _, err := New().Describe(t.Context(), s, c.bin, c.idx); !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "modes.") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
