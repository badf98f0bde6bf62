package pixel

import (
	"maps"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// golden is what this version promises. A change here makes agents and loaders of different versions refuse
// each other's pixels: only together with a new operator version, or when a vector is added.
var golden = map[string]string{
	"affine/pil@1":      "a6a6a26d4463dcbd86e1d58abd7f2fe4646cd6bf7d1feefef3e010e169b0124d",
	"colour/pil@1":      "126ee256c5a0d1727aa0581f1e8f5c0cbf4ee8936e22755049d430f7a325f534",
	"erase/ours@1":      "6145ce997aca802c8f3de429fad47be03285b86cb33dfa841b89fadfdd2b8171",
	"grayscale/pil@1":   "8aa1ffcb1e4a595825589739dfad129e68ce9dc5f60c8e34e9d6d8bd7d36f6ba",
	"hue/pil@1":         "2c17866be4ec2229dbab53a52485cd713217f8e0b2924ffe7fed5f99caf7cf2c",
	"pad/torchvision@1": "98ed08fb9451e838c9746416ac7acc5d80aa5e718875b7e0c40bf3feae2f1fd9",
	"tone/pil@1":        "7e49ae8a2a5612c1159660fd9863cd7b771f8a6314c073260f59c2fa0a7f560b",
}

func TestGolden(t *testing.T) {
	got := Golden()
	if !maps.Equal(got, golden) {
		for _, id := range slices.Sorted(maps.Keys(got)) {
			t.Errorf("%q: %q,", id, got[id])
		}
	}
}

// The same pixels where the compiler has a fused multiply-add: these tests' goldens, compiled for arm64 and run by an
// emulator, and compiled for the third level of amd64.
func TestGoldensOfOtherProcessors(t *testing.T) {
	testdata.OnOtherProcessors(t, "Golden$")
}
