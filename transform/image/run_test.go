package image

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/internal/encode"
)

func mustPlan(t testing.TB, text string) *transform.Plan {
	t.Helper()
	plan, err := transform.ParsePlan([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// Pictures a million times longer than wide, both ways, up and down.
func TestExtremeShapes(t *testing.T) {
	for _, c := range []struct{ w, h, toW, toH int }{
		{1, 65500, 1, 1}, {65500, 1, 1, 1}, {9500, 1, 3, 40}, {1, 9500, 40, 3}, {1, 1, 5000, 1}, {1, 1, 1, 5000},
		{3, 1001, 90, 1}, {1001, 3, 1, 90}, {7, 500, 5, 499}, {500, 7, 499, 5}, {2, 2, 1000, 3},
	} {
		in := pixels{noise(uint32(c.w), c.w*c.h*channels), c.w, c.h}
		for version := 1; version <= 2; version++ {
			step := transform.Step{Kind: transform.StepResize, Width: c.toW, Height: c.toH, Version: version, Filter: transform.Bilinear}
			want := in.apply(step)
			for _, v := range variants() {
				if got, err := stepsOnPixels(in, v, []transform.Step{step}); err != nil || !bytes.Equal(got.rgb, want.rgb) {
					t.Errorf("%+v, version %d, %v: %v, %s", c, version, v, err, firstDifference(got, want))
				}
			}
		}
	}
}

func TestRunWritesItsResultAndNothingElse(t *testing.T) {
	in := mustJPEG(t, 150, 120, encode.Options{Sampling: samplings["4:2:0"]})
	keep := bytes.Clone(in)
	for _, text := range []string{
		`{"plan":1,"ops":[{"op":"DecodeImage"}]}`,
		`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[31,29]}]}`,
		`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[120,3],"version":1},{"op":"RandomHorizontalFlip","p":1.0}]}`,
		`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"CenterCrop","size":[200,17]},{"op":"RandomHorizontalFlip","p":1.0}]}`,
		`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"Resize","size":[120,31]}]}`,
		`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"Resize","size":[31,150]},{"op":"RandomHorizontalFlip","p":1.0}]}`,
	} {
		plan := mustPlan(t, text)
		r, err := plan.Resolve(150, 120, transform.Key{})
		if err != nil {
			t.Fatal(err)
		}
		size := int(r.Output.Bytes())
		out := bytes.Repeat([]byte{0xEE}, size+64)
		spec, err := Run(plan, transform.Key{}, in, out, Limits{})
		if err != nil || spec.Bytes() != int64(size) {
			t.Fatalf("%s: %+v, %v", text, spec, err)
		}
		if !bytes.Equal(out[size:], bytes.Repeat([]byte{0xEE}, 64)) || !bytes.Equal(in, keep) {
			t.Errorf("%s: bytes outside the result were written", text)
		}
	}
}

func TestRunIsConcurrent(t *testing.T) {
	plan := mustPlan(t, `{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[64,64]},{"op":"RandomHorizontalFlip"}]}`)
	in := mustJPEG(t, 200, 160, encode.Options{Sampling: samplings["4:2:0"]})
	want := make([][]byte, 16)
	for i := range want {
		want[i] = make([]byte, 64*64*channels)
		if _, err := Run(plan, transform.Key{Sample: uint64(i)}, in, want[i], Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			out := make([]byte, 64*64*channels)
			for i := range want {
				if _, err := Run(plan, transform.Key{Sample: uint64(i)}, in, out, Limits{}); err != nil || !bytes.Equal(out, want[i]) {
					t.Errorf("sample %d: %v, or other pixels than alone", i, err)
				}
			}
		})
	}
	wg.Wait()
}

// The rest of a cut plan decodes nothing, and says so.
func TestRunOfARest(t *testing.T) {
	_, rest := mustPlan(t, `{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"ToDtype","dtype":"float32"}]}`).Cut()
	_, err := Run(rest, transform.Key{}, mustJPEG(t, 8, 8, encode.Options{}), make([]byte, 1000), Limits{})
	if kindOf(err) != transform.KindPlan {
		t.Errorf("%v, want kind plan", err)
	}
}

// A plan whose result has one channel keeps the first of three equal ones; bytes behind the result are not touched.
func TestOneChannel(t *testing.T) {
	in := mustJPEG(t, 40, 30, encode.Options{Space: encode.Gray})
	for _, steps := range [][]transform.Step{nil, {{Kind: transform.StepFlip}}, {{Kind: transform.StepFlip}, {Kind: transform.StepResize, Width: 7, Height: 9, Version: 2, Filter: transform.BoxFilter}}} {
		three, err := stepsOnPixels(mustDecode(t, in), bestVariant(), steps)
		if err != nil {
			t.Fatal(err)
		}
		out := bytes.Repeat([]byte{0xEE}, three.w*three.h+9)
		j := job{lim: Limits{}.withDefaults(), variant: bestVariant()}
		spec, err := j.one(in, out, func(int, int) (transform.Resolved, error) {
			return transform.Resolved{Steps: steps, Output: transform.TensorSpec{Shape: []int{three.h, three.w, 1}}}, nil
		})
		if err != nil || !slices.Equal(spec.Shape, []int{three.h, three.w, 1}) {
			t.Fatalf("%+v, %v", spec, err)
		}
		if !bytes.Equal(grey(out[:three.w*three.h]), three.rgb) || !bytes.Equal(out[three.w*three.h:], bytes.Repeat([]byte{0xEE}, 9)) {
			t.Errorf("%+v: not the first channel of the result, or more than it", steps)
		}
	}
}

func mustDecode(t *testing.T, in []byte) pixels {
	t.Helper()
	rgb, w, h, err := decodeAll(in, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return pixels{rgb, w, h}
}
