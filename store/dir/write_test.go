package dir_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// helperEnv makes the test binary a process that writes half a file and waits.
const helperEnv = "STEPAHEAD_DIR_TEST_WRITER"

func TestMain(m *testing.M) {
	if root := os.Getenv(helperEnv); root != "" {
		writeHalf(root)
		return
	}
	if root := os.Getenv(fullEnv); root != "" {
		if err := claimWithoutRoom(root); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// fullEnv makes the test binary a process that may not write a byte, and claims a name.
const fullEnv = "STEPAHEAD_DIR_TEST_FULL"

func claimWithoutRoom(root string) error {
	signal.Ignore(syscall.SIGXFSZ)
	s, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		return err
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		return err
	}
	c, err := s.Claim(context.Background(), "/.stepahead/controller")
	if err != nil {
		return err
	}
	if _, err := s.Claim(context.Background(), "/.stepahead/controller"); !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("it is claimed twice: %w", err)
	}
	return errors.Join(c.Held(context.Background()), c.Release())
}

// TestClaimOnFullDisk: a name can be had where there is no room for a byte, for instance by whoever makes room.
func TestClaimOnFullDisk(t *testing.T) {
	full := exec.Command(os.Args[0])
	full.Env = append(os.Environ(), fullEnv+"="+t.TempDir())
	if out, err := full.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func writeHalf(root string) {
	s, _, err := dir.Open(root, dir.Options{})
	if err == nil {
		var w store.Writer
		if w, err = s.Create(context.Background(), "/d/f"); err == nil {
			_, err = w.Write([]byte("half"))
		}
	}
	fmt.Println("ready", err)
	bufio.NewReader(os.Stdin).ReadByte() // until killed
}

// startWriter starts a process that is writing /d/f.
func startWriter(t *testing.T, root string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+root)
	_, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready <nil>\n" {
		t.Fatalf("the writing process says %q, %v", line, err)
	}
	return cmd
}

func TestKilledWriter(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, dir.Options{})
	cmd := startWriter(t, root)
	if _, err := s.Create(t.Context(), "/d/f"); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("Create beside a living writer: %v, want fs.ErrExist", err)
	}
	must(t, cmd.Process.Kill())
	cmd.Wait()
	infos, err := s.List(t.Context(), "/d")
	if err != nil || len(infos) != 0 {
		t.Fatalf("what the killed writer left is listed: %+v, %v", infos, err)
	}
	storetest.Put(t, s, "/d/f", []byte("whole"))
	if got := storetest.Get(t, s, "/d/f"); string(got) != "whole" {
		t.Fatalf("content %q", got)
	}
	entries, _ := os.ReadDir(filepath.Join(root, "d"))
	if len(entries) != 1 {
		t.Fatalf("the folder holds %v, want the file alone", entries)
	}
}

// A writer killed between its two last steps leaves its temporary name on the visible file. After that file
// moved on, writing the old name again must not touch its bytes.
func TestKilledBetweenLinkAndUnlink(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, dir.Options{})
	w, err := s.Create(t.Context(), "/new")
	must(t, err)
	entries, _ := os.ReadDir(root)
	temp := filepath.Join(root, entries[0].Name())
	w.Write([]byte("precious"))
	must(t, w.Close())
	must(t, os.Link(filepath.Join(root, "new"), temp))
	must(t, s.Rename(t.Context(), "/new", "/published"))
	f := storetest.Open(t, s, "/published")

	storetest.Put(t, s, "/new", []byte("other"))
	got, err := read(t.Context(), f, 0, 8)
	if err != nil || string(got) != "precious" || string(storetest.Get(t, s, "/published")) != "precious" {
		t.Fatalf("the published file is now %q, %v", got, err)
	}
	if _, err := os.Stat(temp); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary name is still there: %v", err)
	}
}

// A folder that lists as empty can be removed, whatever instruction its writers were killed at; a living
// writer keeps its folder.
func TestRemoveFolderOfKilledWriters(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, dir.Options{})
	cmd := startWriter(t, root) // /d/f, before its file is linked
	if err := s.Remove(t.Context(), "/d"); !errors.Is(err, syscall.ENOTEMPTY) || !strings.Contains(err.Error(), "being written") {
		t.Fatalf("Remove beside a living writer: %v, want ENOTEMPTY and why", err)
	}
	must(t, cmd.Process.Kill())
	cmd.Wait()
	entries, _ := os.ReadDir(filepath.Join(root, "d"))
	temp := filepath.Join(root, "d", entries[0].Name())
	must(t, os.Link(temp, filepath.Join(root, "d", "f"))) // as killed between Link and Remove
	if err := s.Remove(t.Context(), "/d"); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Fatalf("Remove of a folder with a file: %v, want ENOTEMPTY", err)
	}
	if string(storetest.Get(t, s, "/d/f")) != "half" {
		t.Fatal("the file's content changed")
	}
	must(t, s.Remove(t.Context(), "/d/f"))
	if infos, err := s.List(t.Context(), "/d"); err != nil || len(infos) != 0 {
		t.Fatalf("listed: %v, %v", infos, err)
	}
	must(t, s.Remove(t.Context(), "/d"))
	if _, err := os.Stat(filepath.Join(root, "d")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestCreateBesideAnOutsider(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, dir.Options{})
	w, err := s.Create(t.Context(), "/f")
	must(t, err)
	w.Write([]byte("ours"))
	write(t, root, "f", "theirs") // by a program that knows nothing of stores
	if err := w.Close(); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("Close over a file that appeared meanwhile: %v, want fs.ErrExist", err)
	}
	if got := storetest.Get(t, s, "/f"); string(got) != "theirs" {
		t.Fatalf("content %q", got)
	}
	entries, _ := os.ReadDir(root)
	if len(entries) != 1 {
		t.Fatalf("the folder holds %v", entries)
	}
}

func TestLongestName(t *testing.T) {
	s := open(t, t.TempDir(), dir.Options{})
	name := "/" + strings.Repeat("n", 255)
	storetest.Put(t, s, name, []byte("x"))
	must(t, s.SetReplication(t.Context(), name, 2))
	if _, err := s.Create(t.Context(), name+"n"); store.ClassOf(err) != store.Permanent {
		t.Fatalf("256 bytes: %v", err)
	}
}

func TestReplicationFollowsTheFile(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	count := func(name string) int { return len(holders(t, s, name, 0)) }
	for _, name := range []string{"/a", "/b", "/c"} {
		storetest.Put(t, s, name, []byte(name))
	}
	before := holders(t, s, "/a", 0)
	must(t, s.SetReplication(t.Context(), "/a", 5))
	must(t, s.SetReplication(t.Context(), "/b", 1))
	if a, b, c := count("/a"), count("/b"), count("/c"); a != 5 || b != 1 || c != 3 {
		t.Fatalf("replicas %d, %d, %d; want 5, 1, 3", a, b, c)
	}
	if after := holders(t, s, "/a", 0); fmt.Sprint(after[:3]) != fmt.Sprint(before) {
		t.Errorf("raising moved the replicas from %v to %v", before, after)
	}
	must(t, s.SetReplication(t.Context(), "/a", 1000))
	if n := count("/a"); n != 6 {
		t.Errorf("1000 replicas on 6 nodes are %d", n)
	}
	infos, err := s.List(t.Context(), "/")
	must(t, err)
	if len(infos) != 3 || infos[0].Replicas != 1000 || infos[1].Replicas != 1 || infos[2].Replicas != 3 {
		t.Errorf("the listing is %+v", infos)
	}
	must(t, s.Rename(t.Context(), "/a", "/b"))
	if n := count("/b"); n != 6 {
		t.Errorf("after a rename %d replicas, want 6", n)
	}
	must(t, s.Rename(t.Context(), "/c", "/b"))
	if n := count("/b"); n != 3 {
		t.Errorf("a file without a factor of its own replaced one with 6, and has %d", n)
	}
	must(t, s.SetReplication(t.Context(), "/b", 2))
	must(t, s.Remove(t.Context(), "/b"))
	storetest.Put(t, s, "/b", nil)
	storetest.Put(t, s, "/b2", nil)
	must(t, s.Rename(t.Context(), "/b2", "/b"))
	storetest.Put(t, s, "/x", []byte("x"))
	must(t, s.Rename(t.Context(), "/x", "/b"))
	if n := count("/b"); n != 3 {
		t.Errorf("a new file of the same name has %d replicas, want 3", n)
	}
}

func TestBrokenSidecar(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	storetest.Put(t, s, "/f", []byte("f"))
	must(t, s.SetReplication(t.Context(), "/f", 2))
	found, _ := filepath.Glob(filepath.Join(s.Root(), ".stepahead/replication/*"))
	if len(found) != 1 {
		t.Fatalf("sidecars: %v", found)
	}
	for _, text := range []string{"", "{}", `{"replication":0}`, `{"replication":-3}`, "garbage"} {
		must(t, os.WriteFile(found[0], []byte(text), 0o644))
		_, err := s.Open(t.Context(), "/f")
		if err == nil || !strings.Contains(err.Error(), filepath.Base(found[0])) {
			t.Errorf("%q: %v, want an error that names the sidecar", text, err)
		}
	}
	must(t, s.SetReplication(t.Context(), "/f", 2)) // heals it
	if got := storetest.Get(t, s, "/f"); !bytes.Equal(got, []byte("f")) {
		t.Fatal(got)
	}
}
