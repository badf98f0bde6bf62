package testdata

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// OnOtherProcessors runs those tests of the caller's package that the pattern run names where the compiler fuses
// multiplications and additions: compiled for arm64 and run by an emulator, and, in long runs, for the third level
// of amd64. The package must be pure Go.
func OnOtherProcessors(t *testing.T, run string) {
	t.Run("arm64", func(t *testing.T) {
		emulator, err := exec.LookPath("qemu-aarch64-static")
		if err != nil {
			Missing(t, "qemu-user-static to run programs for arm64: %v", err)
		}
		compileAndRun(t, run, []string{"GOARCH=arm64"}, emulator)
	})
	t.Run("amd64-v3", func(t *testing.T) {
		Soak(t)
		compileAndRun(t, run, []string{"GOARCH=amd64", "GOAMD64=v3"}, "env")
	})
}

func compileAndRun(t *testing.T, run string, env []string, runner string) {
	program := filepath.Join(t.TempDir(), "other.test")
	build := exec.Command("go", "test", "-c", "-o", program, ".")
	build.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(runner, program, "-test.run", run).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
