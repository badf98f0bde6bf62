package image

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// The NEON kernels, compiled for arm64 and run by an emulator, against the scalar ones.
func TestNEONUnderEmulation(t *testing.T) {
	cc, err := exec.LookPath("aarch64-linux-gnu-gcc")
	if err != nil {
		t.Skip("SKIPPED: install gcc-aarch64-linux-gnu and qemu-user-static to check the NEON kernels here: ", err)
	}
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skip("SKIPPED: install qemu-user-static to check the NEON kernels here: ", err)
	}
	program := filepath.Join(t.TempDir(), "neon")
	build := exec.Command(cc, "-O3", "-static", "-I.", "-o", program, "testdata/neon.c", "resample_scalar.c", "resample_neon.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: the cross compiler does not build: %v\n%s", err, out)
	}
	if out, err := exec.Command(qemu, program).CombinedOutput(); err != nil {
		t.Errorf("NEON and scalar kernels differ: %v\n%s", err, out)
	}
}
