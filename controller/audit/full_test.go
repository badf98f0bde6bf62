package audit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFullDiskIsNotAskedForEachLine: while the disk takes nothing it is tried once a while, not once for each line that waits.
func TestFullDiskIsNotAskedForEachLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	warned := make(chan error, 1000)
	l, err := Open(Options{File: name, Warn: func(err error) { warned <- err }})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(name), os.Symlink("/dev/full", name), l.file.Close()); err != nil { // nothing can be written to what is open, nor to what the name leads to
		t.Fatal(err)
	}
	l.Add(Entry{What: "first"})
	<-warned
	for range 200 {
		l.Add(Entry{What: "make"})
		l.rouse()
	}
	for began := time.Now(); l.Health().Failures < 2 && time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
	}
	if h := l.Health(); h.Failures > 20 || h.Waiting != 201 || !h.Failing {
		t.Errorf("%+v", h)
	}
	if err := l.Close(); err == nil {
		t.Error("what waits is said to be written")
	}
}
