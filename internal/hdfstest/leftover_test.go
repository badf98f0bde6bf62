package hdfstest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// oldFolders makes folders that were last changed so long ago, and returns what lists those that are left.
func oldFolders(t *testing.T, root string, ages map[string]time.Duration) (left func() []string) {
	t.Helper()
	for name, age := range ages {
		folder, at := filepath.Join(root, name), time.Now().Add(-age)
		err := errors.Join(os.MkdirAll(filepath.Join(folder, "dfs", "data"), 0o755), os.Chtimes(folder, at, at))
		if err != nil {
			t.Fatal(err)
		}
	}
	return func() (names []string) {
		entries, err := os.ReadDir(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
		return names
	}
}

func locked(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := lockFile(path, syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// TestSweepClusters: a folder goes when its cluster was killed, and no other one.
func TestSweepClusters(t *testing.T) {
	tmp := t.TempDir()
	for _, name := range []string{"killed", "running", "starting"} {
		folder := filepath.Join(tmp, clusterPrefix+name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if lock := locked(t, clusterLock(folder)); name != "running" {
			lock.Close() // as the end of the process does
		}
	}
	left := oldFolders(t, tmp, map[string]time.Duration{
		clusterPrefix + "killed": 2 * youngFolder, clusterPrefix + "running": 100 * youngFolder, clusterPrefix + "starting": 0,
		clusterPrefix + "unlocked": 2 * youngFolder, "another-program": 100 * youngFolder,
	})
	sweepClusters(tmp, time.Now())
	want := []string{"another-program", clusterPrefix + "running", clusterPrefix + "starting", clusterPrefix + "unlocked"}
	if got := left(); !slices.Equal(got, want) {
		t.Errorf("left: %v, want %v", got, want)
	}
}

// TestSweepToolchains: those that nobody uses go; not the one that is wanted, nor one that is being built.
func TestSweepToolchains(t *testing.T) {
	root := t.TempDir()
	left := oldFolders(t, root, map[string]time.Duration{
		"wanted": 2 * unusedToolchain, "old": 2 * unusedToolchain, "building": 2 * unusedToolchain, "used": unusedToolchain / 2,
	})
	locked(t, toolchainLock(filepath.Join(root, "building")))
	sweepToolchains(root, filepath.Join(root, "wanted"), time.Now())
	if got, want := left(), []string{"building", "used", "wanted"}; !slices.Equal(got, want) {
		t.Errorf("left: %v, want %v", got, want)
	}
}

// TestLockOfACluster: a running cluster holds its folder's lock.
func TestLockOfACluster(t *testing.T) {
	c := Shared(t)
	if _, err := lockFile(clusterLock(c.dir), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("%v, want a lock that is held", err)
	}
}
