package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

func writeFile(s *Store, name string, data []byte) error {
	w, err := s.Create(context.Background(), name)
	if err != nil {
		return err
	}
	defer w.Abort()
	if n, err := w.Write(data); err != nil || n != len(data) {
		return errors.Join(err, fmt.Errorf("%d of %d bytes", n, len(data)))
	}
	return w.Close()
}

func TestCreateLeavesTheFileAlone(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	data := random(700_000, 1)
	if err := writeFile(s, "/d/f", data); err != nil {
		t.Fatal(err)
	}
	c.wantOnly(t, "/d", "/d/f")
	c.wantContent(t, "/d/f", data)
	if err := writeFile(s, "/d/f", data); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("again: %v", err)
	}
	if err := writeFile(s, "/d/empty", nil); err != nil {
		t.Fatal(err)
	}
	c.wantOnly(t, "/d", "/d/empty", "/d/f")
}

// TestSmallFilesAreCheap: a file of one block takes the calls that HDFS cannot do without, and no others.
func TestSmallFilesAreCheap(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	for _, step := range []struct {
		what string
		do   func() error
		want string
	}{
		{"the first in a new folder", func() error { return writeFile(s, "/d/f", []byte("x")) },
			"getFileInfo create mkdirs create getListing addBlock complete rename2"},
		{"another", func() error { return writeFile(s, "/d/g", []byte("x")) }, "getFileInfo create addBlock complete rename2"},
		{"empty", func() error { return writeFile(s, "/d/h", nil) }, "getFileInfo create complete rename2"},
		{"replaced", func() error { return store.ReplaceFile(t.Context(), s, "/d/f", []byte("new")) }, "create addBlock complete rename2"},
		{"in three blocks", func() error { return writeFile(s, "/d/i", random(5*fakeBlockSize/2, 1)) },
			"getFileInfo create addBlock addBlock addBlock complete rename2"},
	} {
		c.calls = nil
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got := strings.Join(c.calls, " "); got != step.want {
			t.Errorf("%s: %s; want %s", step.what, got, step.want)
		}
	}
	c.wantContent(t, "/d/f", []byte("new"))
}

// TestReplace: what has the name is replaced by the whole of the new, or stays.
func TestReplace(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	for _, text := range []string{"old", "new"} {
		if err := s.Replace(t.Context(), "/d/f", []byte(text)); err != nil {
			t.Fatal(err)
		}
		c.wantContent(t, "/d/f", []byte(text))
	}
	c.fail = func(method, _ string) error {
		if method == "complete" {
			return store.ErrUnavailable
		}
		return nil
	}
	if err := s.Replace(t.Context(), "/d/f", []byte("newer")); store.ClassOf(err) != store.Retryable {
		t.Error(err)
	}
	c.wantContent(t, "/d/f", []byte("new"))
	c.wantOnly(t, "/d", "/d/f")
	c.fail = func(method, _ string) error {
		if method == "rename2" {
			return &namenode.RemoteError{Class: "java.io.IOException", Message: "Source /d/x and destination /d must both be directories"}
		}
		return nil
	}
	if err := s.Replace(t.Context(), "/d", nil); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
}

func TestWriterEndsWithItsContext(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.Create(ctx, "/d/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := w.Write([]byte("more")); !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
	if err := w.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	if err := w.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Close again: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Errorf("Abort: %v", err)
	}
	c.wantOnly(t, "/d")
}

func TestSetReplicationSaysWhy(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	for name, e := range map[string]inode{"/f": {}, "/d": {dir: true}, "/coded": {ec: true}} {
		c.entries[name] = &e
	}
	for _, c := range []struct {
		name string
		n    int
		want error
	}{
		{"/f", 3, nil}, {"/f", 0, fs.ErrInvalid}, {"/f", 600, fs.ErrInvalid}, {"/d", 3, syscall.EISDIR},
		{"/coded", 3, errors.ErrUnsupported}, {"/missing", 3, fs.ErrNotExist},
	} {
		if err := s.SetReplication(t.Context(), c.name, c.n); !errors.Is(err, c.want) {
			t.Errorf("%d replicas of %s: %v, want %v", c.n, c.name, err, c.want)
		}
	}
}

func TestShapeOfNewFiles(t *testing.T) {
	s := newWriteStore(newLake(t))
	if n := s.BlockSize(); n != fakeBlockSize {
		t.Errorf("the NameNode's block size is %d", n)
	}
	c := new(conf.Config).With("dfs.blocksize", "32m").With("dfs.replication", "2").With("fs.permissions.umask-mode", "077")
	s.writes.conf = c
	shape, err := s.writes.shape(t.Context())
	if err != nil || shape.blockSize != 32<<20 || shape.replicas != 2 || s.BlockSize() != 32<<20 {
		t.Errorf("%+v, %v", shape, err)
	}
	if p := s.writes.permissions(0o777); p != 0o700 {
		t.Errorf("permissions %o", p)
	}
	if p := newWriteStore(newLake(t)).writes.permissions(0o666); p != 0o644 {
		t.Errorf("permissions %o", p)
	}
	sum, err := s.ContentSummary(t.Context(), "/")
	if err != nil || sum.Bytes != 7 || sum.Names != -1 {
		t.Errorf("%+v, %v", sum, err)
	}
}
