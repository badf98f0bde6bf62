package localfile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestNotRegular: what is no file is refused by its kind, through links too, however it is opened. A pipe that nobody writes would be waited for for ever.
func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	must(t, syscall.Mkfifo(pipe, 0o600))
	lis, err := net.Listen("unix", socket)
	must(t, err)
	defer lis.Close()
	for name, word := range map[string]string{dir: "a folder", pipe: "a pipe", socket: "a socket", "/dev/zero": "a device"} {
		link := filepath.Join(dir, "link")
		must(t, os.Symlink(name, link))
		for _, name := range []string{name, link} {
			_, err := Read(name, 10)
			_, opened := OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
			for _, err := range []error{err, opened} {
				if !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), name+": ") || !strings.Contains(err.Error(), word) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		must(t, os.Remove(link))
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	must(t, os.WriteFile(name, []byte("0123456789"), 0o600))
	must(t, os.Symlink("file", link))
	if got, err := Read(link, 10); err != nil || string(got) != "0123456789" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Read(name, 9); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), name) || got != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Read(name+"x", 9); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestWrite: a file has the old content or the new one, and nothing is left beside it.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	must(t, os.WriteFile(name+draftSuffix, []byte("half of what a killed process wrote, and longer"), 0o600))
	for _, text := range []string{"one", "two"} {
		must(t, Write(name, []byte(text)))
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	if err := Write(filepath.Join(dir, "folder"), nil); err == nil {
		t.Error("a folder was replaced")
	}
	must(t, Remove(name))
	must(t, Remove(name))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left: %v", left, err)
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
