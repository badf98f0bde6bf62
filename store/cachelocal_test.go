package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// remote is a store without local paths, that holds data as /f.
func remote(t testing.TB, data []byte) *counting {
	t.Helper()
	c := &counting{Store: newCluster(t)}
	storetest.Put(t, c, "/f", data)
	return c
}

func wantCached(t testing.TB, s store.Store, data []byte, cache string) string {
	t.Helper()
	local, err := store.CacheLocal(t.Context(), s, "/f", sha256.Sum256(data), cache)
	must(t, err)
	path := local.Path
	if now, err := os.Stat(path); err != nil || !os.SameFile(now, local.Verified) || now.Size() != local.Verified.Size() || !now.ModTime().Equal(local.Verified.ModTime()) {
		t.Fatalf("%v was verified, there is %v (%v)", local.Verified, now, err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("the cached file is wrong: %v", err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 1 || filepath.Join(cache, entries[0].Name()) != path {
		t.Fatalf("the cache holds %v, want %s alone", entries, path)
	}
	return path
}

func TestCacheLocal(t *testing.T) {
	for _, size := range []int{0, 1, 100, 4 << 20, 9<<20 + 7} {
		data := random(size)
		s := remote(t, data)
		cache := filepath.Join(t.TempDir(), "new", "cache")
		first := wantCached(t, s, data, cache)
		if again := wantCached(t, s, data, cache); again != first {
			t.Errorf("another path the second time: %s, %s", first, again)
		}
		if s.opened.Load() != 1 || s.closed.Load() != 1 {
			t.Errorf("%d bytes: opened %d times, closed %d times; want 1", size, s.opened.Load(), s.closed.Load())
		}
		if s.largest.Load() > 8<<20 {
			t.Errorf("%d bytes were read at once", s.largest.Load())
		}
	}
}

func TestCacheLocalRepairs(t *testing.T) {
	data := random(5 << 20)
	s := remote(t, data)
	cache := t.TempDir()
	path := wantCached(t, s, data, cache)
	for name, spoil := range map[string]func() error{
		"cut":     func() error { return os.Truncate(path, 100) },
		"flipped": func() error { return os.WriteFile(path, append([]byte{data[0] ^ 1}, data[1:]...), 0o644) },
		"gone":    func() error { return os.Remove(path) },
		"partial": func() error { return errors.Join(os.Remove(path), os.WriteFile(path+".partial", data[:999], 0o644)) },
	} {
		must(t, spoil())
		before := s.opened.Load()
		if wantCached(t, s, data, cache); s.opened.Load() != before+1 {
			t.Errorf("%s: not copied again", name)
		}
	}
}

// A reader that has mapped the damaged file keeps it: repairing must not write into it.
func TestCacheLocalReplacesTheInode(t *testing.T) {
	data := random(1000)
	s := remote(t, data)
	cache := t.TempDir()
	path := wantCached(t, s, data, cache)
	must(t, os.WriteFile(path, []byte("damaged"), 0o644))
	held, err := os.Open(path)
	must(t, err)
	defer held.Close()
	wantCached(t, s, data, cache)
	buf := make([]byte, 100)
	if n, _ := held.Read(buf); string(buf[:n]) != "damaged" {
		t.Errorf("the old file now holds %q", buf[:n])
	}
}

func TestCacheLocalWrongDigest(t *testing.T) {
	data := random(1000)
	cache := t.TempDir()
	want := sha256.Sum256([]byte("something else"))
	for name, s := range map[string]store.Store{"remote": remote(t, data), "local": newDir(t)} {
		if name == "local" {
			storetest.Put(t, s, "/f", data)
		}
		local, err := store.CacheLocal(t.Context(), s, "/f", want, cache)
		var wrong *store.DigestError
		if !errors.As(err, &wrong) || wrong.Want != want || wrong.Got != sha256.Sum256(data) || store.ClassOf(err) != store.Corrupt {
			t.Errorf("%s: %q, %v; want a DigestError", name, local.Path, err)
		} else if !strings.Contains(err.Error(), "/f") {
			t.Errorf("%s: %v does not name the file", name, err)
		}
	}
	if entries, _ := os.ReadDir(cache); len(entries) != 0 {
		t.Errorf("wrong content was kept: %v", entries)
	}
}

func TestCacheLocalFailures(t *testing.T) {
	s := remote(t, random(1000))
	cache := t.TempDir()
	digest := sha256.Sum256(random(1000))
	if _, err := store.CacheLocal(t.Context(), s, "/missing", digest, cache); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := store.CacheLocal(t.Context(), s, "/f", digest, ""); store.ClassOf(err) != store.Permanent {
		t.Errorf("no folder: %v", err)
	}
	faults, err := store.ParseFaults("fail(op=read, err=identity)")
	must(t, err)
	if _, err := store.CacheLocal(t.Context(), store.Faults(s, faults), "/f", digest, cache); store.ClassOf(err) != store.IdentityChanged {
		t.Errorf("a failing read: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.CacheLocal(ctx, s, "/f", digest, cache); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if entries, _ := os.ReadDir(cache); len(entries) != 0 {
		t.Errorf("failures left %v", entries)
	}
	wantCached(t, s, random(1000), cache)
}

func TestCacheLocalUsesLocalFiles(t *testing.T) {
	s := newDir(t)
	data := random(1000)
	storetest.Put(t, s, "/f", data)
	local, err := store.CacheLocal(t.Context(), s, "/f", sha256.Sum256(data), "")
	if want, _ := s.LocalPath("/f"); err != nil || local.Path != want || local.Verified.Size() != 1000 {
		t.Fatalf("%+v, %v; want the file itself, %s", local, err, want)
	}
	if copied, err := store.CacheLocal(t.Context(), store.Faults(s, nil), "/f", sha256.Sum256(data), t.TempDir()); err != nil || strings.HasPrefix(copied.Path, s.Root()) {
		t.Errorf("faults were bypassed: %s, %v", copied.Path, err)
	}
}

// TestCacheLocalRefusesPipes: opening one would wait for a writer, which need not come.
func TestCacheLocalRefusesPipes(t *testing.T) {
	s := newDir(t)
	must(t, syscall.Mkfifo(filepath.Join(s.Root(), "f"), 0o600))
	_, err := store.CacheLocal(t.Context(), s, "/f", sha256.Sum256(nil), "")
	if !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("%v, want ErrInvalid", err)
	}
}

func TestCacheLocalCopiesOnce(t *testing.T) {
	data := random(1 << 20)
	s := remote(t, data)
	s.opening = func() { time.Sleep(30 * time.Millisecond) } // all the others come while the first copies
	cache := t.TempDir()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := store.CacheLocal(t.Context(), s, "/f", sha256.Sum256(data), cache); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.opened.Load(); n != 1 {
		t.Errorf("copied %d times", n)
	}
	wantCached(t, s, data, cache)
}

func TestCacheLocalWaitEndsWithTheContext(t *testing.T) {
	data := random(1000)
	s := remote(t, data)
	cache := t.TempDir()
	partial, err := os.Create(filepath.Join(cache, fmt.Sprintf("%x.partial", sha256.Sum256(data))))
	must(t, err)
	must(t, syscall.Flock(int(partial.Fd()), syscall.LOCK_EX)) // another process is at work, for ever
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := store.CacheLocal(ctx, s, "/f", sha256.Sum256(data), cache); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, want the end of the context", err)
	}
	must(t, partial.Close()) // and is killed
	wantCached(t, s, data, cache)
}

// cacherEnv makes the test binary a process that caches one file: "root,cache".
const cacherEnv = "STEPAHEAD_STORE_TEST_CACHER"

func runCacher(args string) int {
	root, cache, _ := strings.Cut(args, ",")
	s, _, err := dir.Open(root, dir.Options{})
	if err == nil {
		var data []byte
		if data, err = os.ReadFile(filepath.Join(root, "f")); err == nil {
			_, err = store.CacheLocal(context.Background(), s, "/f", sha256.Sum256(data), cache)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestCacheLocalBetweenProcesses(t *testing.T) {
	data := random(8 << 20)
	inner := newCluster(t)
	storetest.Put(t, inner, "/f", data)
	cache := t.TempDir()
	var commands []*exec.Cmd
	for i := range 6 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), cacherEnv+"="+inner.Root()+","+cache)
		cmd.Stderr = os.Stderr
		must(t, cmd.Start())
		if i == 0 {
			cmd.Process.Kill() // wherever it is just now
			cmd.Wait()
			continue
		}
		commands = append(commands, cmd)
	}
	for _, cmd := range commands {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	wantCached(t, inner, data, cache)
}
