package foreign_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/foreigntest"
	webdataset "github.com/stepahead-io/stepahead/binfmt/foreign/tar"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
)

// compressors make files of each kind that Go can write.
var compressors = map[string]func(io.Writer) io.WriteCloser{
	"gz": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"zst": func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err)
		}
		return z
	},
	"lz4": func(w io.Writer) io.WriteCloser { return lz4.NewWriter(w) },
	"sz":  func(w io.Writer) io.WriteCloser { return s2.NewWriter(w, s2.WriterSnappyCompat()) },
}

func compressed(t testing.TB, how string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if how == "bz2" {
		c := exec.Command("python3", "-c", "import bz2, sys; sys.stdout.buffer.write(bz2.compress(sys.stdin.buffer.read()))")
		c.Stdin, c.Stdout = bytes.NewReader(data), &b
		if err := c.Run(); err != nil {
			testdata.Missing(t, "python3 to make a bzip2 file: %v", err)
		}
		return b.Bytes()
	}
	w := compressors[how](&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpackedLines reads one archive as Pack does: a line a part, as webdataset.tsv has it.
func unpackedLines(t testing.TB, data []byte, policy foreign.Policy) ([]string, error) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "x"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	st := foreigntest.Store(t, root)
	var lines []string
	err := foreign.Unpacked(t.Context(), webdataset.New(policy), foreign.Source{Store: st, Unpack: true}, foreign.Shard{Name: "/x", Compression: foreign.ByContent}, foreign.Options{},
		func(f foreign.File, r foreign.Row) error {
			for _, p := range r.Parts {
				b := make([]byte, p.Len)
				if _, err := f.ReadAt(b, p.Off); err != nil {
					return err
				}
				sum := sha256.Sum256(b)
				lines = append(lines, strings.Join([]string{r.Key, p.Field, fmt.Sprint(p.Len), hex.EncodeToString(sum[:])}, "\t"))
			}
			return nil
		}, func(string, ...any) {})
	return lines, err
}

// TestUnpackedAsWebDataset: the archives that WebDataset reads, its own compressed ones among them, give its samples byte for byte, as they
// are and compressed.
func TestUnpackedAsWebDataset(t *testing.T) {
	want := map[string][]string{}
	table, err := os.Open("tar/testdata/webdataset.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	for in := bufio.NewScanner(table); in.Scan(); {
		cells := strings.Split(in.Text(), "\t")
		if len(cells) == 5 {
			cells[2] = foreign.FieldName(cells[2])
		}
		want[cells[0]] = append(want[cells[0]], strings.Join(cells[1:], "\t"))
	}
	root := filepath.Dir(testdata.Path(t, "tar"))
	read := 0
	for _, name := range slices.Sorted(maps.Keys(want)) {
		path := filepath.Join(root, name)
		if strings.HasPrefix(name, "odd/") {
			path = filepath.Join("tar/testdata", name)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := unpackedLines(t, data, foreign.AsPeer)
		zipped, zerr := unpackedLines(t, compressed(t, "gz", data), foreign.AsPeer)
		if foreign.Compression(data) != "" { // compressed twice is refused
			zipped, zerr = got, err
		}
		if (err == nil) != (zerr == nil) || strings.Join(got, "\n") != strings.Join(zipped, "\n") {
			t.Errorf("%s: %d parts, %v; compressed %d parts, %v", name, len(got), err, len(zipped), zerr)
		}
		peer := want[name]
		if err != nil || strings.HasPrefix(peer[len(peer)-1], "error") || peer[0] == "none" {
			continue // what is refused and why, the tests of the container say
		}
		if strings.Join(got, "\n") != strings.Join(peer, "\n") {
			t.Errorf("%s:\ngot\n%s\nWebDataset\n%s", name, strings.Join(got, "\n"), strings.Join(peer, "\n"))
		}
		read++
		if strings.HasSuffix(name, ".tgz") {
			t.Logf("%s: %d parts", name, len(got))
		}
	}
	if read < 34 {
		t.Errorf("only %d archives", read)
	}
}

// packed packs a source into the folder "set" of a new store.
func packed(t testing.TB, src foreign.Source, o foreign.PackOptions) (*binfmt.Manifest, store.Store, string) {
	t.Helper()
	root := t.TempDir()
	st := foreigntest.Store(t, root)
	m, err := foreign.Pack(t.Context(), containers(foreign.Strict), src, st, "/set", o)
	if err != nil {
		t.Fatal(err)
	}
	return m, st, filepath.Join(root, "set")
}

// TestPack: packed shards, compressed ones of every kind too, have the samples that the indexed ones have, in their order, in bins of the
// size that was asked for; nothing is wrong with them, and neither workers nor cuts change a byte.
func TestPack(t *testing.T) {
	_, root, src := shards(t, 5)
	m, err := foreign.Index(t.Context(), containers(foreign.Strict), src, "/indexed", foreign.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := foreigntest.Samples(t, m, filepath.Join(root, "indexed"))
	for i, how := range []string{"gz", "zst", "lz4", "sz", "bz2"} {
		name := filepath.Join(root, "shards", fmt.Sprintf("%03d.tar", i))
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(name+"."+how, compressed(t, how, data), 0o644), os.Remove(name)); err != nil {
			t.Fatal(err)
		}
		src.Names = append(src.Names, "/shards/"+fmt.Sprintf("%03d.tar.%s", i, how))
	}
	src.Names, src.Chosen = src.Names[1:], true
	var first map[string]string
	for _, o := range []foreign.PackOptions{{Sizes: draft.Sizes{Block: 1024, Bin: 20_000}}, {Sizes: draft.Sizes{Block: 1024, Bin: 20_000}, Options: foreign.Options{Workers: 1}}} {
		m, dst, folder := packed(t, src, o)
		if len(m.Bins) < 2 || m.Format != binfmt.Format {
			t.Fatalf("%d bins, format %d", len(m.Bins), m.Format)
		}
		checkSamples(t, foreigntest.Samples(t, m, folder), want)
		checked, err := pack.Verify(t.Context(), dst, "/set", pack.VerifyOptions{}, func(f pack.Finding) { t.Error(f) })
		if err != nil || checked.NoSums != 0 || checked.Samples != int64(len(want)) {
			t.Errorf("%+v, %v", checked, err)
		}
		got := files(t, folder)
		if first == nil {
			first = got
		}
		if !maps.Equal(got, first) {
			t.Error("another number of workers gives other bytes")
		}
	}
}

func checkSamples(t testing.TB, got, want []foreigntest.Sample) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d samples, want %d", len(got), len(want))
	}
	for i := range want {
		if !strings.HasSuffix(got[i].Key, "/"+want[i].Key) || !maps.EqualFunc(got[i].Bytes, want[i].Bytes, bytes.Equal) || !maps.Equal(got[i].Scalars, want[i].Scalars) {
			t.Fatalf("sample %d: %s with %v, want %s with %v", i, got[i].Key, got[i].Scalars, want[i].Key, want[i].Scalars)
		}
		for field, p := range got[i].Parts {
			if p.Type != want[i].Parts[field].Type || !p.HasCRC {
				t.Fatalf("sample %d, %s: %+v, want %+v", i, field, p, want[i].Parts[field])
			}
		}
	}
}

// TestPackRefuses: damaged, cut, unknown and swollen compressed files are errors that name file and compression; nothing is published.
func TestPackRefuses(t *testing.T) {
	_, root, _ := shards(t, 1)
	good, err := os.ReadFile(filepath.Join(root, "shards/000.tar"))
	if err != nil {
		t.Fatal(err)
	}
	gz := compressed(t, "gz", good)
	for name, c := range map[string]struct {
		data  []byte
		words string
	}{
		"cut":            {gz[:len(gz)/2], "unpacking it (gzip)"},
		"cut in its sum": {gz[:len(gz)-3], "unpacking it (gzip)"},
		"damaged":        {append(bytes.Clone(gz[:len(gz)-8]), make([]byte, 8)...), "unpacking it (gzip)"},
		"rubbish behind": {append(bytes.Clone(gz), "rubbish"...), "unpacking it (gzip)"},
		"xz":             {[]byte("\xfd7zXZ\x00\x00\x04"), "unpacking it (xz): this program does not know how"},
		"twice":          {compressed(t, "zst", gz), "the file is compressed (gzip)"},
		"no archive":     {compressed(t, "gz", []byte("nothing")), "offset 0"},
		"a bomb":         {bytes.Repeat(compressed(t, "gz", make([]byte, 4<<20)), 17), "a bomb"}, // 68 MiB
		"empty":          {compressed(t, "gz", nil), "empty"},
		"an empty file":  {nil, "empty"},
	} {
		file := filepath.Join(root, "x.tar.gz")
		if err := os.WriteFile(file, c.data, 0o644); err != nil {
			t.Fatal(err)
		}
		src := foreign.Source{Store: foreigntest.Store(t, root), Names: []string{"/x.tar.gz"}}
		_, err := foreign.Pack(t.Context(), containers(foreign.Strict), src, foreigntest.Store(t, root), "/set", foreign.PackOptions{})
		if !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "/x.tar.gz") {
			t.Errorf("%s: %v, want %q", name, err, c.words)
		}
		if _, err := os.Stat(filepath.Join(root, "set", binfmt.ManifestName)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: there is a manifest (%v)", name, err)
		}
	}
}

// changing is a store whose shard changes when it was opened so often.
type changing struct {
	store.Store
	opened *atomic.Int64
	at     int64
	change func()
}

func (c changing) Open(ctx context.Context, name string) (store.File, error) {
	if c.opened.Add(1) == c.at {
		c.change()
	}
	return c.Store.Open(ctx, name)
}

// TestPackSourceChanges: a shard that changes between the two readings is an error that names it, and the next run packs the new one.
func TestPackSourceChanges(t *testing.T) {
	st, root, src := shards(t, 1)
	shard := filepath.Join(root, "shards/000.tar")
	src.Store = changing{Store: st, opened: new(atomic.Int64), at: 2, change: func() {
		if err := os.Rename(shard, shard+".old"); err != nil {
			t.Fatal(err)
		}
		writeShard(t, shard, 9, 5)
	}}
	_, err := foreign.Pack(t.Context(), containers(foreign.Strict), src, st, "/set", foreign.PackOptions{})
	if store.ClassOf(err) != store.IdentityChanged || !strings.Contains(err.Error(), "000.tar") {
		t.Fatalf("%v, want a changed shard", err)
	}
	src.Store = st
	m, err := foreign.Pack(t.Context(), containers(foreign.Strict), src, st, "/set", foreign.PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := foreigntest.Samples(t, m, filepath.Join(root, "set")); !bytes.Contains(s[0].Bytes["image"], content(9, "d/009-000")) {
		t.Error("the old shard was packed")
	}
}
