package image

import (
	"bytes"
	"math"
	"os"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
	"pgregory.net/rapid"
)

func TestPNGRegionEqualsWhole(t *testing.T) {
	for _, name := range []string{"png-grey.png", "png-grey16.png", "png-interlaced.png", "png-palette.png", "png-rgba.png"} {
		in, err := os.ReadFile("vectors/" + name)
		if err != nil {
			t.Fatal(err)
		}
		rgb, w, h, err := decodeAll(in, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) { checkRegion(t, in, pixels{rgb, w, h}, drawBox(t, w, h), name) })
	}
}

// A fault below the region is found: PNG rows are all decompressed.
func TestPNGFaultBelowTheRegion(t *testing.T) {
	in, err := os.ReadFile("vectors/png-rgba.png")
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 37*channels)
	_, err = runSteps(in[:len(in)/2], out, bestVariant(), transform.Step{Kind: transform.StepCrop, Box: transform.Box{W: 37, H: 1}})
	if kindOf(err) != transform.KindTruncated {
		t.Errorf("%v, want kind truncated", err)
	}
}

// 16-bit grey keeps its levels: Pillow would make everything above 255 white.
func TestGrey16IsScaled(t *testing.T) {
	for _, name := range []string{"png/pngsuite/basn0g16.png", "png/torchcodec/grayscale_16bit.png"} {
		rgb, _, _, err := decodeAll(testdata.Read(t, name), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		levels := map[byte]bool{}
		for _, v := range rgb {
			levels[v] = true
		}
		if len(levels) < 30 {
			t.Errorf("%s: only %d levels are left", name, len(levels))
		}
	}
	in := photo(2, 37, 29, 2) // the pixels of the vector, big-endian
	vector, err := os.ReadFile("vectors/png-grey16.png")
	if err != nil {
		t.Fatal(err)
	}
	rgb, _, _, err := decodeAll(vector, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for i := 0; i < len(in); i += 2 {
		v := byte(math.Round(float64(int(in[i])<<8|int(in[i+1])) / 257))
		want = append(want, v, v, v)
	}
	if !bytes.Equal(rgb, want) {
		t.Error("16-bit grey is not v/257, rounded")
	}
}
