package tfrecord

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/foreigntest"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

type expected struct {
	Offset int64
	CRC32C uint32
	Data   string
}

func readExpected(t testing.TB) map[string][]expected {
	t.Helper()
	return testdata.ReadJSON[map[string][]expected](t, "testdata/expect.json")
}

func made(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/made.tfrecord")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRecords compares a real file and a made one with an independent reading (testdata/make.py).
func TestRecords(t *testing.T) {
	for name, want := range readExpected(t) {
		t.Run(name, func(t *testing.T) {
			dir := "testdata"
			if name != "made.tfrecord" {
				dir = filepath.Dir(testdata.Path(t, "shards/grain/"+name))
			}
			got, warnings, err := foreigntest.Read(t.Context(), New(), foreign.Source{Store: foreigntest.Store(t, dir), Names: []string{"/" + name}})
			if err != nil || len(warnings) > 0 || len(got) != len(want) {
				t.Fatalf("%d records, %q, %v; want %d", len(got), warnings, err, len(want))
			}
			for i, s := range got {
				p := s.Parts[Field]
				if p.Off != want[i].Offset || p.CRC != want[i].CRC32C || !p.HasCRC || hex.EncodeToString(s.Bytes[Field]) != want[i].Data || s.Key != fmt.Sprintf("%s/%d", name, i) {
					t.Errorf("record %d: %+v, key %q, %x; want %+v", i, p, s.Key, s.Bytes[Field], want[i])
				}
			}
		})
	}
}

func write(t testing.TB, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestShards: what is a TFRecord file is found by content; of a folder, names choose.
func TestShards(t *testing.T) {
	dir := t.TempDir()
	data := made(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "x.tfrecord-00001-of-00002", data)
	write(t, dir, "x.tfrecord-00000-of-00002", data)
	write(t, dir, "empty.tfrecord", nil)
	write(t, dir, "README.md", []byte("nothing"))
	write(t, dir, "plain", data)
	write(t, dir, "damaged.tfrecords", append([]byte{1}, data...))
	write(t, dir, "zipped.tfrecord.gz", zipped.Bytes())
	st := foreigntest.Store(t, dir)
	for _, c := range []struct{ names, want, err string }{
		{"/x.tfrecord-00001-of-00002", "/x.tfrecord-00001-of-00002", ""},
		{"/plain", "/plain", ""},
		{"/README.md", "", ""},
		{"/empty.tfrecord", "", ""},
		{"/empty.tfrecord /plain", "/plain", ""},
		{"/zipped.tfrecord.gz", "", ""}, // refused with all compressed files
		{"/damaged.tfrecords", "", "the length's checksum is"},
		{"/", "", "damaged.tfrecords"},
	} {
		shards, err := New().Shards(t.Context(), foreign.Source{Store: st, Names: strings.Fields(c.names)})
		var names []string
		for _, s := range shards {
			names = append(names, s.Name)
		}
		if strings.Join(names, " ") != c.want || (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || !errors.Is(err, foreign.ErrContainer)) {
			t.Errorf("%s: %q, %v; want %q, %q", c.names, names, err, c.want, c.err)
		}
	}
	_, err := foreign.Refusals().Shards(t.Context(), foreign.Source{Store: st, Names: []string{"/zipped.tfrecord.gz"}})
	if !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), "compressed (gzip)") {
		t.Errorf("gzip: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "damaged.tfrecords")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "zipped.tfrecord.gz")); err != nil {
		t.Fatal(err)
	}
	samples, _, err := foreigntest.Read(t.Context(), New(), foreign.Source{Store: st, Names: []string{"/"}})
	if err != nil || len(samples) != 12 || samples[0].Key != "x.tfrecord-00000-of-00002/0" || samples[11].Key != "x.tfrecord-00001-of-00002/5" {
		t.Errorf("a folder: %d samples, %v", len(samples), err)
	}
}

// rows reads records in memory.
type counting struct{ parts []foreign.Part }

func (c *counting) Row(r foreign.Row) error { c.parts = append(c.parts, r.Parts...); return nil }
func (*counting) Warn(string, ...any)       {}

func rows(data []byte) ([]foreign.Part, error) {
	var to counting
	err := New().Rows(context.Background(), foreign.Source{}, foreign.Shard{Name: "/x"}, foreigntest.Reader(data), &to)
	return to.parts, err
}

// TestCut cuts the file at every length: what is left is whole records, or an error that names the offset.
func TestCut(t *testing.T) {
	data := made(t)
	ends := []int{0}
	parts, err := rows(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		ends = append(ends, int(p.Off+p.Len)+tailSize)
	}
	for n := range data {
		_, err := rows(data[:n])
		if whole := slices.Contains(ends, n); whole != (err == nil) {
			t.Errorf("cut to %d bytes: %v", n, err)
		} else if !whole && (!errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), "offset")) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

// TestFlips flips each byte of every head: refused. In payloads and their checksums, the part's checksum shows it.
func TestFlips(t *testing.T) {
	data := made(t)
	good, err := rows(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 0x10
		parts, err := rows(bad)
		if err != nil {
			if !errors.Is(err, foreign.ErrContainer) {
				t.Fatalf("byte %d: %v", i, err)
			}
			continue
		}
		if len(parts) != len(good) {
			t.Fatalf("byte %d: %d records", i, len(parts))
		}
		caught := false
		for _, p := range parts {
			var sum *binfmt.ChecksumError
			caught = caught || errors.As(p.Check(bad[p.Off:p.Off+p.Len]), &sum)
		}
		if !caught {
			t.Errorf("byte %d was changed, and nothing shows it", i)
		}
	}
}

func FuzzRecords(f *testing.F) {
	data := made(f)
	f.Add(data)
	f.Add(data[:20])
	f.Fuzz(func(t *testing.T, data []byte) {
		parts, err := rows(data)
		if err != nil && !errors.Is(err, foreign.ErrContainer) {
			t.Fatalf("an error of no class: %v", err)
		}
		end := int64(0)
		for _, p := range parts {
			if p.Off != end+headSize || p.Len < 0 || p.Off+p.Len+tailSize > int64(len(data)) {
				t.Fatalf("%+v in %d bytes, after %d", p, len(data), end)
			}
			end = p.Off + p.Len + tailSize
		}
		if err == nil && end != int64(len(data)) {
			t.Fatalf("the records end at %d of %d bytes", end, len(data))
		}
	})
}

// TestPackCompressed: a file that is compressed with gzip, as TensorFlow does, is packed with the records of the file as it was; one whose payload
// does not have its checksum is refused.
func TestPackCompressed(t *testing.T) {
	data := testdata.Read(t, "shards/grain/morris_sequence_first_5.tfrecord")
	dir := t.TempDir()
	write := func(name string, data []byte) {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(data)
		if err := errors.Join(err, w.Close(), os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("a.tfrecord.gz", data)
	plain := foreigntest.Pack(t, New(), sourceOf(t, filepath.Dir(testdata.Path(t, "shards/grain/morris_sequence_first_5.tfrecord")), "/morris_sequence_first_5.tfrecord"), foreign.PackOptions{})
	got := foreigntest.Pack(t, New(), sourceOf(t, dir, "/a.tfrecord.gz"), foreign.PackOptions{})
	if len(got) != 5 || len(plain) != 5 {
		t.Fatalf("%d samples, %d of the file as it was", len(got), len(plain))
	}
	for i := range got {
		if !bytes.Equal(got[i].Bytes[Field], plain[i].Bytes[Field]) || got[i].Key != fmt.Sprintf("000000-a.tfrecord.gz/%09d", i) {
			t.Errorf("record %d: %s, %d bytes, want %d", i, got[i].Key, len(got[i].Bytes[Field]), len(plain[i].Bytes[Field]))
		}
	}
	damaged := bytes.Clone(data)
	damaged[headSize] ^= 1
	write("b.tfrecord.gz", damaged)
	_, err := foreign.Pack(t.Context(), []foreign.Container{New()}, sourceOf(t, dir, "/b.tfrecord.gz"), foreigntest.Store(t, t.TempDir()), "/set", foreign.PackOptions{})
	if !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), "the container says") {
		t.Errorf("another payload: %v", err)
	}
}

func sourceOf(t *testing.T, dir, name string) foreign.Source {
	return foreign.Source{Store: foreigntest.Store(t, dir), Names: []string{name}, Unpack: true}
}
