package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	stdimage "image"
	"image/png"
	"os"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
)

// TestOperatorsEqualTorchvision runs whole plans. The digests are those of torchvision's own operators on a PIL image,
// with random numbers from our stream (../testdata/torchvision_draws.py).
func TestOperatorsEqualTorchvision(t *testing.T) {
	data, err := os.ReadFile("../testdata/torchvision.json")
	if err != nil {
		t.Fatal(err)
	}
	type record struct {
		Op            json.RawMessage
		Ops           []json.RawMessage
		Width, Height int
		Sample        uint64
		Shape         []int
		SHA256        string
	}
	var g struct{ Operators, Plans []record }
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	out, compared := make([]byte, 1<<20), 0
	for _, want := range append(g.Operators, g.Plans...) {
		if want.SHA256 == "" { // a blur, which is not torch's float32, and noise, which is ours
			continue
		}
		compared++
		if want.Op != nil {
			want.Ops = []json.RawMessage{want.Op}
		}
		text := `{"plan":1,"ops":[{"op":"DecodeImage"}`
		for _, op := range want.Ops {
			text += "," + string(op)
		}
		text += "]}"
		plan, err := transform.ParsePlan([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		spec, err := Run(plan, transform.Key{Seed: 7, Sample: want.Sample}, pngOf(t, want.Width, want.Height), out, Limits{})
		sum := sha256.Sum256(out[:spec.Bytes()])
		if err != nil || hex.EncodeToString(sum[:]) != want.SHA256 || !slices.Equal(spec.Shape, want.Shape) {
			t.Errorf("%s of %d x %d, sample %d: %v, %v: other pixels than torchvision's", text, want.Width, want.Height, want.Sample, spec.Shape, err)
		}
	}
	if compared < 400 || len(g.Plans) == 0 {
		t.Errorf("only %d operators and plans are compared", compared)
	}
}

// pngOf is the picture of ../testdata/torchvision_draws.py as a file.
func pngOf(t *testing.T, width, height int) []byte {
	t.Helper()
	im := stdimage.NewNRGBA(stdimage.Rect(0, 0, width, height))
	state := uint32(1)
	for i := range im.Pix {
		if i%4 == 3 {
			im.Pix[i] = 255
			continue
		}
		state = state*1664525 + 1013904223
		c := uint32(i % 4)
		im.Pix[i] = byte(20 + 7*c + (state>>24)*(90+40*c)>>8)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, im); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
