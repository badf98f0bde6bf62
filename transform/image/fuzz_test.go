package image

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/internal/encode"
)

// small bounds what an input made by a machine may cost.
var small = Limits{MaxPixels: 1 << 20, MaxOutput: 4 << 20, MaxMemory: 64 << 20, MaxScans: 20}

const fuzzPlan = `{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[24,40]},{"op":"RandomHorizontalFlip"}]}`

// checkRun runs a plan on any bytes: it ends, names its error, gives the same twice, and gives what the
// whole picture, cropped and resized, would have given.
func checkRun(t *testing.T, plan *transform.Plan, in []byte, sample uint64) {
	key := transform.Key{Seed: 1, Sample: sample}
	out, again := make([]byte, 24*40*channels), make([]byte, 24*40*channels)
	spec, err := Run(plan, key, in, out, small)
	_, err2 := Run(plan, key, in, again, small)
	if err != nil {
		var e *transform.Error
		if !errors.As(err, &e) || e.Detail == "" || err.Error() != err2.Error() {
			t.Fatalf("%v, the second time %v; want the same named error", err, err2)
		}
		return
	}
	if !bytes.Equal(out, again) || spec.Bytes() != int64(len(out)) {
		t.Fatalf("%+v: two runs differ", spec)
	}
	rgb, w, h, err := decodeAll(in, small)
	if err != nil {
		return // a fault below the region
	}
	r, err := plan.Resolve(w, h, key)
	if err != nil {
		t.Fatal(err)
	}
	want, err := stepsOnPixels(pixels{rgb, w, h}, scalar, r.Steps)
	if err != nil || !bytes.Equal(out, want.rgb) {
		t.Fatalf("%d x %d, %+v: the result differs from decoding everything, %v", w, h, r.Steps, err)
	}
}

func FuzzRun(f *testing.F) {
	plan, err := transform.ParsePlan([]byte(fuzzPlan))
	if err != nil {
		f.Fatal(err)
	}
	names, err := filepath.Glob("vectors/*")
	if err != nil || len(names) == 0 {
		f.Fatal("no seeds", err)
	}
	for i, name := range names {
		in, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(in, uint64(i))
		f.Add(in[:len(in)*2/3], uint64(i))
	}
	tiny, err := encode.JPEG(photo(1, 9, 7, 3), 9, 7, encode.Options{Sampling: samplings["4:2:0"], Quality: 20, Arithmetic: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(tiny, uint64(0))
	f.Add(pngHeader(1, 1), uint64(0))
	f.Fuzz(func(t *testing.T, in []byte, sample uint64) { checkRun(t, plan, in, sample) })
}

// Inputs that once broke decoders, and every cut of a few whole ones.
func TestHostileFiles(t *testing.T) {
	plan, err := transform.ParsePlan([]byte(fuzzPlan))
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range expectations(t) {
		in := testdata.Read(t, e.path)
		if len(in) < 64<<10 {
			checkRun(t, plan, in, uint64(i))
		}
	}
}

func TestEveryCutAndFlippedBit(t *testing.T) {
	plan, err := transform.ParsePlan([]byte(fuzzPlan))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"jpeg-420.jpg", "jpeg-422-progressive.jpg", "jpeg-444-restart.jpg", "png-palette.png", "png-interlaced.png", "webp-lossless.webp", "webp-animated.webp", "gif-interlaced.gif"} {
		in, err := os.ReadFile(filepath.Join("vectors", name))
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(in); n += 1 + n/200 {
			checkRun(t, plan, in[:n], uint64(n))
			broken := bytes.Clone(in)
			broken[n] ^= 1 << (n % 8)
			checkRun(t, plan, broken, uint64(n))
		}
	}
}
