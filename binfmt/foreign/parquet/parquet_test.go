package parquet

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/foreigntest"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

// peer runs testdata/peer.py.
func peer(t testing.TB, in any, out any, args ...string) {
	t.Helper()
	python := "../../../.venv/bin/python"
	if _, err := os.Stat(python); err != nil {
		testdata.Missing(t, "Python with pyarrow (make setup): %v", err)
	}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var said, errOut bytes.Buffer
	c := exec.Command(python, append([]string{"testdata/peer.py"}, args...)...)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(text), &said, &errOut
	err = c.Run()
	if err == nil && out != nil {
		err = json.Unmarshal(said.Bytes(), out)
	}
	if err != nil {
		t.Fatalf("peer.py %s: %v\n%s", args[0], err, errOut.String())
	}
}

// value is a value as peer.py writes it.
func value(r foreign.Row, field string) string {
	if v, ok := r.Scalars[field]; ok {
		switch v.Kind {
		case binfmt.Int64:
			return fmt.Sprintf("i%d", v.Int)
		case binfmt.Bool:
			return fmt.Sprintf("t%t", v.Bool)
		case binfmt.Float64:
			var b [8]byte
			for i := range b {
				b[i] = byte(math.Float64bits(v.Float) >> (8 * i))
			}
			return "f" + hex.EncodeToString(b[:])
		}
	}
	for _, p := range r.Parts {
		if p.Field != field {
			continue
		}
		if p.Type == "text/plain" {
			return "s" + hex.EncodeToString(p.Data)
		}
		return "b" + hex.EncodeToString(p.Data)
	}
	return ""
}

// rows is a Sink: what each sample has, by the columns' names.
type rows struct {
	columns []column
	all     []map[string]string
}

func (k *rows) Row(r foreign.Row) error {
	row := map[string]string{}
	for _, c := range k.columns {
		if v := value(r, c.field); v != "" {
			row[c.name] = v
		}
	}
	k.all = append(k.all, row)
	return nil
}

func (*rows) Warn(string, ...any) {}

// good are the fields of a file that become fields of a dataset.
func good(f foreign.File) (columns []column, err error) {
	r, err := open(f)
	if err != nil {
		return nil, err
	}
	fields := map[string]bool{}
	s := r.MetaData().Schema
	for i := range s.Root().NumFields() {
		if _, why := columnOf(s, s.Root().Field(i)); why == "" {
			fields[foreign.FieldName(s.Root().Field(i).Name())] = true
		}
	}
	return columnsOf(s, func(f string) bool { return fields[f] })
}

// read reads a file in memory.
func read(data []byte) (*rows, error) {
	f := foreigntest.Reader(data)
	columns, err := good(f)
	k := &rows{columns: columns}
	if err != nil {
		return k, err
	}
	c := New(Options{Wanted: func(field string) bool {
		for _, c := range columns {
			if c.field == field {
				return true
			}
		}
		return false
	}})
	return k, c.Rows(context.Background(), foreign.Source{}, foreign.Shard{Name: "/x", Known: known{columns: columns}}, f, k)
}

// odd are files that pyarrow reads and we refuse, or the reverse, each with the reason.
var odd = map[string]string{
	"hadoop_lz4_compressed_larger.parquet": "its codec is the one that Parquet has deprecated in favour of LZ4_RAW, and that Arrow's Go library leaves out",
}

// TestAsPyarrow: every value of every column that is taken, of real files of all encodings and codecs, damaged ones among them, is the
// one that pyarrow reads; a file that pyarrow refuses is refused, or gives what was not read by it.
func TestAsPyarrow(t *testing.T) {
	root := testdata.Path(t, "columnar")
	got, ask := map[string]*rows{}, map[string][]string{}
	fails := map[string]error{}
	for _, pattern := range []string{"parquet/*", "parquet-bad/*", "parquet-crashers/*", "parquet-geo/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got[file], fails[file] = read(data)
			if err := fails[file]; err != nil && !errors.Is(err, foreign.ErrContainer) {
				t.Errorf("%s: an error of no class: %v", file, err)
			}
			for _, c := range got[file].columns {
				ask[file] = append(ask[file], c.name)
			}
		}
	}
	same, refused := 0, 0
	for file, want := range answers(t, ask) {
		name := filepath.Base(file)
		switch err := fails[file]; {
		case odd[name] != "":
		case want.failed != "" && err != nil:
			refused++
		case want.failed != "":
			t.Logf("%s: read, pyarrow says %s", name, want.failed)
		case err != nil:
			t.Errorf("%s: %v; pyarrow reads it", name, err)
		default:
			compare(t, name, got[file].all, want.rows)
			same++
		}
	}
	t.Logf("%d files as pyarrow reads them, %d refused by both", same, refused)
	if same < 25 {
		t.Errorf("only %d files", same)
	}
}

type answer struct {
	rows   []map[string]string
	failed string
}

func answers(t *testing.T, ask map[string][]string) map[string]answer {
	said := map[string]json.RawMessage{}
	peer(t, ask, &said, "read")
	all := map[string]answer{}
	for file, raw := range said {
		var a answer
		if json.Unmarshal(raw, &a.failed) != nil {
			if err := json.Unmarshal(raw, &a.rows); err != nil {
				t.Fatal(err)
			}
		}
		all[file] = a
	}
	return all
}

func compare(t *testing.T, name string, got, want []map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, want %d", name, len(got), len(want))
		return
	}
	for i := range want {
		if !maps.Equal(got[i], want[i]) {
			t.Errorf("%s, row %d: %.300v, want %.300v", name, i, got[i], want[i])
			return
		}
	}
}

// TestPictures packs files as Hugging Face's datasets writes them, of every codec, both kinds of pages and long pages, beside pyarrow:
// pictures are their bytes, with type and size, and the names of the classes are the dataset's.
func TestPictures(t *testing.T) {
	folder := t.TempDir()
	pictures, err := filepath.Glob(filepath.Join(testdata.Path(t, "jpeg"), "pillow", "*.jpg"))
	if err != nil || len(pictures) < 10 {
		t.Fatal(pictures, err)
	}
	peer(t, nil, nil, append([]string{"make", folder}, pictures...)...)
	files, err := filepath.Glob(filepath.Join(folder, "*.parquet"))
	if err != nil || len(files) != 13 {
		t.Fatal(files, err)
	}
	ask := map[string][]string{}
	for _, file := range files {
		ask[file] = []string{"image", "label", "caption", "score", "half", "small", "count", "big", "ok", "id", "empty"}
		if strings.Contains(file, "long") {
			ask[file] = []string{"image", "n"}
		}
	}
	for file, want := range answers(t, ask) {
		if want.failed != "" {
			t.Fatal(want.failed)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(data)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		compare(t, filepath.Base(file), got.all, want.rows)
	}
	packPictures(t, folder, pictures)
}

func packPictures(t *testing.T, folder string, pictures []string) {
	src := foreign.Source{Store: foreigntest.Store(t, folder), Names: []string{"/none-1.0.parquet", "/zstd-2.0.parquet"}, Unpack: true}
	root := t.TempDir()
	m, err := foreign.Pack(t.Context(), []foreign.Container{New(Options{})}, src, foreigntest.Store(t, root), "/set", foreign.PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(m.Classes, " ") != "cat dog" || m.Format != binfmt.Format {
		t.Errorf("classes %q, format %d", m.Classes, m.Format)
	}
	for i, s := range foreigntest.Samples(t, m, filepath.Join(root, "set")) {
		want, err := os.ReadFile(pictures[i%len(pictures)])
		if err != nil {
			t.Fatal(err)
		}
		p := s.Parts["image"]
		isJPEG := bytes.HasPrefix(want, []byte("\xff\xd8\xff"))
		if !bytes.Equal(s.Bytes["image"], want) || isJPEG != (p.Type == "image/jpeg") || s.Scalars["label"].Int != int64(i%len(pictures)%2) || len(s.Bytes["empty"]) != 0 {
			t.Errorf("sample %d: %+v, %+v", i, p, s.Scalars)
		}
		if key := fmt.Sprintf("/%09d", i%len(pictures)); !strings.HasSuffix(s.Key, key) || !strings.Contains(s.Key, ".parquet/") {
			t.Errorf("sample %d: key %s", i, s.Key)
		}
	}
}

// TestNested: columns that are lists, maps or groups are refused by name, and are no hindrance if they are not asked for.
func TestNested(t *testing.T) {
	for file, want := range map[string]string{
		"list_columns.parquet": `"int64_list" (a list), "utf8_list" (a list)`, "nested_maps.snappy.parquet": `"a" (a map)`, "int32_decimal.parquet": `"value" (Decimal`,
		"repeated_no_annotation.parquet": `"phoneNumbers" (a group)`,
	} {
		src := foreign.Source{Store: foreigntest.Store(t, filepath.Join(testdata.Path(t, "columnar"), "parquet")), Names: []string{"/" + file}}
		_, err := New(Options{}).Shards(t.Context(), src)
		if !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--field") {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

// TestDamaged cuts and changes a file everywhere in its footer and at places all over it: an error of its class, or rows, never a panic, and
// never memory for what is not there.
func TestDamaged(t *testing.T) {
	data := testdata.Read(t, "columnar/parquet/binary.parquet")
	whole, err := read(data)
	if err != nil || len(whole.all) == 0 {
		t.Fatal(len(whole.all), err)
	}
	for n := range data {
		if _, err := read(data[:n]); !errors.Is(err, foreign.ErrContainer) {
			t.Errorf("cut to %d of %d bytes: %v", n, len(data), err)
		}
	}
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 0x21
		if _, err := read(bad); err != nil && !errors.Is(err, foreign.ErrContainer) {
			t.Errorf("byte %d: an error of no class: %v", i, err)
		}
	}
	huge := bytes.Clone(data)
	copy(huge[len(huge)-8:], "\xff\xff\xff\x7f")
	if _, err := read(huge); !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), "metadata of 2147483647 bytes") {
		t.Errorf("metadata that is not there: %v", err)
	}
}

// TestEncrypted: what is encrypted is said to be.
func TestEncrypted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Path(t, "columnar"), "parquet", "*.encrypted"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(data); !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), "encrypted") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
