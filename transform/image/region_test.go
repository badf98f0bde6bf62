package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/internal/encode"
	"pgregory.net/rapid"
)

// samplings of three components: every one that cameras and libraries write, and some that nobody should.
var samplings = map[string][4][2]int{
	"4:4:4":                {{1, 1}, {1, 1}, {1, 1}},
	"4:2:2":                {{2, 1}, {1, 1}, {1, 1}},
	"4:2:0":                {{2, 2}, {1, 1}, {1, 1}},
	"4:4:0":                {{1, 2}, {1, 1}, {1, 1}},
	"4:1:1":                {{4, 1}, {1, 1}, {1, 1}},
	"4:1:0":                {{4, 2}, {1, 1}, {1, 1}},
	"1x4":                  {{1, 4}, {1, 1}, {1, 1}},
	"2x4":                  {{2, 4}, {1, 1}, {1, 1}},
	"mixed chroma":         {{2, 2}, {2, 1}, {1, 2}},
	"chroma larger (2x2)":  {{1, 1}, {2, 2}, {2, 2}},
	"chroma larger (2x1)":  {{1, 1}, {2, 1}, {1, 1}},
	"half luma, full Cr":   {{1, 2}, {1, 1}, {1, 2}},
	"vertical chroma only": {{1, 1}, {1, 2}, {1, 2}},
}

// photo returns smooth shapes with some noise: flat areas hide errors of upsampling, pure noise hides
// errors of prediction.
func photo(seed uint32, w, h, depth int) []byte {
	b := noise(seed, w*h*depth)
	for i := range b {
		x, y, c := i/depth%w, i/depth/w, i%depth
		v := (x*(5+2*c) + y*(9-2*c)) ^ (x * y / (7 + c))
		b[i] = byte(v) + b[i]/8
	}
	return b
}

func drawJPEG(t *rapid.T, most int) (in []byte, w, h int, shape string) {
	w, h = rapid.IntRange(1, most).Draw(t, "width"), rapid.IntRange(1, most).Draw(t, "height")
	name := rapid.SampledFrom(sortedNames()).Draw(t, "sampling")
	o := encode.Options{
		Space:       rapid.SampledFrom([]encode.Space{encode.YCbCr, encode.YCbCr, encode.YCbCr, encode.Gray, encode.RGB, encode.CMYK, encode.YCCK}).Draw(t, "space"),
		Sampling:    samplings[name],
		Quality:     rapid.SampledFrom([]int{30, 75, 90, 98}).Draw(t, "quality"),
		Progressive: rapid.IntRange(0, 3).Draw(t, "progressive") == 0,
		Arithmetic:  rapid.IntRange(0, 5).Draw(t, "arithmetic") == 0,
		Restart:     rapid.SampledFrom([]int{0, 0, 1, 3, 7}).Draw(t, "restart"),
	}
	depth := 3
	if o.Space >= encode.CMYK {
		depth = 4
		o.Sampling[3] = o.Sampling[0]
	}
	in, err := encode.JPEG(photo(rapid.Uint32().Draw(t, "seed"), w, h, depth), w, h, o)
	if err != nil {
		t.Skip(err)
	}
	return in, w, h, fmt.Sprintf("%d x %d, %s %+v", w, h, name, o)
}

func sortedNames() []string { return slices.Sorted(maps.Keys(samplings)) }

// edge draws a coordinate in [lo, hi], often on a border of the blocks that JPEG is made of.
func edge(t *rapid.T, lo, hi int, name string) int {
	v := rapid.IntRange(lo, hi).Draw(t, name)
	if unit := rapid.SampledFrom([]int{1, 1, 2, 8, 16, 32}).Draw(t, name+" unit"); v/unit*unit >= lo {
		return v / unit * unit
	}
	return v
}

func drawBox(t *rapid.T, w, h int) transform.Box {
	b := transform.Box{X: edge(t, 0, w-1, "x"), Y: edge(t, 0, h-1, "y")}
	if rapid.IntRange(0, 4).Draw(t, "narrow") == 0 {
		b.W, b.H = 1, 1
	} else {
		b.W, b.H = edge(t, b.X+1, w, "x1")-b.X, edge(t, b.Y+1, h, "y1")-b.Y
	}
	switch rapid.IntRange(0, 7).Draw(t, "at the end") {
	case 0:
		b.X = w - b.W
	case 1:
		b.Y = h - b.H
	}
	return b
}

type failer interface {
	Fatalf(format string, args ...any)
}

func checkRegion(t failer, in []byte, full pixels, b transform.Box, shape string) {
	step := transform.Step{Kind: transform.StepCrop, Box: b}
	got := blank(b.W, b.H)
	if _, err := runSteps(in, got.rgb, bestVariant(), step); err != nil {
		t.Fatalf("%s, box %+v: %v", shape, b, err)
	}
	if want := full.apply(step); !bytes.Equal(got.rgb, want.rgb) {
		t.Fatalf("%s, box %+v: the region differs from the same part of the whole image: %s", shape, b, firstDifference(got, want))
	}
}

func TestRegionEqualsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, w, h, shape := drawJPEG(t, 130)
		rgb, _, _, err := decodeAll(in, Limits{})
		if err != nil {
			t.Fatalf("%s: %v", shape, err)
		}
		for range 50 {
			checkRegion(t, in, pixels{rgb, w, h}, drawBox(t, w, h), shape)
		}
	})
}

// The boxes at which a region decoder is wrong if it has no context, or too little width, for every sampling.
func TestRegionAtTheBordersOfBlocks(t *testing.T) {
	for name, s := range samplings {
		checkBorders(t, name, encode.Options{Sampling: s})
	}
	for _, name := range []string{"4:2:0", "4:1:1"} {
		checkBorders(t, name+" progressive", encode.Options{Sampling: samplings[name], Progressive: true})
	}
	checkBorders(t, "grey", encode.Options{Space: encode.Gray})
}

func checkBorders(t *testing.T, name string, o encode.Options) {
	const w, h = 75, 69
	in := mustJPEG(t, w, h, o)
	rgb, _, _, err := decodeAll(in, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []int{0, 1, 15, 16, 17, 32, 64, w - 1} {
		for _, bw := range []int{1, 2, 3, 15, 16, 17, w} {
			for _, y := range []int{0, 15, 16, 32, h - 1} {
				b := transform.Box{X: x, Y: y, W: min(bw, w-x), H: min(bw, h-y)}
				checkRegion(t, in, pixels{rgb, w, h}, b, name)
			}
		}
	}
}

// A progressive file whose later scans are missing is smoothed by the library, across what a region would cut.
func TestRegionOfAnUnfinishedProgressiveFile(t *testing.T) {
	const w, h = 120, 100
	in := mustJPEG(t, w, h, encode.Options{Sampling: samplings["4:2:0"], Progressive: true})
	scans := bytes.Count(in, []byte{0xFF, 0xDA})
	for keep := 1; keep < scans; keep++ {
		cut := cutScans(in, keep)
		rgb, _, _, err := decodeAll(cut, Limits{})
		if err != nil {
			t.Fatalf("%d scans: %v", keep, err)
		}
		for _, b := range []transform.Box{{X: 32, Y: 32, W: 32, H: 32}, {X: 17, Y: 9, W: 50, H: 60}, {X: 0, Y: 99, W: 120, H: 1}} {
			checkRegion(t, cut, pixels{rgb, w, h}, b, fmt.Sprintf("%d of %d scans", keep, scans))
		}
	}
}

// cutScans ends a JPEG after some of its scans, properly.
func cutScans(in []byte, keep int) []byte {
	at := 0
	for range keep + 1 {
		at += bytes.Index(in[at:], []byte{0xFF, 0xDA}) + 2
	}
	return append(bytes.Clone(in[:at-2]), 0xFF, 0xD9)
}

// A cut file is refused wherever the region lies: above, across or below the cut.
func TestCutFilesAreRefusedInEveryRegion(t *testing.T) {
	const w, h = 96, 96
	for name, s := range samplings {
		in := mustJPEG(t, w, h, encode.Options{Sampling: s})
		for _, keep := range []int{len(in) / 2, len(in) * 9 / 10, len(in) - 20} {
			for _, y := range []int{0, 40, h - 8} {
				out := make([]byte, w*8*channels)
				_, err := runSteps(in[:keep], out, bestVariant(), transform.Step{Kind: transform.StepCrop, Box: transform.Box{Y: y, W: w, H: 8}})
				if kindOf(err) != transform.KindTruncated {
					t.Errorf("%s cut at %d of %d bytes, rows from %d: %v, want an error of kind truncated", name, keep, len(in), y, err)
				}
			}
		}
	}
}

// Without its last two bytes, the end marker, a file may still be whole. What is decided must not depend on the region.
func TestMissingEndMarkerIsJudgedAlikeInEveryRegion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, w, h, shape := drawJPEG(t, 60)
		if !bytes.HasSuffix(in, binary.BigEndian.AppendUint16(nil, 0xFFD9)) {
			t.Fatal("no end marker")
		}
		in = in[:len(in)-2]
		_, _, _, whole := decodeAll(in, Limits{})
		b := drawBox(t, w, h)
		_, err := runSteps(in, make([]byte, b.W*b.H*channels), bestVariant(), transform.Step{Kind: transform.StepCrop, Box: b})
		if kindOf(err) != kindOf(whole) {
			t.Fatalf("%s: box %+v: %v; whole: %v", shape, b, err, whole)
		}
	})
}
