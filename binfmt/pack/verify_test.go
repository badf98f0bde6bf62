package pack

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/media"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// edit changes a file of the packed dataset.
func edit(t testing.TB, root, name string, change func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(root, "set", name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func flip(at int64) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 0x40; return b }
}

func cut(n int64) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }

// packed makes a dataset of three bins, with what its sample 17 is.
func packed(t *testing.T) (st store.Store, root string, m *binfmt.Manifest, p binfmt.Part) {
	t.Helper()
	source := photos(t, 30)
	d, root := openDir(t)
	m = mustPack(t, Folder{Root: source}, d, Options{BinSize: 9_000})
	if len(m.Bins) < 2 {
		t.Fatalf("%d bins", len(m.Bins))
	}
	p, err := dataset(t, m, root).Part(context.Background(), 17, "image")
	if err != nil {
		t.Fatal(err)
	}
	return d, root, m, p
}

// TestVerifyNamesTheDamage breaks a dataset in every way, on a local store and on one that is not.
func TestVerifyNamesTheDamage(t *testing.T) {
	type made struct {
		root string
		m    *binfmt.Manifest
		p    binfmt.Part
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, w made)
		kinds  string // of the findings, in order
		says   func(w made) []string
	}{
		"one byte of a part": {
			func(t *testing.T, w made) { edit(t, w.root, w.m.Bins[w.p.Bin].DataName(), flip(w.p.Off+5)) }, "crc",
			func(w made) []string {
				return []string{w.m.Bins[w.p.Bin].DataName(), "sample 17", "dog/", "field image",
					fmt.Sprintf("offset %d, length %d", w.p.Off, w.p.Len), fmt.Sprintf("expected CRC32C %08x", w.p.CRC), "found CRC32C "}
			}},
		"two parts": {
			func(t *testing.T, w made) {
				edit(t, w.root, w.m.Bins[w.p.Bin].DataName(), flip(w.p.Off))
				edit(t, w.root, w.m.Bins[0].DataName(), flip(64))
			}, "crc crc",
			func(w made) []string { return []string{"sample 0 ", "sample 17 "} }},
		"a bin cut inside its last part": {
			func(t *testing.T, w made) { edit(t, w.root, w.m.Bins[0].DataName(), cut(w.m.Bins[0].Bytes-1)) }, "size short",
			func(w made) []string {
				return []string{fmt.Sprintf("expected %d bytes: found %d bytes", w.m.Bins[0].Bytes, w.m.Bins[0].Bytes-1), fmt.Sprintf("sample %d ", w.m.Bins[0].Samples-1)}
			}},
		"a bin of zero length": {
			func(t *testing.T, w made) { edit(t, w.root, w.m.Bins[0].DataName(), cut(0)) }, "size header",
			func(w made) []string { return []string{"a header has 64", "found a file of 0 bytes"} }},
		"bytes after the end": {
			func(t *testing.T, w made) {
				edit(t, w.root, w.m.Bins[0].DataName(), func(b []byte) []byte { return append(b, 0) })
			}, "size",
			func(w made) []string { return []string{w.m.Bins[0].DataName()} }},
		"a wrong magic": {
			func(t *testing.T, w made) { edit(t, w.root, w.m.Bins[1].DataName(), flip(0)) }, "header",
			func(w made) []string { return []string{"magic", w.m.Bins[1].DataName()} }},
		"a newer version": {
			func(t *testing.T, w made) { edit(t, w.root, w.m.Bins[1].DataName(), flip(8)) }, "header",
			func(w made) []string { return []string{"version is 65"} }},
		"two data files exchanged": {
			func(t *testing.T, w made) {
				a, b := filepath.Join(w.root, "set", w.m.Bins[0].DataName()), filepath.Join(w.root, "set", w.m.Bins[1].DataName())
				os.Rename(a, a+"x")
				os.Rename(b, a)
				os.Rename(a+"x", b)
			}, "",
			func(w made) []string { return []string{"uuid", "do not belong together"} }},
		"two indexes exchanged": {
			func(t *testing.T, w made) {
				a, b := filepath.Join(w.root, "set", w.m.Bins[0].IndexName()), filepath.Join(w.root, "set", w.m.Bins[1].IndexName())
				os.Rename(a, a+"x")
				os.Rename(b, a)
				os.Rename(a+"x", b)
			}, "index index index index",
			func(w made) []string { return []string{"SHA-256"} }},
		"an index cut": {
			func(t *testing.T, w made) { edit(t, w.root, w.m.Bins[0].IndexName(), cut(500)) }, "index index",
			func(w made) []string { return []string{w.m.Bins[0].IndexName(), "SHA-256", "the file is cut"} }},
		"an index with a wrong checksum in it": {
			func(t *testing.T, w made) {
				sum := string([]byte{byte(w.p.CRC), byte(w.p.CRC >> 8), byte(w.p.CRC >> 16), byte(w.p.CRC >> 24)})
				edit(t, w.root, w.m.Bins[w.p.Bin].IndexName(), func(b []byte) []byte {
					return []byte(strings.Replace(string(b), sum, "\x01\x02\x03\x04", 1))
				})
			}, "index uuid crc",
			func(w made) []string { return []string{"SHA-256", "expected CRC32C 04030201"} }},
		"a data file missing": {
			func(t *testing.T, w made) { os.Remove(filepath.Join(w.root, "set", w.m.Bins[0].DataName())) }, "missing",
			func(w made) []string { return []string{w.m.Bins[0].DataName()} }},
		"an index missing": {
			func(t *testing.T, w made) { os.Remove(filepath.Join(w.root, "set", w.m.Bins[0].IndexName())) }, "missing",
			func(w made) []string { return []string{w.m.Bins[0].IndexName()} }},
		"a broken manifest": {
			func(t *testing.T, w made) { edit(t, w.root, binfmt.ManifestName, cut(100)) }, "manifest",
			func(w made) []string { return []string{"/set/dataset.json"} }},
		"a manifest of a newer version": {
			func(t *testing.T, w made) {
				edit(t, w.root, binfmt.ManifestName, func(b []byte) []byte {
					return []byte(strings.Replace(string(b), `"format":1`, `"format":7`, 1))
				})
			}, "manifest",
			func(w made) []string { return []string{"newer program"} }},
		"bins in another order": {
			func(t *testing.T, w made) {
				m := *w.m
				m.Bins = append([]binfmt.Bin{w.m.Bins[1], w.m.Bins[0]}, w.m.Bins[2:]...)
				edit(t, w.root, binfmt.ManifestName, func([]byte) []byte { return m.Canonical() })
			}, "order",
			func(w made) []string { return []string{w.m.Bins[0].IndexName(), "a key after"} }},
	} {
		t.Run(name, func(t *testing.T) {
			st, root, m, p := packed(t)
			w := made{root, m, p}
			c.change(t, w)
			var text string
			for i, s := range []store.Store{st, remote{st}} {
				var kinds []string
				var lines []string
				for _, f := range findings(t, s) {
					kinds = append(kinds, f.Kind)
					lines = append(lines, f.String())
				}
				got := strings.Join(lines, "\n")
				for _, want := range c.says(w) {
					if !strings.Contains(got, want) {
						t.Errorf("store %d: no finding says %q:\n%s", i, want, got)
					}
				}
				if k := strings.Join(kinds, " "); c.kinds != "" && k != c.kinds && !strings.HasPrefix(k, c.kinds+" short") {
					t.Errorf("store %d: findings of kinds %q, want %q:\n%s", i, k, c.kinds, got)
				}
				if len(kinds) == 0 {
					t.Errorf("store %d: nothing found", i)
				}
				text = got
			}
			t.Log(text)
		})
	}
}

// unreadable fails reads that touch a place.
type unreadable struct {
	store.Store
	at int64
}

type unreadableFile struct {
	store.File
	at int64
}

func (s unreadable) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.Store.Open(ctx, name)
	if err != nil || !strings.HasSuffix(name, ".bin") {
		return f, err
	}
	return unreadableFile{f, s.at}, nil
}

func (f unreadableFile) ReadRanges(ctx context.Context, r []store.Range) error {
	for _, r := range r {
		if r.Off <= f.at && f.at < r.Off+int64(len(r.Buf)) {
			return errors.New("the disk says no")
		}
	}
	return f.File.ReadRanges(ctx, r)
}

func TestVerifyUnreadable(t *testing.T) {
	st, _, m, _ := packed(t)
	all := findings(t, unreadable{st, 70})
	if len(all) == 0 || int64(len(all)) > m.Samples() || all[0].Kind != FoundRead || !strings.Contains(all[0].String(), "the disk says no") {
		t.Fatalf("%v", all)
	}
	all = findings(t, unreadable{st, 5})
	if len(all) != len(m.Bins) || !strings.Contains(all[0].String(), ".bin") {
		t.Fatalf("unreadable headers: %v", all)
	}
}

// TestVerifyLargeParts: parts larger than a read are read in pieces.
func TestVerifyLargeParts(t *testing.T) {
	source := t.TempDir()
	head := picture(t, 8, 8, 1, false)
	put(t, source, "1.jpg", append(head, make([]byte, 2*readSize+5)...))
	put(t, source, "2.jpg", append(head, make([]byte, readSize-1)...))
	put(t, source, "3.jpg", head)
	st, root := openDir(t)
	m := mustPack(t, Folder{Root: source}, st, Options{})
	if len(m.Classes) != 0 || len(m.Fields) != 1 {
		t.Fatalf("a flat folder has %+v", m)
	}
	readAll(t, m, root, source)
	clean(t, st)
	edit(t, root, m.Bins[0].DataName(), flip(64+2*readSize))
	if all := findings(t, st); len(all) != 1 || all[0].Sample != 0 || all[0].Kind != FoundCRC {
		t.Fatalf("%v", all)
	}
	edit(t, root, m.Bins[0].DataName(), cut(64+readSize))
	kinds := ""
	for _, f := range findings(t, st) {
		kinds += f.Kind + " "
	}
	if kinds != "size short short short " {
		t.Fatalf("cut: %s", kinds)
	}
}

func TestVerifyNeedsADataset(t *testing.T) {
	st, _ := openDir(t)
	never := func(f Finding) { t.Errorf("a finding: %v", f) }
	if _, err := Verify(context.Background(), st, "/set", VerifyOptions{}, never); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	good, _, _, _ := packed(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Verify(ctx, good, "/set", VerifyOptions{}, never); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestVerifyWithoutSums: parts that never had a checksum are counted, not called bad.
func TestVerifyWithoutSums(t *testing.T) {
	st, root := openDir(t)
	fields := []binfmt.Field{{Name: "image", Kind: binfmt.Media}}
	uuid := [16]byte{9}
	var index strings.Builder
	w, err := binfmt.NewIndexWriter(&index, fields, uuid)
	if err != nil {
		t.Fatal(err)
	}
	row := binfmt.Row{Key: "a", Parts: []binfmt.Part{{Extent: binfmt.Extent{Off: 64, Len: 3}, Type: media.Unknown}}}
	if err := errors.Join(w.Append(row), w.Close()); err != nil {
		t.Fatal(err)
	}
	head := binfmt.Header(uuid)
	put(t, root, "set/b.bin", append(head[:], "abc"...))
	put(t, root, "set/b.arrow", []byte(index.String()))
	m := binfmt.Manifest{Format: 1, Fields: fields, Bins: []binfmt.Bin{{Name: "b", UUID: hex.EncodeToString(uuid[:]), Samples: 1, Bytes: 67, IndexSHA256: sha(index.String())}}}
	put(t, root, "set/dataset.json", m.Canonical())
	checked, err := Verify(context.Background(), st, "/set", VerifyOptions{}, func(f Finding) { t.Error(f) })
	if err != nil || checked != (Checked{Bins: 1, Samples: 1, Parts: 1, Bytes: 3, NoSums: 1}) {
		t.Errorf("%+v, %v", checked, err)
	}
}

func TestInspect(t *testing.T) {
	source := photos(t, 31)
	st, _ := openDir(t)
	m := mustPack(t, Folder{Root: source}, st, Options{BinSize: 9_000})
	for _, s := range []store.Store{st, remote{st}} {
		sum, err := Inspect(context.Background(), s, "/set", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		id := m.Identity()
		if sum.Identity != hex.EncodeToString(id[:]) || sum.Samples != 31 || len(sum.Bins) != len(m.Bins) || sum.Bytes == 0 {
			t.Errorf("%+v", sum)
		}
		if want := []ClassCount{{"cat", 11}, {"dog", 10}, {"eel", 10}}; fmt.Sprint(sum.Classes) != fmt.Sprint(want) {
			t.Errorf("classes %v, want %v", sum.Classes, want)
		}
		image := sum.Media["image"]
		if image.Types["image/png"] != 7 || image.Types["image/jpeg"] != 24 || image.Height.Min != 16 || image.Height.P50 != 16 || image.Width.Max != 28 || image.Bytes.Count != 31 {
			t.Errorf("media %+v", image)
		}
	}
	if _, err := Inspect(context.Background(), st, "/none", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
}

// BenchmarkPackAndVerify measures both over 400 MB of files of 100 KB.
func BenchmarkPackAndVerify(b *testing.B) {
	const files, size = 4000, 100_000
	source := b.TempDir()
	data := append(picture(b, 8, 8, 1, false), make([]byte, size)...)
	for i := range files {
		data[len(data)-1-i%1000] = byte(i)
		put(b, source, fmt.Sprintf("%d/%d.jpg", i%10, i), data[:size])
	}
	b.Run("pack", func(b *testing.B) {
		b.SetBytes(files * size)
		for b.Loop() {
			st, _ := openDir(b)
			mustPack(b, Folder{Root: source}, st, Options{})
		}
	})
	st, root := openDir(b)
	mustPack(b, Folder{Root: source}, st, Options{})
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(files * size)
		for b.Loop() {
			st, _, err := dir.Open(root, dir.Options{})
			if err != nil {
				b.Fatal(err)
			}
			clean(b, st)
		}
	})
}
