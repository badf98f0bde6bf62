// The address sanitizer needs more memory than this test leaves, and ends the process where malloc would fail.

//go:build !asan

package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/internal/encode"
)

const noMemoryEnv = "STEPAHEAD_TEST_NO_MEMORY"

// A machine that has no memory left says nothing about the sample, which then must not be replaced. The test
// runs itself again with less memory than two honest headers ask for.
func TestLackOfMemoryIsNotTheContent(t *testing.T) {
	progressive := mustJPEG(t, 16, 16, encode.Options{Progressive: true})
	at := bytes.Index(progressive, []byte{0xFF, 0xC2})
	copy(progressive[at+5:], []byte{0x20, 0x00, 0x40, 0x00}) // 16,384 x 8,192: 800 MB of coefficients
	interlaced := pngHeader(16384, 8192)
	interlaced[28] = 1
	binary.BigEndian.PutUint32(interlaced[29:], crc32.ChecksumIEEE(interlaced[12:29]))
	if os.Getenv(noMemoryEnv) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), noMemoryEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "both refused") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	defer leaveMemory(t, 320<<20)()
	for name, in := range map[string][]byte{"jpeg": progressive, "png": interlaced} {
		out := make([]byte, 30)
		_, err := runSteps(in, out, bestVariant(), transform.Step{Kind: transform.StepCrop, Box: transform.Box{W: 5, H: 2}})
		if kindOf(err) != transform.KindCrash || !strings.Contains(err.Error(), name) {
			t.Fatalf("%s: %v, want kind crash", name, err)
		}
	}
	fmt.Println("both refused")
}

// leaveMemory lets the process take room bytes more than it has, until the returned function runs. What the
// runtime has (with the race detector, its shadows) is not counted: it must be able to live, and to end.
func leaveMemory(t *testing.T, room uint64) (restore func()) {
	t.Helper()
	collect := debug.SetGCPercent(-1)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: dataBytes(t) + room, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &before); err != nil {
			t.Error(err)
		}
		debug.SetGCPercent(collect)
	}
}

// dataBytes is what the kernel counts against RLIMIT_DATA: VmData of proc(5).
func dataBytes(t *testing.T) uint64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmData:")
	var kib uint64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
