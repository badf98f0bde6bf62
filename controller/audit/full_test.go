package audit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestFullDiskIsNotAskedForEachLine: while the disk takes nothing it is tried once a second, not once for each line that waits.
func TestFullDiskIsNotAskedForEachLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "audit.log")
		l, err := Open(Options{File: name})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Remove(name), os.Symlink("/dev/full", name), l.file.Close()); err != nil { // nothing can be written to what is open, nor to what the name leads to
			t.Fatal(err)
		}
		for range 200 {
			l.Add(Entry{What: "make"})
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * retryAfter)
		synctest.Wait()
		if h := l.Health(); h.Failures < 10 || h.Failures > 12 || h.Waiting != 200 {
			t.Errorf("%+v", h)
		}
		if err := l.Close(); err == nil {
			t.Error("what waits is said to be written")
		}
	})
}
