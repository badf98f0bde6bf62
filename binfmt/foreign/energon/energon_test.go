package energon

import (
	"archive/tar"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	webdataset "github.com/stepahead-io/stepahead/binfmt/foreign/tar"
	"github.com/stepahead-io/stepahead/store/dir"
)

// prepared is a dataset as Energon leaves it.
type prepared struct {
	root   string
	counts []string // of .info.json
	db     *sql.DB
	shards int64
}

func prepare(t *testing.T, shards int) *prepared {
	p := &prepared{root: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(p.root, "set", metaDir), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	if p.db, err = sql.Open("sqlite", filepath.Join(p.root, "set", metaDir, "index.sqlite")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.db.Close() })
	p.exec(t, `CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, sample_index INTEGER NOT NULL, byte_offset INTEGER, byte_size INTEGER)`)
	p.exec(t, `CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, content_byte_offset INTEGER, content_byte_size INTEGER)`)
	p.exec(t, `CREATE TABLE media_metadata (entry_key TEXT PRIMARY KEY, metadata_type TEXT, metadata_json TEXT)`)
	for n := range shards {
		p.shard(t, fmt.Sprintf("shard-%d.tar", n), 4+n)
	}
	p.info(t)
	return p
}

func (p *prepared) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := p.db.Exec(query, args...); err != nil {
		t.Fatal(err)
	}
}

func (p *prepared) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.root, "set", name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (p *prepared) info(t *testing.T) {
	p.write(t, metaDir+"/.info.json", `{"energon_version":"7.0","shard_counts":{`+strings.Join(p.counts, ",")+`}}`)
}

// shard writes a tar file and what the index says of it.
func (p *prepared) shard(t *testing.T, name string, samples int) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	id := p.shards
	p.shards++
	for i := range samples {
		key := fmt.Sprintf("%d-%03d", id, i)
		p.exec(t, `INSERT INTO samples VALUES (?,?,?,?,?)`, id, key, i, b.Len(), 0)
		for _, m := range []struct{ part, data string }{{"JPG", "\xff\xd8\xff" + key}, {"cls", fmt.Sprint(i)}} {
			if err := w.WriteHeader(&tar.Header{Name: key + "." + m.part, Size: int64(len(m.data)), Format: tar.FormatUSTAR}); err != nil {
				t.Fatal(err)
			}
			p.exec(t, `INSERT INTO sample_parts VALUES (?,?,?,?,?)`, id, i, m.part, b.Len(), len(m.data))
			if _, err := w.Write([]byte(m.data)); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		p.exec(t, `INSERT INTO media_metadata VALUES (?,'image',?)`, key+".JPG", `{"width":640,"height":480,"format":"JPEG"}`)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p.write(t, name, b.String())
	before := time.Now().Add(-time.Hour) // than the index, however long writing takes
	if err := os.Chtimes(filepath.Join(p.root, "set", name), before, before); err != nil {
		t.Fatal(err)
	}
	p.counts = append(p.counts, fmt.Sprintf("%q:%d", name, samples))
}

func (p *prepared) index(t *testing.T, c foreign.Container, o foreign.Options) (*binfmt.Manifest, error) {
	t.Helper()
	st, _, err := dir.Open(p.root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if own, ok := c.(*Container); ok {
		defer own.Close()
	}
	o.Force = true
	return foreign.Index(t.Context(), []foreign.Container{c}, foreign.Source{Store: st, Names: []string{"/set"}}, "/out", o)
}

// samples are the rows of a dataset, as text.
func (p *prepared) samples(t *testing.T, m *binfmt.Manifest) []string {
	t.Helper()
	d := binfmt.NewDataset(m, func(_ context.Context, bin int) (binfmt.LocalIndex, error) {
		return binfmt.LocalIndex{Path: filepath.Join(p.root, "out", m.Bins[bin].IndexName())}, nil
	})
	defer d.Close()
	var all []string
	for n := range uint64(m.Samples()) {
		key, err := d.Key(t.Context(), n)
		part, perr := d.Part(t.Context(), n, "image")
		label, lerr := d.Scalar(t.Context(), n, "label")
		if err := errors.Join(err, perr, lerr); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(p.root, "out", m.Bins[part.Bin].DataName()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %s %d %q", key, part.Type, label.Int, data[part.Off:part.Off+part.Len]))
	}
	return all
}

// TestAsTheShards: the index gives what reading the shards gives, and hardly reads them.
func TestAsTheShards(t *testing.T) {
	p := prepare(t, 3)
	report := new(foreign.Report)
	m, err := p.index(t, New(Options{}), foreign.Options{Report: report})
	if err != nil {
		t.Fatal(err)
	}
	got := p.samples(t, m)
	if m.Bins[0].Foreign.Container != binfmt.Tar || m.Samples() != 4+5+6 {
		t.Errorf("%+v", m)
	}
	if want := int64(3*tarBlock + 15); report.Read != want {
		t.Errorf("%d bytes of the shards read, want %d: a header each, and the classes", report.Read, want)
	}
	if m, err = p.index(t, webdataset.New(foreign.Strict), foreign.Options{}); err != nil {
		t.Fatal(err)
	}
	if want := p.samples(t, m); !slices.Equal(got, want) {
		t.Errorf("by the index\n%q\nby the shards\n%q", got, want)
	}
}

func TestSizes(t *testing.T) {
	p := prepare(t, 1)
	m, err := p.index(t, New(Options{}), foreign.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := binfmt.OpenBin(binfmt.LocalIndex{Path: filepath.Join(p.root, "out", m.Bins[0].IndexName())}, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if part, err := x.Part(2, "image"); err != nil || part.Width != 640 || part.Height != 480 {
		t.Errorf("%+v %v", part, err)
	}
}

func TestSplits(t *testing.T) {
	p := prepare(t, 4)
	p.write(t, metaDir+"/split.yaml", "split_parts:\n  train: ['shard-{0..2}.tar']\n  val: [shard-3.tar]\nexclude: [shard-1.tar, shard-0.tar/0-002]\n")
	for split, want := range map[string]int64{"": 3 + 6, "train": 3 + 6, "val": 7, AllSplits: 3 + 6 + 7} {
		m, err := p.index(t, New(Options{Split: split}), foreign.Options{})
		if err != nil || m.Samples() != want {
			t.Errorf("%q: %v, want %d samples", split, err, want)
		}
	}
	if _, err := p.index(t, New(Options{Split: "test"}), foreign.Options{}); err == nil || !strings.Contains(err.Error(), `["train" "val"]`) {
		t.Errorf("another split: %v", err)
	}
	p.write(t, metaDir+"/split.yaml", "split_parts:\n  train: [shard-9.tar]\n")
	if _, err := p.index(t, New(Options{}), foreign.Options{}); err == nil || !strings.Contains(err.Error(), "shard-9.tar") {
		t.Errorf("a shard that is not known: %v", err)
	}
}

// TestOldIndex: an index that does not know the members is passed over, and the shards are read.
func TestOldIndex(t *testing.T) {
	p := prepare(t, 2)
	p.exec(t, `DROP TABLE sample_parts`)
	m, err := p.index(t, New(Options{}), foreign.Options{})
	if err != nil || m.Samples() != 9 {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(p.root, "set", metaDir, "index.sqlite")); err != nil {
		t.Fatal(err)
	}
	if m, err = p.index(t, New(Options{}), foreign.Options{}); err != nil || m.Samples() != 9 {
		t.Error(err)
	}
}

// TestOldInfo: the order of shards in .info.yaml is kept.
func TestOldInfo(t *testing.T) {
	counts, err := parseOldCounts([]byte("energon_version: '5'\nshard_counts:\n  b/2.tar: 3\n  a/1.tar: 0\n  c.tar: 12\n"))
	if want := []counted{{"b/2.tar", 3}, {"a/1.tar", 0}, {"c.tar", 12}}; err != nil || !slices.Equal(counts, want) {
		t.Errorf("%v %v", counts, err)
	}
	for _, bad := range []string{"shard_counts: {../a.tar: 1}", "shard_counts: {a.tar: -1}", "shard_counts: {a.tar: many}", "shard_counts: [1]"} {
		if counts, err := parseOldCounts([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, counts)
		}
	}
}

// TestDisagrees: a shard that is not the one that was prepared is an error that says what to do.
func TestDisagrees(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(p *prepared)
		want  string
	}{
		"a shorter shard": {func(p *prepared) {
			if err := os.Truncate(filepath.Join(p.root, "set/shard-1.tar"), 1024); err != nil {
				t.Fatal(err)
			}
		}, "not in the shard's 1024 bytes"},
		"shards swapped": {func(p *prepared) {
			slices.Reverse(p.counts)
			p.info(t)
		}, "want"},
		"a member moved": {func(p *prepared) {
			p.exec(t, `UPDATE sample_parts SET content_byte_offset = content_byte_offset + 512`)
		}, "before offset"},
		"a shard changed later": {func(p *prepared) {
			file := filepath.Join(p.root, "set/shard-0.tar")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			copy(data[len(data)/2:], make([]byte, len(data)/2)) // the first header is still right
			p.write(t, "shard-0.tar", string(data))
			later := time.Now().Add(time.Hour)
			if err := os.Chtimes(file, later, later); err != nil {
				t.Fatal(err)
			}
		}, "end of archive"},
		"a negative offset": {func(p *prepared) { p.exec(t, `UPDATE sample_parts SET content_byte_offset = -5`) }, "not in the shard's"},
		"a huge size":       {func(p *prepared) { p.exec(t, `UPDATE sample_parts SET content_byte_size = 9223372036854775807`) }, "not in the shard's"},
		"a part twice":      {func(p *prepared) { p.exec(t, `UPDATE sample_parts SET part_name = 'jpg' WHERE part_name = 'cls'`) }, "twice"},
		"not SQLite":        {func(p *prepared) { p.write(t, metaDir+"/index.sqlite", strings.Repeat("no", 5000)) }, "index.sqlite"},
		"no counts":         {func(p *prepared) { p.write(t, metaDir+"/.info.json", `{"shard_counts":{}}`) }, "empty"},
		"a path outside":    {func(p *prepared) { p.write(t, metaDir+"/.info.json", `{"shard_counts":{"../x.tar":1}}`) }, "inside the dataset"},
	} {
		p := prepare(t, 2)
		c.spoil(p)
		_, err := p.index(t, New(Options{}), foreign.Options{})
		if !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestCounts: a shard whose count is not that of the index is told of.
func TestCounts(t *testing.T) {
	p := prepare(t, 1)
	p.counts[0] = `"shard-0.tar":0`
	p.info(t)
	report := new(foreign.Report)
	if _, err := p.index(t, New(Options{}), foreign.Options{Report: report}); err != nil || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], ".info.json says 0") {
		t.Errorf("%v %q", err, report.Warnings)
	}
}

func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"shard_counts":{"a.tar":3,"b/c.tar":0}}`), []byte("split_parts:\n  train: ['a-{0..9}.tar']\nexclude: [a.tar/key]\n"))
	f.Add([]byte(`{"shard_counts":[1]}`), []byte("split_parts: {train: 1}"))
	f.Add([]byte(`{"shard_counts":{"a":1,"a":2}}`), []byte("exclude: ['{{a,b}']"))
	f.Fuzz(func(t *testing.T, info, split []byte) {
		if counts, err := parseCounts(info); err == nil {
			for _, c := range counts {
				if c.samples < 0 || strings.HasPrefix(c.path, "/") || strings.Contains("/"+c.path+"/", "/../") {
					t.Fatalf("%+v", c)
				}
			}
		}
		if s, err := parseSplit(split); err == nil {
			if _, err := json.Marshal(s.parts); err != nil {
				t.Fatal(err)
			}
		}
	})
}
