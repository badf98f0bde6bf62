package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Each operator's one spelling: defaults filled in, numbers and lists in one form.
func TestCanonicalOperators(t *testing.T) {
	for op, want := range map[string]string{
		`{"op":"RandomCrop","size":32}`: `{"fill":0,"op":"RandomCrop","pad_if_needed":false,"padding":[0,0,0,0],"padding_mode":"constant","size":[32,32]}`,
		`{"op":"RandomCrop","size":[3,2],"padding":4,"pad_if_needed":true,"fill":[9],"padding_mode":"edge"}`: `{"fill":9,"op":"RandomCrop",` +
			`"pad_if_needed":true,"padding":[4,4,4,4],"padding_mode":"edge","size":[3,2]}`,
		`{"op":"Pad","padding":[1,2],"fill":[7,7,7]}`:                         `{"fill":7,"op":"Pad","padding":[1,2,1,2],"padding_mode":"constant"}`,
		`{"op":"Pad","padding":[5]}`:                                          `{"fill":0,"op":"Pad","padding":[5,5,5,5],"padding_mode":"constant"}`,
		`{"op":"Pad","padding":[1,2,3,4],"fill":[1,2,3]}`:                     `{"fill":[1,2,3],"op":"Pad","padding":[1,2,3,4],"padding_mode":"constant"}`,
		`{"op":"RandomVerticalFlip"}`:                                         `{"op":"RandomVerticalFlip","p":0.5}`,
		`{"op":"Grayscale"}`:                                                  `{"num_output_channels":1,"op":"Grayscale"}`,
		`{"op":"RandomGrayscale"}`:                                            `{"op":"RandomGrayscale","p":0.1}`,
		`{"op":"ColorJitter"}`:                                                `{"brightness":null,"contrast":null,"hue":null,"op":"ColorJitter","saturation":null}`,
		`{"op":"ColorJitter","brightness":0.4,"hue":0.1}`:                     `{"brightness":[0.6,1.4],"contrast":null,"hue":[-0.1,0.1],"op":"ColorJitter","saturation":null}`,
		`{"op":"ColorJitter","contrast":3,"saturation":[1,1],"hue":[0,0]}`:    `{"brightness":null,"contrast":[0,4],"hue":null,"op":"ColorJitter","saturation":null}`,
		`{"op":"ColorJitter","brightness":[2,2],"contrast":0,"hue":[-0.5,0]}`: `{"brightness":[2,2],"contrast":null,"hue":[-0.5,0],"op":"ColorJitter","saturation":null}`,
		`{"op":"GaussianBlur","kernel_size":5}`:                               `{"kernel_size":[5,5],"op":"GaussianBlur","sigma":[0.1,2]}`,
		`{"op":"GaussianBlur","kernel_size":[5,9],"sigma":3}`:                 `{"kernel_size":[5,9],"op":"GaussianBlur","sigma":[3,3]}`,
		`{"op":"RandAugment"}`:                                                `{"fill":0,"interpolation":"nearest","magnitude":9,"num_magnitude_bins":31,"num_ops":2,"op":"RandAugment"}`,
		`{"op":"RandomApply","transforms":[{"op":"GaussianBlur","kernel_size":5},{"op":"RandomGrayscale"}],"p":1}`: `{"op":"RandomApply","p":1,"transforms":[{"kernel_size":[5,5],"op":"GaussianBlur","sigma":[0.1,2]},{"op":"RandomGrayscale","p":0.1}]}`,
		`{"op":"RandomErasing"}`:                  `{"op":"RandomErasing","p":0.5,"ratio":[0.3,3.3],"scale":[0.02,0.33],"value":0}`,
		`{"op":"RandomErasing","value":[1,2,3]}`:  `{"op":"RandomErasing","p":0.5,"ratio":[0.3,3.3],"scale":[0.02,0.33],"value":[1,2,3]}`,
		`{"op":"RandomErasing","value":"random"}`: `{"op":"RandomErasing","p":0.5,"ratio":[0.3,3.3],"scale":[0.02,0.33],"value":"random"}`,
	} {
		got := string(mustParse(t, `{"op":"DecodeImage"},`+op).Canonical())
		if want := `{"ops":[{"mode":"RGB","op":"DecodeImage","orientation":"stored"},` + want + `],"plan":1}`; got != want {
			t.Errorf("canonical form of %s is\n%s, want\n%s", op, got, want)
		}
	}
}

func TestMistakesInOperatorsAreNamed(t *testing.T) {
	for op, words := range map[string]string{
		`{"op":"RandomCrop"}`:                                "ops[1] RandomCrop size missing",
		`{"op":"RandomCrop","size":9,"padding":-1}`:          "padding 0 to 65535",
		`{"op":"RandomCrop","size":9,"padding":[1,2,3]}`:     "padding 3 entries",
		`{"op":"RandomCrop","size":9,"pad_if_needed":1}`:     "pad_if_needed true or false",
		`{"op":"RandomCrop","size":9,"padding_mode":"wrap"}`: "padding_mode constant, edge, reflect, symmetric",
		`{"op":"RandomCrop","size":9,"fill":256}`:            "fill 0 to 255",
		`{"op":"RandomCrop","size":9,"fill":[1,2]}`:          "fill 2 entries",
		`{"op":"RandomCrop","size":9,"fill":0.5}`:            "fill whole",
		`{"op":"Pad"}`:                                                                 "ops[1] Pad padding missing",
		`{"op":"Pad","padding":[]}`:                                                    "padding 0 entries",
		`{"op":"Pad","padding":[1,"2"]}`:                                               "padding whole",
		`{"op":"Pad","padding":70000}`:                                                 "padding 65535",
		`{"op":"RandomVerticalFlip","p":2}`:                                            "p 0 to 1",
		`{"op":"Grayscale","num_output_channels":2}`:                                   "num_output_channels 1 or 3",
		`{"op":"Grayscale","num_output_channels":4}`:                                   "num_output_channels",
		`{"op":"RandomGrayscale","p":-0.1}`:                                            "p 0 to 1",
		`{"op":"ColorJitter","brightness":-1}`:                                         "brightness 0 to",
		`{"op":"ColorJitter","contrast":[2,1]}`:                                        "contrast smaller number first",
		`{"op":"ColorJitter","contrast":[1]}`:                                          "contrast two",
		`{"op":"ColorJitter","saturation":[-1,1]}`:                                     "saturation 0 to",
		`{"op":"ColorJitter","hue":0.6}`:                                               "hue 0.5",
		`{"op":"ColorJitter","hue":[-0.6,0]}`:                                          "hue -0.5",
		`{"op":"ColorJitter","brightness":"a lot"}`:                                    "brightness number",
		`{"op":"GaussianBlur"}`:                                                        "ops[1] GaussianBlur kernel_size missing",
		`{"op":"GaussianBlur","kernel_size":4}`:                                        "kernel_size 4 odd",
		`{"op":"GaussianBlur","kernel_size":[3,257]}`:                                  "kernel_size 257 255",
		`{"op":"GaussianBlur","kernel_size":[1,1,1]}`:                                  "kernel_size 3 entries [across, along]",
		`{"op":"GaussianBlur","kernel_size":3,"sigma":0}`:                              "sigma 0.001",
		`{"op":"GaussianBlur","kernel_size":3,"sigma":[2,1]}`:                          "sigma smaller number first",
		`{"op":"GaussianBlur","kernel_size":3,"sigma":[1]}`:                            "sigma two",
		`{"op":"RandAugment","num_ops":17}`:                                            "num_ops 0 to 16",
		`{"op":"RandAugment","magnitude":31}`:                                          "magnitude below num_magnitude_bins",
		`{"op":"RandAugment","num_magnitude_bins":1}`:                                  "num_magnitude_bins 2 to",
		`{"op":"RandAugment","interpolation":"bicubic"}`:                               "interpolation nearest, bilinear",
		`{"op":"RandomApply"}`:                                                         "ops[1] RandomApply transforms missing list",
		`{"op":"RandomApply","transforms":[]}`:                                         "transforms list",
		`{"op":"RandomApply","transforms":[{"op":"RandomVerticalFlip"}],"p":2}`:        "ops[1] RandomApply p 0 to 1",
		`{"op":"RandomApply","transforms":[{"op":"GaussianBlur","kernel_size":4}]}`:    "ops[1] RandomApply transforms[0] GaussianBlur kernel_size 4 odd",
		`{"op":"RandomApply","transforms":[{"op":"RandomVerticalFlip"},{"op":"Pad"}]}`: "ops[1] RandomApply transforms[1] Pad padding missing",
		`{"op":"RandomApply","transforms":[{"op":"Grayscale"}]}`:                       "ops[1] RandomApply transforms[0] Grayscale taken ColorJitter",
		`{"op":"RandomApply","transforms":[{"op":"RandomApply","transforms":[{"op":"RandomVerticalFlip"}]}]}`: "transforms[0] RandomApply taken",
		`{"op":"RandomApply","transforms":[7]}`:                                                      "transforms[0] 7 object",
		`{"op":"Grayscale"},{"op":"RandomApply","transforms":[{"op":"RandAugment","fill":[1,2,3]}]}`: "ops[2] RandomApply transforms[0] RandAugment fill one channel",
		`{"op":"RandomErasing","p":1.5}`:                                                             "p 0 to 1",
		`{"op":"RandomErasing","scale":[0.5,1.5]}`:                                                   "scale 0 to 1",
		`{"op":"RandomErasing","ratio":[0,1]}`:                                                       "ratio",
		`{"op":"RandomErasing","value":[1,2]}`:                                                       `value 3 numbers "random"`,
		`{"op":"RandomErasing","value":"noise"}`:                                                     `value "noise" number channel "random"`,
		`{"op":"RandomErasing","value":0.5}`:                                                         "value whole uint8",
		`{"op":"RandomErasing","value":[0,0,256]}`:                                                   "value 0 to 255",
		`{"op":"ToDtype","dtype":"float32"},{"op":"RandomErasing","value":"random"}`:                 "ops[2] RandomErasing value random before Normalize",
		`{"op":"ToDtype","dtype":"uint8"},{"op":"RandomErasing","value":0.5}`:                        "ops[2] RandomErasing value uint8",
		`{"op":"ToDtype","dtype":"float32"},{"op":"RandomErasing"},{"op":"RandomVerticalFlip"}`:      "ops[3] RandomVerticalFlip before Normalize",
		// One channel behind Grayscale.
		`{"op":"Grayscale"},{"op":"Normalize","mean":[0,0,0],"std":[1]}`:                               "ops[2] Normalize mean 3 numbers for 1 channels",
		`{"op":"Grayscale"},{"op":"Normalize","mean":[0],"std":[1,1,1]}`:                               "ops[2] Normalize std 3 numbers for 1 channels",
		`{"op":"Grayscale"},{"op":"Pad","padding":1,"fill":[1,2,3]}`:                                   "ops[2] Pad fill one channel",
		`{"op":"Grayscale"},{"op":"RandomCrop","size":1,"fill":[1,2,3]}`:                               "ops[2] RandomCrop fill one channel",
		`{"op":"Grayscale"},{"op":"RandAugment","fill":[1,2,3]}`:                                       "ops[2] RandAugment fill one channel",
		`{"op":"Grayscale"},{"op":"RandomErasing","value":[1,2,3]}`:                                    "ops[2] RandomErasing value 3 numbers for 1 channels",
		`{"op":"Grayscale"},{"op":"ToDtype","dtype":"float32"},{"op":"RandomErasing","value":[1,2,3]}`: "ops[3] RandomErasing value 3 numbers for 1 channels",
	} {
		wantPlanError(t, `{"plan":1,"ops":[{"op":"DecodeImage"},`+op+`]}`, words)
	}
}

// resolved is what ops draw for a picture of w x h, and the output's shape.
func resolved(t testing.TB, ops string, w, h int, sample uint64) ([]Step, []int) {
	t.Helper()
	r, err := mustParse(t, `{"op":"DecodeImage"},`+ops).Resolve(w, h, Key{Seed: 7, Sample: sample})
	if err != nil {
		t.Fatal(err)
	}
	return r.Steps, r.Output.Shape
}

// What leaves the picture as it is makes no step; what is grey already is not made grey.
func TestStepsWithoutEffectAreLeftOut(t *testing.T) {
	for _, c := range []struct{ ops, kinds, shape string }{
		{`{"op":"Pad","padding":0}`, "", "[40 50 3]"},
		{`{"op":"RandomCrop","size":[40,50]}`, "", "[40 50 3]"},
		{`{"op":"RandomVerticalFlip","p":0}`, "", "[40 50 3]"},
		{`{"op":"RandomVerticalFlip","p":1}`, "flip-vertical", "[40 50 3]"},
		{`{"op":"RandomGrayscale","p":0}`, "", "[40 50 3]"},
		{`{"op":"RandomGrayscale","p":1}`, "grayscale", "[40 50 3]"},
		{`{"op":"Grayscale"}`, "grayscale", "[40 50 1]"},
		{`{"op":"Grayscale","num_output_channels":3}`, "grayscale", "[40 50 3]"},
		{`{"op":"Grayscale"},{"op":"Grayscale","num_output_channels":3}`, "grayscale", "[40 50 3]"},
		{`{"op":"Grayscale"},{"op":"RandomGrayscale","p":1}`, "grayscale", "[40 50 1]"},
		{`{"op":"ColorJitter"}`, "", "[40 50 3]"},
		{`{"op":"ColorJitter","saturation":[0,0],"hue":0.5}`, "hue saturation", "[40 50 3]"},
		{`{"op":"Grayscale"},{"op":"ColorJitter","saturation":[0,0],"hue":0.5}`, "grayscale", "[40 50 1]"},
		{`{"op":"ColorJitter","hue":[1e-9,1e-9]}`, "hue", "[40 50 3]"},
		{`{"op":"GaussianBlur","kernel_size":1}`, "", "[40 50 3]"},
		{`{"op":"RandAugment","num_ops":0}`, "", "[40 50 3]"},
		{`{"op":"RandomErasing","p":0}`, "", "[40 50 3]"},
		{`{"op":"RandomErasing","p":1,"scale":[0,0]}`, "", "[40 50 3]"},
		{`{"op":"RandomErasing","p":1,"scale":[1,1]}`, "", "[40 50 3]"}, // a box must be smaller than the picture
		{`{"op":"Grayscale"},{"op":"RandomErasing","p":1,"value":"random"}`, "grayscale erase grayscale", "[40 50 1]"},
	} {
		steps, shape := resolved(t, c.ops, 50, 40, 3)
		var kinds []string
		for _, s := range steps {
			kinds = append(kinds, string(s.Kind))
		}
		if strings.Contains(c.kinds, "saturation") {
			slices.Sort(kinds)
		}
		if got := strings.Join(kinds, " "); got != c.kinds || fmt.Sprint(shape) != c.shape {
			t.Errorf("%s: steps %q to %v, want %q to %s", c.ops, got, shape, c.kinds, c.shape)
		}
	}
}

func TestPicturesThatDoNotFitAreNamed(t *testing.T) {
	for _, c := range []struct{ ops, words string }{
		{`{"op":"RandomCrop","size":[30,20]}`, "plan: size: 30 x 20 29 x 19 pad_if_needed ops[1] RandomCrop"},
		{`{"op":"RandomCrop","size":[30,20],"padding":[0,0,0,1]}`, "plan: 30 x 19"},
		{`{"op":"GaussianBlur","kernel_size":[3,59]}`, "plan: kernel_size 3 x 59 19 x 29"},
		{`{"op":"GaussianBlur","kernel_size":[39,3]}`, "plan: kernel_size"},
		{`{"op":"RandomApply","p":1,"transforms":[{"op":"RandAugment"},{"op":"GaussianBlur","kernel_size":[39,3]}]}`, "plan: kernel_size ops[1] RandomApply transforms[1]"},
		{`{"op":"Pad","padding":[65535,0]}`, "limit: 131089 x 29 ops[1] Pad"},
	} {
		_, err := mustParse(t, `{"op":"DecodeImage"},`+c.ops).Resolve(19, 29, Key{})
		for word := range strings.FieldsSeq(c.words) {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s gives %v, which does not say %q", c.ops, err, word)
			}
		}
	}
	for _, ops := range []string{`{"op":"RandomCrop","size":[30,20],"pad_if_needed":true}`, `{"op":"RandomCrop","size":[30,20],"padding":[1,1]}`, `{"op":"GaussianBlur","kernel_size":[37,57]}`} {
		if _, err := mustParse(t, `{"op":"DecodeImage"},`+ops).Resolve(19, 29, Key{}); err != nil {
			t.Errorf("%s: %v", ops, err)
		}
	}
}

// drawAnyOp draws the JSON of a valid operator on pixels.
func drawAnyOp(t *rapid.T) string {
	side, p := rapid.IntRange(1, 400), rapid.Float64Range(0, 1)
	border := func() string {
		return fmt.Sprintf(`"padding_mode":%q,"fill":%d`, rapid.SampledFrom([]string{"constant", "edge", "reflect", "symmetric"}).Draw(t, "mode"), rapid.IntRange(0, 255).Draw(t, "fill"))
	}
	return rapid.SampledFrom([]func() string{
		func() string {
			return fmt.Sprintf(`{"op":"RandomCrop","size":[%d,%d],"padding":[%d,%d,0,7],"pad_if_needed":%v,%s}`,
				side.Draw(t, "h"), side.Draw(t, "w"), side.Draw(t, "left"), side.Draw(t, "top"), rapid.Bool().Draw(t, "needed"), border())
		},
		func() string {
			return fmt.Sprintf(`{"op":"Pad","padding":[%d,%d],%s}`, side.Draw(t, "across"), side.Draw(t, "along"), border())
		},
		func() string { return fmt.Sprintf(`{"op":"RandomVerticalFlip","p":%v}`, p.Draw(t, "p")) },
		func() string { return fmt.Sprintf(`{"op":"RandomGrayscale","p":%v}`, p.Draw(t, "p")) },
		func() string {
			return fmt.Sprintf(`{"op":"Grayscale","num_output_channels":%d}`, rapid.SampledFrom([]int{1, 3}).Draw(t, "channels"))
		},
		func() string {
			return fmt.Sprintf(`{"op":"ColorJitter","brightness":%v,"contrast":[%v,1],"saturation":%v,"hue":%v}`,
				p.Draw(t, "b"), p.Draw(t, "c"), p.Draw(t, "s"), p.Draw(t, "h")/2)
		},
		func() string {
			return fmt.Sprintf(`{"op":"GaussianBlur","kernel_size":[%d,%d]}`, 2*rapid.IntRange(0, 20).Draw(t, "kx")+1, 2*rapid.IntRange(0, 20).Draw(t, "ky")+1)
		},
		func() string {
			bins := rapid.IntRange(2, 1000).Draw(t, "bins")
			return fmt.Sprintf(`{"op":"RandAugment","num_ops":%d,"magnitude":%d,"num_magnitude_bins":%d}`,
				rapid.IntRange(0, 16).Draw(t, "ops"), rapid.IntRange(0, bins-1).Draw(t, "magnitude"), bins)
		},
		func() string {
			return fmt.Sprintf(`{"op":"RandomApply","p":%v,"transforms":[{"op":"ColorJitter","contrast":%v},{"op":"GaussianBlur","kernel_size":3},{"op":"RandAugment"}]}`, p.Draw(t, "p"), p.Draw(t, "c"))
		},
		func() string {
			return fmt.Sprintf(`{"op":"RandomErasing","p":%v,"scale":[%v,1],"value":%s}`, p.Draw(t, "p"), p.Draw(t, "scale"), rapid.SampledFrom([]string{"0", `"random"`, "255"}).Draw(t, "value"))
		},
	}).Draw(t, "operator")()
}

// Whatever a plan draws, every step can be executed: boxes to erase lie inside, factors are in range, sizes follow.
func TestDrawnStepsAreInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ops := []string{`{"op":"DecodeImage"}`}
		for range rapid.IntRange(1, 4).Draw(t, "operators") {
			ops = append(ops, drawAnyOp(t))
		}
		text := `{"plan":1,"ops":[` + strings.Join(ops, ",") + `]}`
		p, err := ParsePlan([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		w, h := rapid.IntRange(1, 3000).Draw(t, "width"), rapid.IntRange(1, 3000).Draw(t, "height")
		checkResolved(t, p, w, h, Key{Seed: rapid.Uint64().Draw(t, "seed"), Sample: rapid.Uint64().Draw(t, "sample")})
	})
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkResolved resolves a plan for a picture and checks every step by itself and against the one before.
func checkResolved(t failer, p *Plan, w, h int, key Key) {
	t.Helper()
	r, err := p.Resolve(w, h, key)
	var e *Error
	if err != nil {
		if !errors.As(err, &e) || e.Kind != KindLimit && e.Kind != KindPlan || e.Op == "" {
			t.Fatalf("%s for %d x %d: %v", p.Canonical(), w, h, err)
		}
		return
	}
	if len(r.Steps) > maxOps*(maxAugmentOps+1) {
		t.Fatalf("%d steps", len(r.Steps))
	}
	for _, s := range r.Steps {
		if why := wrong(s, w, h); why != "" {
			t.Fatalf("%s for %d x %d: %s: %+v", p.Canonical(), w, h, why, s)
		}
		w, h = s.Width, s.Height
	}
	if got := r.Output.Shape; len(got) != 3 || got[0] != h || got[1] != w || got[2] != 1 && got[2] != 3 {
		t.Fatalf("output %v after steps that end at %d x %d", got, w, h)
	}
	if fixed, ok := p.Fixed(); ok && !slices.Equal(fixed.Shape, r.Output.Shape) {
		t.Fatalf("fixed output %v, but %v came", fixed, r.Output)
	}
}

// wrong says what of a step for a picture of w x h cannot be, "" if it is right.
func wrong(s Step, w, h int) string {
	same, inside := s.Width == w && s.Height == h, s.Box.X >= 0 && s.Box.Y >= 0 && s.Box.X+s.Box.W <= w && s.Box.Y+s.Box.H <= h
	switch s.Kind {
	case StepCrop:
		if s.Box.W != s.Width || s.Box.H != s.Height || s.Width < 1 || s.Height < 1 || s.Pad == "" {
			return "crop"
		}
	case StepResize:
		if same || s.Filter == "" || s.Version < 1 || s.Version > 2 || min(s.Width, s.Height) < 1 || max(s.Width, s.Height) > maxSize {
			return "resize"
		}
	case StepErase:
		if !same || !inside || s.Box.W < 1 || s.Box.H < 1 {
			return "erase"
		}
	case StepBrightness, StepContrast, StepSaturation, StepSharpness:
		if !same || !(s.Factor >= 0 && s.Factor <= maxFactor) || s.Factor == 1 {
			return "factor"
		}
	case StepHue:
		if !same || s.Level < 0 || s.Level > 255 {
			return "hue"
		}
	case StepPosterize:
		if !same || s.Level < 4 || s.Level > 7 {
			return "posterize"
		}
	case StepSolarize:
		if !same || s.Level < 0 || s.Level > 255 {
			return "solarize"
		}
	case StepBlur:
		b := s.Blur
		if !same || b.KernelX/2 >= w || b.KernelY/2 >= h || b.KernelX*b.KernelY < 2 || !(b.SigmaX >= minSigma && b.SigmaX <= maxSigma) || b.SigmaX != b.SigmaY {
			return "blur"
		}
	case StepAffine:
		if !same || s.Filter != Nearest && s.Filter != Bilinear {
			return "affine"
		}
	case StepFlip, StepFlipVertical, StepGrayscale, StepAutoContrast, StepEqualize:
		if !same {
			return "size"
		}
	default:
		return "kind"
	}
	return ""
}
