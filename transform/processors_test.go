package transform

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// The file of all golden digests has ours; TestGolden of transform/image holds the rest of it.
func TestGoldenStays(t *testing.T) {
	data, err := os.ReadFile("image/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for id, digest := range Golden() {
		if want[id] != digest {
			t.Errorf("%q: %q, golden.json has %q", id, digest, want[id])
		}
	}
}

// The same draws where the compiler has a fused multiply-add: these tests' goldens, compiled for arm64 and run by an
// emulator, and compiled for the third level of amd64.
func TestDrawsOfOtherProcessors(t *testing.T) {
	for _, c := range []struct {
		name, run string
		env       []string
		soak      bool
	}{
		{"arm64", "qemu-aarch64-static", []string{"GOARCH=arm64"}, false},
		{"amd64-v3", "env", []string{"GOARCH=amd64", "GOAMD64=v3"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.soak {
				testdata.Soak(t)
			}
			runner, err := exec.LookPath(c.run)
			if err != nil {
				testdata.Missing(t, "qemu-user-static to run programs for arm64: %v", err)
			}
			program := filepath.Join(t.TempDir(), "transform.test")
			build := exec.Command("go", "test", "-c", "-o", program, ".")
			build.Env = append(append(os.Environ(), "CGO_ENABLED=0"), c.env...)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if out, err := exec.Command(runner, program, "-test.run", "Equal(TheReference|Torchvision|Math)$|GoldenStays|DigestsStay").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
