package hdfs_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// The tests in faults_*_test.go do to a real cluster what storage nodes and networks suffer. Each holds the same: the right
// bytes, or an error of the right class before the deadline; never wrong bytes, never a hang.

// faultTime is far more than any fault may cost, also on a busy machine.
const faultTime = time.Minute

// faulty opens a store of a cluster. change, if not nil, changes its options.
func faulty(t testing.TB, c *hdfstest.Cluster, change func(*hdfs.Options)) *hdfs.Store {
	t.Helper()
	cfg, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	o := hdfs.Options{Conf: cfg, User: hdfstest.User}
	if change != nil {
		change(&o)
	}
	s, _, err := hdfs.Open(c.URL()+"/", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// beside makes the store that of a reader on a DataNode's host, whose replicas it reads first.
func beside(c *hdfstest.Cluster, dn int) func(*hdfs.Options) {
	return func(o *hdfs.Options) { o.Node = c.DataNodes()[dn].UUID }
}

// putReported writes a file and waits until the NameNode knows of all n replicas: a file is whole as soon as it knows of one.
func putReported(c *hdfstest.Cluster, path string, data []byte, n int) {
	c.Put(path, data, n, 0)
	c.WaitReplication(path, n)
}

func faultContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), faultTime)
	t.Cleanup(cancel)
	return ctx
}

func openFile(t testing.TB, s *hdfs.Store, path string) store.File {
	t.Helper()
	f, err := s.Open(faultContext(t), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

var errWrongBytes = errors.New("wrong bytes")

// readRange reads a range within faultTime and compares it.
func readRange(ctx context.Context, f store.File, data []byte, off, n int) error {
	ctx, cancel := context.WithTimeout(ctx, faultTime)
	defer cancel()
	buf := make([]byte, n)
	err := f.ReadRanges(ctx, []store.Range{{Off: int64(off), Buf: buf}})
	if err == nil && !bytes.Equal(buf, data[off:off+n]) {
		return errWrongBytes
	}
	return err
}

// tryRead reads a range. Wrong bytes and a missed deadline fail the test; any other error is returned.
func tryRead(t testing.TB, f store.File, data []byte, off, n int) error {
	t.Helper()
	err := readRange(t.Context(), f, data, off, n)
	if errors.Is(err, errWrongBytes) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("[%d, +%d): %v", off, n, err)
	}
	return err
}

// mustRead reads a whole file, and pieces of it.
func mustRead(t testing.TB, f store.File, data []byte) {
	t.Helper()
	n := len(data)
	for _, r := range [][2]int{{0, n}, {n / 2, min(4096, n-n/2)}, {n - 1, 1}, {n / 3, n / 3}} {
		if err := tryRead(t, f, data, r[0], r[1]); err != nil {
			t.Fatalf("[%d, +%d): %v", r[0], r[1], err)
		}
	}
}

// wantClass checks an error's class.
func wantClass(t testing.TB, err error, classes ...store.Class) {
	t.Helper()
	for _, class := range classes {
		if err != nil && store.ClassOf(err) == class {
			return
		}
	}
	t.Errorf("class %s, want one of %v: %v", store.ClassOf(err), classes, err)
}

// until repeats do until it is done, and fails the test where it never is.
func until(t testing.TB, what string, do func() bool) {
	t.Helper()
	for ctx := faultContext(t); !do(); {
		if ctx.Err() != nil {
			t.Fatalf("%s: not within %v", what, faultTime)
		}
	}
}
