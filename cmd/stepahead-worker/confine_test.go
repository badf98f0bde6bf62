package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image"
)

// TestMain turns this binary into a confined process that works, on the files of a folder if it is given one.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "confined" {
		if err := confined(os.Args[2]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func confined(dir string) error {
	runtime.LockOSThread() // a pool sets the flag for all threads, this process for the one that it is on
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	files := readAll(dir)
	i, err := confine()
	if err != nil {
		return err
	}
	if dir == "work" {
		work()
	}
	fmt.Printf("%v %x\n", i.Refused, digestOf(files))
	return nil
}

// inConfinement returns what a confined process of this binary says.
func inConfinement(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "confined", dir)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("confined: %v: %s\n%s", err, out, errs.String()[:min(errs.Len(), 2000)])
	}
	return strings.TrimSpace(string(out))
}

func TestAConfinedProcessCanWork(t *testing.T) {
	if said, want := inConfinement(t, "work"), fmt.Sprintf("map[] %x", digestOf(nil)); said != want {
		t.Errorf("it says %q, want %q", said, want)
	}
}

func TestConfinedDecodersMakeTheSamePixels(t *testing.T) {
	for _, dir := range []string{"photos", "jpeg", "png", "webp", "gif", "fuzz"} {
		path := testdata.Path(t, dir)
		if said, want := inConfinement(t, path), fmt.Sprintf("map[] %x", digestOf(readAll(path))); said != want {
			t.Errorf("%s: confined %s, free %s", dir, said, want)
		}
	}
}

// work needs what a Go program with C in it needs: memory that grows and shrinks, threads, timers, and signals that stop a
// loop without calls.
func work() {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var sum byte
	for range 5 {
		large := make([]byte, 64<<20)
		for i := 0; i < len(large); i += 4096 {
			large[i] = byte(i >> 12)
		}
		sum += large[4096]
		debug.FreeOSMemory()
	}
	var stop bool
	go func() { //nolint // ends with the process
		for !stop {
			sum++ // no call in here: only a signal stops it
		}
	}()
	time.Sleep(20 * time.Millisecond) // comes back although the only processor is busy
	done := make(chan struct{})
	for range 12 {
		go func() {
			runtime.LockOSThread() // and never lets go: the thread ends
			image.Golden()
			done <- struct{}{}
		}()
	}
	for range 12 {
		<-done
	}
}

// readAll returns the files of a folder, by name.
func readAll(dir string) map[string][]byte {
	files := map[string][]byte{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || len(files) >= 150 {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Size() < 300<<10 {
			files[path], _ = os.ReadFile(path)
		}
		return nil
	})
	return files
}

// digestOf puts files through a plan and hashes what becomes of them.
func digestOf(files map[string][]byte) [32]byte {
	plan, err := transform.ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":96},{"op":"RandomHorizontalFlip"}]}`))
	if err != nil {
		panic(err)
	}
	h := sha256.New()
	out := make([]byte, 96*96*3)
	for i, name := range slices.Sorted(maps.Keys(files)) {
		spec, err := image.Run(plan, transform.Key{Sample: uint64(i)}, files[name], out, image.Limits{MaxPixels: 1 << 24})
		fmt.Fprintln(h, name, spec, err)
		if err == nil {
			h.Write(out)
		}
	}
	return [32]byte(h.Sum(nil))
}
