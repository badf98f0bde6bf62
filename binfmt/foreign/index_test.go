package foreign_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	webdataset "github.com/stepahead-io/stepahead/binfmt/foreign/tar"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// content is what member name of shard n holds.
func content(n int, name string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", n, name))
	return bytes.Repeat(sum[:], 30)
}

// writeShard makes a shard of a few samples with a picture, a class and a caption.
func writeShard(t *testing.T, path string, n, samples int) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range samples {
		key := fmt.Sprintf("d/%03d-%03d", n, i)
		for _, m := range []struct {
			name string
			data []byte
		}{{key + ".jpg", append([]byte("\xff\xd8\xff"), content(n, key)...)}, {key + ".cls", fmt.Appendf(nil, "%d", i%7)}, {key + ".txt", []byte("caption " + key)}} {
			if err := w.WriteHeader(&tar.Header{Name: m.name, Size: int64(len(m.data)), Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(m.data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// shards makes a store with some shards.
func shards(t *testing.T, n int) (*dir.Store, string, foreign.Source) {
	t.Helper()
	root := t.TempDir()
	for i := range n {
		writeShard(t, filepath.Join(root, "shards", fmt.Sprintf("%03d.tar", i)), i, 5+i)
	}
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st, root, foreign.Source{Store: st, Names: []string{"/shards"}}
}

func containers(p foreign.Policy) []foreign.Container {
	return []foreign.Container{webdataset.New(p)}
}

// files are the contents of a dataset's folder.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[path[len(folder)+1:]] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestIndex(t *testing.T) {
	ctx := t.Context()
	st, root, src := shards(t, 4)
	report := new(foreign.Report)
	m, err := foreign.Index(ctx, containers(foreign.Strict), src, "/set", foreign.Options{Report: report})
	if err != nil {
		t.Fatal(err)
	}
	want := []binfmt.Field{{Name: "image", Kind: binfmt.Media}, {Name: "label", Kind: binfmt.Int64}, {Name: "txt", Kind: binfmt.UTF8}}
	if m.Format != binfmt.FormatForeign || !slices.Equal(m.Fields, want) || m.Samples() != 5+6+7+8 || len(m.Bins) != 4 || m.Bins[1].Foreign.Path != "../shards/001.tar" {
		t.Fatalf("%+v", m)
	}
	if report.Shards != 4 || report.Read == 0 || report.Read > report.Bytes || report.Already {
		t.Errorf("%+v", report)
	}
	d := binfmt.NewDataset(m, func(_ context.Context, bin int) (binfmt.LocalIndex, error) {
		return binfmt.LocalIndex{Path: filepath.Join(root, "set", m.Bins[bin].IndexName())}, nil
	})
	defer d.Close()
	for sample := range uint64(m.Samples()) {
		checkSample(t, d, root, sample)
	}
	again := new(foreign.Report)
	if m2, err := foreign.Index(ctx, containers(foreign.Strict), src, "/set", foreign.Options{Report: again, Workers: 1}); err != nil || !again.Already || m2.Identity() != m.Identity() {
		t.Errorf("again: %v %+v", err, again)
	}
	writeShard(t, filepath.Join(root, "shards", "002.tar"), 2, 9)
	if _, err := foreign.Index(ctx, containers(foreign.Strict), src, "/set", foreign.Options{}); !errors.Is(err, draft.ErrExists) {
		t.Errorf("over another dataset: %v", err)
	}
	m3, err := foreign.Index(ctx, containers(foreign.Strict), src, "/set", foreign.Options{Force: true})
	if err != nil || m3.Samples() != 5+6+9+8 {
		t.Fatalf("replaced: %v", err)
	}
	if got := slices.Sorted(maps.Keys(files(t, filepath.Join(root, "set")))); len(got) != 5 {
		t.Errorf("left in the folder: %q", got)
	}
	if _, err := st.Stat(ctx, "/shards/000.tar"); err != nil {
		t.Error(err)
	}
}

func checkSample(t *testing.T, d *binfmt.Dataset, root string, sample uint64) {
	t.Helper()
	ctx := t.Context()
	bin, row, err := d.Find(sample)
	if err != nil {
		t.Fatal(err)
	}
	key, err := d.Key(ctx, sample)
	p, perr := d.Part(ctx, sample, "image")
	label, lerr := d.Scalar(ctx, sample, "label")
	text, terr := d.Scalar(ctx, sample, "txt")
	if err := errors.Join(err, perr, lerr, terr); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "set", d.Manifest().Bins[bin].DataName()))
	if err != nil {
		t.Fatal(err)
	}
	want := append([]byte("\xff\xd8\xff"), content(bin, key)...)
	if !bytes.Equal(data[p.Off:p.Off+p.Len], want) || p.Type != "image/jpeg" || p.HasCRC || label.Int != row%7 || text.Str != "caption "+key {
		t.Fatalf("sample %d: %q %+v %v %v", sample, key, p, label, text)
	}
}

// stopping is a store whose writes stop working at some point: what a killed process leaves.
type stopping struct {
	store.Store
	left atomic.Int64
}

var errStopped = errors.New("stopped")

func (s *stopping) may() error {
	if s.left.Add(-1) < 0 {
		return errStopped
	}
	return nil
}

func (s *stopping) Create(ctx context.Context, name string) (store.Writer, error) {
	if err := s.may(); err != nil {
		return nil, err
	}
	w, err := s.Store.Create(ctx, name)
	return &stoppingWriter{w, s}, err
}

func (s *stopping) Rename(ctx context.Context, from, to string) error {
	return errors.Join(s.may(), s.unless(func() error { return s.Store.Rename(ctx, from, to) }))
}

func (s *stopping) Remove(ctx context.Context, name string) error {
	return errors.Join(s.may(), s.unless(func() error { return s.Store.Remove(ctx, name) }))
}

func (s *stopping) unless(f func() error) error {
	if s.left.Load() < 0 {
		return nil
	}
	return f()
}

type stoppingWriter struct {
	store.Writer
	s *stopping
}

func (w *stoppingWriter) Close() error {
	if err := w.s.may(); err != nil {
		return errors.Join(err, w.Writer.Abort())
	}
	return w.Writer.Close()
}

// TestStoppedAnywhere: whatever change of the store is the last one before a kill, the same call ends with the same
// bytes, and there is no dataset before it is whole.
func TestStoppedAnywhere(t *testing.T) {
	st, root, src := shards(t, 3)
	if _, err := foreign.Index(t.Context(), containers(foreign.Strict), src, "/set", foreign.Options{}); err != nil {
		t.Fatal(err)
	}
	want := files(t, filepath.Join(root, "set"))
	for n := int64(0); ; n++ {
		if err := os.RemoveAll(filepath.Join(root, "set")); err != nil {
			t.Fatal(err)
		}
		broken := &stopping{Store: st}
		broken.left.Store(n)
		_, err := foreign.Index(t.Context(), containers(foreign.Strict), foreign.Source{Store: broken, Names: src.Names}, "/set", foreign.Options{})
		if err != nil && !errors.Is(err, errStopped) {
			t.Fatalf("after %d changes: %v", n, err)
		}
		if err == nil && n < 10 {
			t.Fatalf("only %d changes", n)
		}
		if data, merr := os.ReadFile(filepath.Join(root, "set", binfmt.ManifestName)); merr == nil && string(data) != want[binfmt.ManifestName] {
			t.Fatalf("after %d changes: another manifest", n)
		}
		report := new(foreign.Report)
		if _, err := foreign.Index(t.Context(), containers(foreign.Strict), src, "/set", foreign.Options{Report: report}); err != nil {
			t.Fatalf("resumed after %d changes: %v", n, err)
		}
		if got := files(t, filepath.Join(root, "set")); !maps.Equal(got, want) {
			t.Fatalf("resumed after %d changes: %q, want %q", n, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		if err == nil {
			return
		}
	}
}

// TestJournalDamaged: a journal that makes no sense is scanned again.
func TestJournalDamaged(t *testing.T) {
	st, root, src := shards(t, 2)
	broken := &stopping{Store: st}
	broken.left.Store(6)
	if _, err := foreign.Index(t.Context(), containers(foreign.Strict), foreign.Source{Store: broken, Names: src.Names}, "/set", foreign.Options{Workers: 1}); !errors.Is(err, errStopped) {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(root, "set/.stepahead-index/scan/*.jsonl"))
	if err != nil || len(found) == 0 {
		t.Fatal("no journal")
	}
	for _, name := range found {
		if err := os.WriteFile(name, []byte(`{"k":"a"`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := foreign.Index(t.Context(), containers(foreign.Strict), src, "/set", foreign.Options{}); err != nil || m.Samples() != 11 {
		t.Error(err)
	}
}

func TestFieldsChosen(t *testing.T) {
	_, root, src := shards(t, 2)
	index := func(o foreign.Options) (*binfmt.Manifest, error) {
		o.Force = true
		return foreign.Index(t.Context(), containers(foreign.Strict), src, "/set", o)
	}
	m, err := index(foreign.Options{Fields: []foreign.Rename{{Field: "picture", From: []string{"png", "jpg"}}, {Field: "text", From: []string{"txt"}}}, Media: []string{"text"}})
	if err != nil || !slices.Equal(m.Fields, []binfmt.Field{{Name: "picture", Kind: binfmt.Media}, {Name: "text", Kind: binfmt.Media}}) {
		t.Errorf("%v %v", err, m)
	}
	if m, err = index(foreign.Options{Classes: []string{"a", "b", "c", "d", "e", "f", "g"}}); err != nil || len(m.Classes) != 7 {
		t.Errorf("%v", err)
	}
	if _, err := index(foreign.Options{Fields: []foreign.Rename{{Field: "json", From: []string{"json"}}}}); err == nil || !strings.Contains(err.Error(), "cls (11 of 11 samples)") {
		t.Errorf("a field that is not there: %v", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "lone.jpg", Size: 0}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "shards/zzz.tar"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := index(foreign.Options{}); err == nil || !strings.Contains(err.Error(), `"lone"`) || !strings.Contains(err.Error(), "--skip-incomplete") {
		t.Errorf("a sample that lacks fields: %v", err)
	}
	report := new(foreign.Report)
	if m, err := index(foreign.Options{SkipIncomplete: true, Report: report}); err != nil || m.Samples() != 11 || report.Incomplete != 1 || report.Empty != 1 {
		t.Errorf("%v %+v", err, report)
	}
}

func TestIndexRefuses(t *testing.T) {
	st, root, src := shards(t, 1)
	gz := filepath.Join(root, "zip", "a.tar.gz")
	if err := os.MkdirAll(filepath.Dir(gz), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gz, []byte("\x1f\x8b"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"/zip": "compressed", "/zip/a.tar.gz": "compressed"} {
		_, err := foreign.Index(t.Context(), containers(foreign.Strict), foreign.Source{Store: st, Names: []string{name}}, "/set", foreign.Options{})
		if !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a.tar.gz") {
			t.Errorf("%s: %v", name, err)
		}
	}
	twice := foreign.Source{Store: st, Names: []string{"/shards", "/shards/000.tar"}}
	if _, err := foreign.Index(t.Context(), containers(foreign.Strict), twice, "/set", foreign.Options{}); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("twice: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := foreign.Index(ctx, containers(foreign.Strict), src, "/set", foreign.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := os.Chtimes(filepath.Join(root, "shards/000.tar"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
}
