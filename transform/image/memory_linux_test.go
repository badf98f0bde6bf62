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
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: 256 << 20, Max: 256 << 20}); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string][]byte{"jpeg": progressive, "png": interlaced} {
		out := make([]byte, 30)
		_, err := runSteps(in, out, bestVariant(), transform.Step{Kind: transform.StepCrop, Box: transform.Box{W: 5, H: 2}})
		if kindOf(err) != transform.KindCrash || !strings.Contains(err.Error(), name) {
			t.Fatalf("%s: %v, want kind crash", name, err)
		}
	}
	fmt.Println("both refused")
}
