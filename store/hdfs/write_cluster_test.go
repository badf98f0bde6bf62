package hdfs

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// writeOn returns a store of a cluster that can write, in a folder of the test's own.
func writeOn(t *testing.T, c *hdfstest.Cluster, change ...func(*conf.Config) *conf.Config) (*Store, string) {
	t.Helper()
	cfg, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		cfg = f(cfg)
	}
	s, _, err := Open(c.URL(), Options{Conf: cfg, User: hdfstest.User})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, c.Dir(t)
}

func wantListed(t *testing.T, s *Store, dir string, want ...string) {
	t.Helper()
	l, err := s.nn.GetListing(t.Context(), dir, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, status := range l.GetPartialListing() {
		got = append(got, string(status.GetPath()))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("%s holds %q, want %q", dir, got, want)
	}
}

func TestWrittenFilesAreHadoops(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c, func(cfg *conf.Config) *conf.Config { return cfg.With("dfs.blocksize", "1m") })
	for _, n := range []int{0, 1, 511, 512, 513, 65536, 65537, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3<<20 + 12345} {
		name := path.Join(dir, "a", strings.Repeat("x", n%7+1)+string(rune('a'+n%26)))
		data := random(n, uint64(n))
		if err := writeFile(s, name, data); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if got := c.Get(name); !bytes.Equal(got, data) {
			t.Fatalf("%d bytes: Hadoop reads %d, or others", n, len(got))
		}
		if err := s.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	wantListed(t, s, path.Join(dir, "a"))
}

func TestWritersOfOneName(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = writeFile(s, dir+"/race", random(100_000, uint64(i))) })
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Fatalf("writers %d and %d won", won, i)
		case err == nil:
			won = i
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("writer %d lost with %v", i, err)
		}
	}
	if won < 0 || !bytes.Equal(c.Get(dir+"/race"), random(100_000, uint64(won))) {
		t.Fatalf("writer %d won, and the file is another's", won)
	}
	wantListed(t, s, dir, "race")
}

// writeTo writes pieces of data, up to an offset.
func writeTo(t *testing.T, w store.Writer, data []byte, from, to int) {
	t.Helper()
	for at := from; at < to; {
		n, err := w.Write(data[at:min(to, at+300_000)])
		if err != nil {
			t.Fatal(err)
		}
		at += n
	}
}

// TestWhatWritingCosts counts as the NameNode does: what closes a file may have to be asked again.
func TestWhatWritingCosts(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{})
	s, dir := writeOn(t, c)
	if err := store.ReplaceFile(t.Context(), s, dir+"/entry", []byte("first")); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"replaced":    func() error { return store.ReplaceFile(t.Context(), s, dir+"/entry", []byte("again")) },
		"a new file":  func() error { return writeFile(s, dir+"/new", []byte("x")) },
		"a new file ": func() error { return writeFile(s, dir+"/empty", nil) },
	} {
		before := c.Calls(0)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		spent, total := map[string]int64{}, int64(0)
		for name, n := range c.Calls(0) {
			if d := n - before[name]; d > 0 && slices.Contains(clientCalls, name) {
				spent[name], total = d, total+d
			}
		}
		t.Log(what, total, spent)
		if total -= spent["Complete"]; total > 4 {
			t.Errorf("%s: %v", what, spent)
		}
	}
}

// clientCalls are those of the NameNode's calls that DataNodes do not make.
var clientCalls = []string{
	"GetFileInfo", "Create", "AddBlock", "Complete", "Rename2", "Delete", "Mkdirs", "GetListing", "GetBlockLocations", "IsFileClosed",
	"GetServerDefaults", "RenewLease", "AbandonBlock", "UpdateBlockForPipeline", "UpdatePipeline", "Append", "SetReplication",
}

// TestWritingIntoACodedFolder: the file has replicas, and Hadoop reads it.
func TestWritingIntoACodedFolder(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	c.Mkdir(dir + "/coded")
	c.ErasureCode(dir+"/coded", "XOR-2-1-1024k")
	data := random(3<<20+5, 9)
	if err := writeFile(s, dir+"/coded/f", data); err != nil {
		t.Fatal(err)
	}
	status, err := s.writes.names.GetFileInfo(t.Context(), dir+"/coded/f")
	if err != nil || status.GetEcPolicy() != nil || status.GetBlockReplication() != 3 {
		t.Fatalf("%v, %v", status, err)
	}
	if !bytes.Equal(c.Get(dir+"/coded/f"), data) {
		t.Fatal("wrong bytes")
	}
	c.Put(dir+"/coded/theirs", random(100, 1), 3, 1<<20)
	if err := s.SetReplication(t.Context(), dir+"/coded/theirs", 2); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("replicas of a coded file: %v", err)
	}
	for n, want := range map[int]error{2: nil, 3: nil, 600: fs.ErrInvalid} {
		if err := s.SetReplication(t.Context(), dir+"/coded/f", n); !errors.Is(err, want) {
			t.Errorf("%d replicas: %v, want %v", n, err, want)
		}
	}
}

func TestCancelledWriterOnACluster(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.Create(ctx, dir+"/d/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(random(1<<20, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := w.Write([]byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
	if err := w.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	wantListed(t, s, dir+"/d")
	if err := s.Remove(t.Context(), dir+"/d"); err != nil {
		t.Error(err)
	}
}
