package image

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// The NEON kernels, compiled for arm64 and run by an emulator, against the scalar ones.
func TestNEONUnderEmulation(t *testing.T) {
	cc, err := exec.LookPath("aarch64-linux-gnu-gcc")
	if err != nil {
		testdata.Missing(t, "gcc-aarch64-linux-gnu and qemu-user-static to check the NEON kernels: %v", err)
	}
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		testdata.Missing(t, "qemu-user-static to check the NEON kernels: %v", err)
	}
	program := filepath.Join(t.TempDir(), "neon")
	build := exec.Command(cc, "-O3", "-static", "-I.", "-o", program, "testdata/neon.c", "resample_scalar.c", "resample_neon.c")
	if out, err := build.CombinedOutput(); err != nil {
		testdata.Missing(t, "a cross compiler that builds: %v\n%s", err, out)
	}
	if out, err := exec.Command(qemu, program).CombinedOutput(); err != nil {
		t.Errorf("NEON and scalar kernels differ: %v\n%s", err, out)
	}
}
