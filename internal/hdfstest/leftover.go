package hdfstest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// clusterPrefix begins the names of clusters' folders, which lie in the system's folder for temporary files.
	clusterPrefix = "stepahead-hdfs-"
	// youngFolder is an age in which a folder may be there and not be locked yet.
	youngFolder = time.Hour
	// unusedToolchain is how long a toolchain is kept that nobody uses: it has 77 MB, and each change of its sources makes
	// another.
	unusedToolchain = 7 * 24 * time.Hour
)

// lockFile takes the lock of a file, which it makes if need be, and gives it up when the file is closed or the process ends.
// how is syscall.LOCK_EX, with LOCK_NB to fail where another holds it.
func lockFile(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, file.Close())
		}
	}
}

// sweepClusters removes the folders of clusters whose processes were killed.
func sweepClusters(tmp string, now time.Time) {
	sweep(tmp, now.Add(-youngFolder), func(folder string) (lock string, ok bool) {
		lock = clusterLock(folder)
		_, err := os.Stat(lock)
		return lock, err == nil && strings.HasPrefix(filepath.Base(folder), clusterPrefix)
	})
}

// sweepToolchains removes those in root that were not used for long, except one.
func sweepToolchains(root, except string, now time.Time) {
	sweep(root, now.Add(-unusedToolchain), func(folder string) (lock string, ok bool) {
		return toolchainLock(folder), folder != except
	})
}

func clusterLock(dir string) string   { return filepath.Join(dir, "lock") }
func toolchainLock(dir string) string { return dir + ".lock" }

// sweep removes the folders in root that choose takes, that were last changed before a time, and whose lock nobody holds.
// What cannot be removed stays for the next time.
func sweep(root string, before time.Time, choose func(folder string) (lock string, ok bool)) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		folder := filepath.Join(root, e.Name())
		lock, ok := choose(folder)
		if info, err := e.Info(); err != nil || !ok || !info.IsDir() || !info.ModTime().Before(before) {
			continue
		}
		if held, err := lockFile(lock, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			_ = os.RemoveAll(folder)
			held.Close()
		}
	}
}
