package transform

import (
	"encoding/json"
	"os"
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
	testdata.OnOtherProcessors(t, "Equal(TheReference|Torchvision|Math)$|GoldenStays|DigestsStay")
}
