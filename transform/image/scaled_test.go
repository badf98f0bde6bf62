package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
	"pgregory.net/rapid"
)

var dctScaled = transform.DecodeImage{Mode: "RGB", Orientation: "stored", JPEG: "dct-scaled", Truncated: "raise"}

// runScaled runs steps on a JPEG that may be decoded smaller.
func runScaled(in, out []byte, v variant, steps ...transform.Step) error {
	j := job{lim: Limits{}.withDefaults(), variant: v}
	e := []errand{{in: in, out: out, decoding: dctScaled, resolve: func(int, int) (transform.Resolved, error) { return transform.Resolved{Steps: steps}, nil }}}
	j.run(e)
	return e[0].result.Err
}

// Vectors and photographs, against another face of the JPEG library and Pillow.
func TestScaledEqualsReference(t *testing.T) {
	data, err := os.ReadFile("testdata/scaled.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Cases []struct {
			File   string
			Box    [4]int
			Size   [2]int
			Filter transform.Filter
			SHA256 string
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden.Cases) < 300 {
		t.Fatal(len(golden.Cases), err)
	}
	for _, c := range golden.Cases {
		var in []byte
		if name, ours := strings.CutPrefix(c.File, "data/"); ours {
			in = testdata.Read(t, name)
		} else if in, err = os.ReadFile(c.File); err != nil {
			t.Fatal(err)
		}
		out := make([]byte, c.Size[0]*c.Size[1]*channels)
		steps := []transform.Step{
			{Kind: transform.StepCrop, Box: transform.Box{X: c.Box[0], Y: c.Box[1], W: c.Box[2], H: c.Box[3]}},
			{Kind: transform.StepResize, Width: c.Size[0], Height: c.Size[1], Version: 2, Filter: c.Filter},
		}
		for _, v := range variants() {
			if err := runScaled(in, out, v, steps...); err != nil || digestOf(out) != c.SHA256 {
				t.Errorf("%v: %+v: %s, %v", v, c, digestOf(out), err)
			}
		}
	}
}

// The region of a scaled picture is the same part of the whole scaled picture, whatever the sampling.
func TestScaledRegionEqualsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, w, h, shape := drawJPEG(t, 150)
		d := rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "denominator")
		full := decodeScaled(t, in, d, transform.Box{W: (w + d - 1) / d, H: (h + d - 1) / d})
		for range 30 {
			b := drawBox(t, full.w, full.h)
			got, want := decodeScaled(t, in, d, b), full.cropped(b)
			if !bytes.Equal(got.rgb, want.rgb) {
				t.Fatalf("%s at 1/%d, box %+v: the region differs from the same part of the whole picture: %s", shape, d, b, firstDifference(got, want))
			}
		}
	})
}

// decodeScaled decodes a box of a picture at 1/d of its size.
func decodeScaled(t failer, in []byte, d int, b transform.Box) pixels {
	j := job{lim: Limits{}.withDefaults(), variant: bestVariant()}
	e := []errand{{in: in, decoding: dctScaled}}
	j.open(e)
	p := e[0].picture
	s := newStage((p.width+d-1)/d, (p.height+d-1)/d)
	s.cut(transform.Step{Box: b})
	s.denominator = d
	out := blank(b.W, b.H)
	if runAll([]running{{p, s, out.rgb}}, j.variant, j.lim); p.err != nil {
		t.Fatalf("%v", p.err)
	}
	return out
}

// A picture that is shown turned is decoded smaller as well; its box lies where it would in the scaled picture, turned.
func TestScaledAndTurned(t *testing.T) {
	j := job{lim: Limits{}.withDefaults(), variant: bestVariant()}
	rapid.Check(t, func(t *rapid.T) {
		in, w, h, shape := drawJPEG(t, 150)
		turned := turnOf(rapid.IntRange(1, 8).Draw(t, "orientation"))
		showW, showH := turned.size(w, h)
		b := drawBox(t, showW, showH)
		s := newStage(showW, showH)
		s.cut(transform.Step{Box: b})
		d := rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "denominator")
		if b.W < d || b.H < d {
			t.Skip("too small")
		}
		step := transform.Step{Width: b.W / d, Height: b.H / d, Version: 2, Filter: rapid.SampledFrom(filters).Draw(t, "filter")}
		if err := s.scale(step); err != nil {
			t.Fatal(err)
		}
		e := []errand{{in: in, decoding: dctScaled}}
		j.open(e)
		p := e[0].picture
		p.turn, p.width, p.height = turned, showW, showH
		s.shrink(p)
		full := decodeScaled(t, in, s.denominator, transform.Box{W: (w + s.denominator - 1) / s.denominator, H: (h + s.denominator - 1) / s.denominator})
		upright := blank(turned.size(full.w, full.h))
		turned.apply(upright.rgb, full.rgb, full.w, full.h)
		got, want := blank(s.w, s.h), blank(s.w, s.h)
		if j.decode(p, s, got.rgb); p.err != nil {
			t.Fatalf("%s: %v", shape, p.err)
		}
		whole := pixelsOf(upright.rgb, upright.w, upright.h)
		if runAll([]running{{whole, s, want.rgb}}, j.variant, j.lim); whole.err != nil {
			t.Fatal(whole.err)
		}
		if !bytes.Equal(got.rgb, want.rgb) {
			t.Fatalf("%s, turn %+v, box %+v at 1/%d: %s", shape, turned, b, s.denominator, firstDifference(got, want))
		}
	})
}

// Where nothing is gained, and for what is no JPEG, the operator is the exact one.
func TestScaledIsExactOtherwise(t *testing.T) {
	jpeg, err := os.ReadFile("vectors/jpeg-420.jpg")
	if err != nil {
		t.Fatal(err)
	}
	png, err := os.ReadFile("vectors/png-rgba.png")
	if err != nil {
		t.Fatal(err)
	}
	resize := func(w, h int) transform.Step {
		return transform.Step{Kind: transform.StepResize, Width: w, Height: h, Version: 2, Filter: transform.Bilinear}
	}
	for _, c := range []struct {
		in    []byte
		w, h  int
		steps []transform.Step
		exact bool
	}{
		{jpeg, 37, 29, nil, true},
		{jpeg, 18, 14, []transform.Step{resize(18, 14)}, false},
		{jpeg, 19, 14, []transform.Step{resize(19, 14)}, true},
		{jpeg, 4, 15, []transform.Step{resize(4, 15)}, true},
		{jpeg, 9, 7, []transform.Step{{Kind: transform.StepFlip, Width: 37, Height: 29}, resize(9, 7)}, true},
		{png, 9, 7, []transform.Step{resize(9, 7)}, true},
	} {
		got, want := make([]byte, c.w*c.h*channels), make([]byte, c.w*c.h*channels)
		if err := runScaled(c.in, got, bestVariant(), c.steps...); err != nil {
			t.Fatal(err)
		}
		if _, err := runSteps(c.in, want, bestVariant(), c.steps...); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(got, want) != c.exact {
			t.Errorf("%+v: exact is %v, want %v", c.steps, !c.exact, c.exact)
		}
	}
}

func TestScaledSpan(t *testing.T) {
	for _, c := range []struct {
		size, at, n, d int
		mirrored       bool
		want           span
	}{
		{37, 0, 37, 2, false, span{19, 0, 18.5}},
		{37, 0, 37, 2, true, span{19, 0.5, 19}},
		{65535, 65533, 2, 8, false, span{8192, 8191.625, 8191.875}},
		{65535, 0, 1, 8, true, span{8192, 0.125, 0.25}},
	} {
		if got := scaledSpan(c.size, c.at, c.n, c.d, c.mirrored); got != c.want {
			t.Errorf("%s: %+v", fmt.Sprintf("%+v", c), got)
		}
	}
}
