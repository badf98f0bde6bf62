package main

import (
	"encoding/binary"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

// Any file is written as a tensor, or its content is refused with exit code 1 and a message that names it, and nothing is
// written. `make soak` tries every file of the test data, `make test` some of each folder.
func TestTransformOfAnyFile(t *testing.T) {
	w := newWorkspace(t)
	w.plan(`{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[24,32]}`)
	const bytes = 24 * 32 * 3
	every := 16
	if os.Getenv(testdata.SoakEnv) != "" {
		every = 1
	}
	tried := map[int]int{}
	for i, path := range filesOf(t, testdata.Path(t, ".")) {
		if i%every != 0 {
			continue
		}
		code, says := w.run(path)
		tried[code]++
		written, err := os.ReadFile(w.path("out.npy"))
		switch {
		case code == exit.OK && (err != nil || !isNPY(written, bytes)):
			t.Errorf("%s: exit code 0, but the tensor has %d bytes, %v", path, len(written), err)
		case code == exit.Found && (err == nil || !strings.Contains(says, filepath.Base(path)) || !printable(says)):
			t.Errorf("%s: refused with %q, and %d bytes were written", path, says, len(written))
		case code != exit.OK && code != exit.Found:
			t.Errorf("%s: exit code %d: %s", path, code, says)
		}
		os.Remove(w.path("out.npy"))
	}
	w.onlyKnownFiles()
	if tried[exit.OK] < 400/every || tried[exit.Found] < 400/every {
		t.Errorf("exit codes and how often each came: %v", tried)
	}
}

func filesOf(t *testing.T, root string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func printable(s string) bool {
	return !strings.ContainsFunc(strings.TrimSuffix(s, "\n"), func(r rune) bool { return !unicode.IsPrint(r) })
}

// isNPY reports whether a file is a whole NumPy file with that many bytes of elements.
func isNPY(file []byte, elements int) bool {
	const prefix = 10
	return len(file) > prefix && string(file[:8]) == "\x93NUMPY\x01\x00" &&
		len(file) == prefix+int(binary.LittleEndian.Uint16(file[8:]))+elements
}

// A disk that is full while the tensor is written leaves the old file and nothing else. The limit that stands for it holds
// for a whole process, in which `go test` would write its log too: so it is one of its own.
func TestTransformOnAFullDisk(t *testing.T) {
	const child = "STEPAHEAD_TEST_FULL_DISK"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	path := filepath.Join(t.TempDir(), "out.npy")
	for name, room := range map[string]uint64{"not even the header": 10, "some of the tensor": 1000} {
		if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: room, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
		_, err := writeNPY(path, transform.Uint8, []int{100, 100, 3}, make([]byte, 30_000))
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Fatal(err)
		}
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		left, _ := os.ReadDir(filepath.Dir(path))
		if kept, err := os.ReadFile(path); err != nil || string(kept) != "precious" || len(left) != 1 {
			t.Errorf("%s: the old file is %q, %v; the folder holds %v", name, kept, err, left)
		}
	}
}

// A command that is killed at any moment leaves the old file or the whole new one.
func TestTransformKilledAtAnyMoment(t *testing.T) {
	w := newWorkspace(t)
	w.plan(`{"op":"DecodeImage"},{"op":"Resize","size":[700,700]},{"op":"ToDtype","dtype":"float32"}`)
	const elements = 700 * 700 * 3 * 4
	program := filepath.Join(w.dir, "..", "stepahead")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	start := func() *exec.Cmd {
		w.write("out.npy", "old")
		c := exec.Command(program, "transform", "--worker", w.worker, "--plan", w.path("plan.json"), "-o", w.path("out.npy"), w.path("in.png"))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	began := time.Now()
	if err := start().Wait(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	const rounds = 16
	olds := 0
	for i := range rounds {
		c := start()
		kill := time.AfterFunc(took*time.Duration(i)/(rounds-4), func() { _ = c.Process.Kill() })
		_ = c.Wait()
		kill.Stop()
		file, err := os.ReadFile(w.path("out.npy"))
		if string(file) == "old" {
			olds++
		} else if err != nil || !isNPY(file, elements) {
			t.Errorf("killed after %v of %v: %d bytes are left, %v", took*time.Duration(i)/(rounds-4), took, len(file), err)
		}
	}
	t.Logf("%d of %d kills left the old file", olds, rounds)
	if olds == 0 {
		t.Error("no kill came in time")
	}
}
