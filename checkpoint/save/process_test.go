package save

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// The tests of processes run this test program as other processes, which kill themselves.

const childEnv = "SAVE_TEST_CHILD"

// child is what a child process does: a save, of which it does not survive a call.
type child struct {
	Folder string // of a store/dir
	URL    string // of a store/hdfs, and its configuration
	Conf   string
	Path   string
	Of     map[string][]byte
	Lives  int
	After  bool
}

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		var c child
		err := json.NewDecoder(os.Stdin).Decode(&c)
		if err == nil {
			err = c.run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	hdfstest.Main(m)
}

func (c child) run() error {
	st, err := c.open()
	if err != nil {
		return err
	}
	o := tight
	o.Layout, o.Overwrite = TorchDCP(), true
	m := &mortal{Store: st, lives: c.Lives, after: c.After, kill: func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}}
	return saveAll(context.Background(), m, c.Path, c.Of, o)
}

func (c child) open() (store.Store, error) {
	if c.Folder != "" {
		s, _, err := dir.Open(c.Folder, dir.Options{})
		return s, err
	}
	cfg, err := conf.Load(func(key string) string { return map[string]string{"HADOOP_CONF_DIR": c.Conf}[key] })
	if err != nil {
		return nil, err
	}
	s, _, err := hdfs.Open(c.URL, hdfs.Options{Conf: cfg, User: hdfstest.User})
	return s, err
}

// survives runs a child, and tells whether it was not killed.
func (c child) survives(t *testing.T) bool {
	t.Helper()
	text, err := json.Marshal(c)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stdin = bytes.NewReader(text)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return false
	}
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return true
}

// TestKilledProcesses: a process that is killed at any call leaves no complete checkpoint, and the next save leaves nothing of it.
func TestKilledProcesses(t *testing.T) {
	st := newDir(t)
	files := torchSave(t, "plain")
	c := child{Folder: st.Root(), Path: "/step", Of: files}
	o := tight
	o.Layout, o.Overwrite, o.Patience = TorchDCP(), true, -1
	for _, c.After = range []bool{false, true} {
		for c.Lives = 0; ; c.Lives++ {
			must(t, saveAll(t.Context(), st, c.Path, torchSave(t, "ranks"), o))
			if c.survives(t) {
				break
			}
			_, marked := st.Stat(t.Context(), "/step/.metadata")
			if _, whole := complete(t, st, c.Path); whole != (marked == nil) {
				t.Fatalf("killed at call %d: complete: %v, the marker: %v", c.Lives, whole, marked)
			}
			must(t, saveAll(t.Context(), st, c.Path, files, o))
			wantFiles(t, st, c.Path, files)
			if left, err := filepath.Glob(filepath.Join(st.Root(), "step", ".stepahead-*")); err != nil || len(left) > 0 {
				t.Fatalf("killed at call %d: left behind: %q, %v", c.Lives, left, err)
			}
		}
	}
}

// TestKilledProcessesOnHDFS: what they held is free after a minute, and then nothing is left of them.
func TestKilledProcessesOnHDFS(t *testing.T) {
	testdata.Soak(t)
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	st := openCluster(t, c, "/", nil)
	files := torchSave(t, "plain")
	n := 0
	for ; ; n++ {
		job := child{URL: c.URL() + "/", Conf: c.Getenv("HADOOP_CONF_DIR"), Path: path.Join(root, fmt.Sprint(n)), Of: files, Lives: n, After: true}
		if job.survives(t) {
			break
		}
		_, marked := st.Stat(t.Context(), path.Join(job.Path, ".metadata"))
		if _, whole := complete(t, st, job.Path); whole != (marked == nil) {
			t.Fatalf("killed at call %d: complete: %v, the marker: %v", n, whole, marked)
		}
	}
	if err := saveAll(t.Context(), st, path.Join(root, fmt.Sprint(n-2)), files, withPatience(-1)); !errors.Is(err, ErrInFlight) {
		t.Fatalf("a save while the killed one may live: %v", err)
	}
	for i := range n {
		name := path.Join(root, fmt.Sprint(i))
		must(t, saveAll(t.Context(), st, name, files, withPatience(2*time.Minute)))
		wantFiles(t, st, name, files)
		must(t, st.Remove(t.Context(), path.Join(name, ".metadata")))
		for base := range files {
			_ = st.Remove(t.Context(), path.Join(name, base))
		}
		must(t, st.Remove(t.Context(), name)) // which it refuses where a writer lives
	}
}

func withPatience(d time.Duration) Options {
	o := tight
	o.Layout, o.Overwrite, o.Patience = TorchDCP(), true, d
	return o
}
