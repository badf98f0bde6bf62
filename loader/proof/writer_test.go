package proof

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func mustOpen(t *testing.T, path string) *Writer {
	t.Helper()
	w, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWriterWritesThroughAndContinues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rank0.jsonl")
	w := mustOpen(t, path)
	if err := w.Append([]byte(someLines(0, 1, 0, 2))); err != nil {
		t.Fatal(err)
	}
	// Before Close: a killed process must have left its records.
	if got, _ := os.ReadFile(path); string(got) != someLines(0, 1, 0, 2) {
		t.Fatalf("before Close the file holds %q", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Append([]byte(someLines(1, 2, 0, 1))); err == nil {
		t.Error("a closed Writer takes records")
	}
	whole := someLines(0, 1, 0, 2)
	for cut := 0; cut < len(someLines(1, 2, 0, 1)); cut += 17 { // wherever the write was cut
		if err := os.WriteFile(path, []byte(whole+someLines(1, 2, 0, 1)[:cut]), 0o644); err != nil {
			t.Fatal(err)
		}
		w := mustOpen(t, path)
		if err := w.Append([]byte(someLines(1, 2, 0, 1))); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if got, _ := os.ReadFile(path); string(got) != whole+someLines(1, 2, 0, 1) {
			t.Fatalf("continued after %d bytes of a line: %q", cut, got)
		}
	}
}

func TestWriterRefusesWhatIsNoFileOfRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "photo.jpg")
	content := strings.Repeat("x", maxLine+1)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "no file of records") {
		t.Errorf("%v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != content {
		t.Error("the file was changed")
	}
	if _, err := Open(filepath.Join(path, "x")); err == nil {
		t.Error("a file inside a file opens")
	}
}

// filling is a disk that takes so many bytes more.
type filling struct {
	*os.File
	left int
}

func (f *filling) Write(p []byte) (int, error) {
	if len(p) <= f.left {
		f.left -= len(p)
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:f.left])
	f.left = 0
	return n, errors.Join(err, syscall.ENOSPC)
}

// A write that stops in the middle leaves nothing of its lines, and the next one goes on behind whole lines.
func TestWriterOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rank0.jsonl")
	w := mustOpen(t, path)
	first, second := []byte(someLines(0, 1, 0, 2)), []byte(someLines(1, 2, 0, 2))
	if err := w.Append(first); err != nil {
		t.Fatal(err)
	}
	full := &filling{File: w.file.(*os.File)}
	w.file = full
	for _, full.left = range []int{0, 1, len(second) - 1, len(second)} {
		room := full.left == len(second)
		err := w.Append(second)
		want := string(first)
		if room {
			want += string(second)
		}
		if got, _ := os.ReadFile(path); string(got) != want || (err == nil) != room || !room && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%v, the file holds %q", err, got)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWriterIntoNothing(t *testing.T) {
	w := mustOpen(t, os.DevNull)
	if err := w.Append([]byte(someLines(0, 1, 0, 1))); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
