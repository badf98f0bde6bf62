package transform

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func mustParse(t testing.TB, ops string) *Plan {
	t.Helper()
	p, err := ParsePlan([]byte(`{"plan":1,"ops":[` + ops + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const trainOps = `{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":224},{"op":"RandomHorizontalFlip"},` +
	`{"op":"Normalize","mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]}`

func TestCanonicalFormFillsInDefaults(t *testing.T) {
	for ops, want := range map[string]string{
		trainOps: `{"ops":[{"mode":"RGB","op":"DecodeImage","orientation":"stored"},` +
			`{"antialias":true,"interpolation":"bilinear","op":"RandomResizedCrop","ratio":[0.75,1.3333333333333333],"scale":[0.08,1],"size":[224,224],"version":2},` +
			`{"op":"RandomHorizontalFlip","p":0.5},` +
			`{"mean":[0.485,0.456,0.406],"op":"Normalize","scale":"divide","std":[0.229,0.224,0.225]}],"plan":1}`,
		`{"op":"DecodeImage"},{"op":"Resize","size":[256]},{"op":"CenterCrop","size":[224]},{"op":"ToDtype","dtype":"bfloat16"}`: `{"ops":[{"mode":"RGB","op":"DecodeImage","orientation":"stored"},` +
			`{"antialias":true,"interpolation":"bilinear","max_size":null,"op":"Resize","size":256,"version":2},` +
			`{"op":"CenterCrop","size":[224,224]},{"dtype":"bfloat16","op":"ToDtype","scale":false}],"plan":1}`,
		`{"op":"DecodeImage","mode":null},{"op":"RandomHorizontalFlip","p":-0.0},{"op":"Normalize","mean":[1e-7],"std":[1e21],"scale":null}`: `{"ops":[{"mode":"RGB","op":"DecodeImage","orientation":"stored"},` +
			`{"op":"RandomHorizontalFlip","p":0},{"mean":[1e-7],"op":"Normalize","scale":"divide","std":[1e+21]}],"plan":1}`,
		// What plans did not always have is left out while it has its default.
		`{"op":"DecodeImage","orientation":"apply","jpeg":"exact","truncated":"raise"}`: `{"ops":[{"mode":"RGB","op":"DecodeImage","orientation":"apply"}],"plan":1}`,
		`{"op":"DecodeImage","jpeg":"dct-scaled","truncated":"fill"},{"op":"Resize","size":9,"interpolation":"lanczos"}`: `{"ops":[` +
			`{"jpeg":"dct-scaled","mode":"RGB","op":"DecodeImage","orientation":"stored","truncated":"fill"},` +
			`{"antialias":true,"interpolation":"lanczos","max_size":null,"op":"Resize","size":9,"version":2}],"plan":1}`,
	} {
		p := mustParse(t, ops)
		if got := string(p.Canonical()); got != want {
			t.Errorf("canonical form of %s is\n%s, want\n%s", ops, got, want)
		}
		if p.Digest() != sha256.Sum256([]byte(want)) {
			t.Errorf("digest of %s is not that of its canonical form", ops)
		}
	}
}

// The digests of plans are a promise across versions: these were the same before operators had the parameters of today.
func TestDigestsStay(t *testing.T) {
	for name, want := range map[string]string{
		"train": "e9a153f6500ff27d9c5e27a2f4bf779cec79196b2a7b07b4ac977d9fb3da2221", // the plan that every example uses
		"eval":  "d6ca6b91be30ec924cba41e6331fac6d32a9fa48d6c1f469dc52e983c940857e",
		"odd":   "d457c49530ebfc1d651bd801af0a640238654b6bb38cd33db0a26fbf06cf34df",
	} {
		text, err := os.ReadFile(filepath.Join("testdata/plans", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := ParsePlan(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", p.Digest()); got != want {
			t.Errorf("digest of %s is %s, want %s", name, got, want)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	decode := `{"op":"DecodeImage"}`
	for text, words := range map[string]string{
		``:                                  "JSON",
		`[]`:                                "not an object",
		`{"plan":1,"ops":[`:                 "JSON",
		`{"plan":1,"ops":[]} x`:             "JSON",
		`{"plan":2,"ops":[` + decode + `]}`: "format 2",
		`{"ops":[` + decode + `]}`:          "plan",
		`{"plan":1}`:                        "ops",
		`{"plan":1,"ops":[]}`:               "1 to 64",
		`{"plan":1,"ops":[` + strings.Repeat(decode+",", 64) + decode + `]}`:             "1 to 64",
		`{"plan":1,"ops":[` + decode + `],"extra":1}`:                                    "extra",
		`{"plan":1,"plan":1,"ops":[` + decode + `]}`:                                     `"plan" occurs twice`,
		`{"plan":1,"ops":[7]}`:                                                           "ops[0]",
		`{"plan":1,"ops":[{"mode":"RGB"}]}`:                                              "ops[0]: plan: op: is missing",
		`{"plan":1,"ops":[{"op":7}]}`:                                                    "ops[0]",
		`{"plan":1,"ops":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`: "nested",
		strings.Repeat(" ", MaxPlanBytes+1):                                              "limit",
	} {
		wantPlanError(t, text, words)
	}
	for ops, words := range map[string]string{
		`{"op":"Resize","size":7}`:                           "ops[0] Resize first operator",
		decode + `,` + decode:                                "ops[1] DecodeImage one DecodeImage",
		decode + `,{"op":"Mosaic"}`:                          "ops[1] Mosaic no such operator CenterCrop, ToDtype newer",
		decode + `,{"op":"randomResizeCrop"}`:                "ops[1] no such operator mean RandomResizedCrop?",
		decode + `,{"op":"\u0000\n"}`:                        "ops[1] no such operator",
		decode + `,{"op":"` + strings.Repeat("ä", 90) + `"}`: "ops[1] no such operator",
		decode + `,{"op":"Normalize","mean":[0],"std":[1]},{"op":"CenterCrop","size":2}`:                        "ops[2] CenterCrop before Normalize",
		`{"op":"DecodeImage","mode":"L"}`:                                                                       "ops[0] DecodeImage mode RGB",
		`{"op":"DecodeImage","orientation":"exif"}`:                                                             "ops[0] DecodeImage orientation exif stored, apply",
		`{"op":"DecodeImage","jpeg":"fast"}`:                                                                    "ops[0] DecodeImage jpeg fast exact, dct-scaled",
		`{"op":"DecodeImage","truncated":"pad"}`:                                                                "ops[0] DecodeImage truncated pad raise, fill",
		`{"op":"DecodeImage","mode":"RGB","mode":"RGB"}`:                                                        `"mode" occurs twice`,
		`{"op":"DecodeImage","Mode":"RGB"}`:                                                                     `unknown parameter "Mode"; known are jpeg, mode, orientation, truncated`,
		decode + `,{"op":"GaussianBlur","kernel_size":3,"sigam":1}`:                                             `unknown parameter "sigam"; known are kernel_size, sigma`,
		decode + `,{"op":"Resize","size":9,"` + strings.Repeat("x", 900) + `":1}`:                               "unknown parameter known are",
		decode + `,{"op":"ToDtype","dtype":"uint8","Scale":true}`:                                               `unknown parameter "Scale"; known are dtype, scale`,
		decode + `,{"op":"Resize","sise":2}`:                                                                    `ops[1] Resize size missing unknown "sise" known max_size`,
		decode + `,{"op":"Resize"}`:                                                                             "ops[1] Resize size missing",
		decode + `,{"op":"Resize","size":0}`:                                                                    "size 1 to 65535",
		decode + `,{"op":"Resize","size":65536}`:                                                                "size 1 to 65535",
		decode + `,{"op":"Resize","size":1.5}`:                                                                  "size whole",
		decode + `,{"op":"Resize","size":"224"}`:                                                                "size whole",
		decode + `,{"op":"Resize","size":[1,2,3]}`:                                                              "size 3 entries",
		decode + `,{"op":"Resize","size":[]}`:                                                                   "size 0 entries",
		decode + `,{"op":"Resize","size":[1,2],"max_size":9}`:                                                   "max_size one-number",
		decode + `,{"op":"Resize","size":9,"max_size":9}`:                                                       "max_size above",
		decode + `,{"op":"Resize","size":9,"interpolation":"cubic"}`:                                            "interpolation cubic bilinear",
		decode + `,{"op":"Resize","size":9,"antialias":false}`:                                                  "antialias",
		decode + `,{"op":"Resize","size":9,"antialias":1}`:                                                      "antialias true or false",
		decode + `,{"op":"Resize","size":9,"version":3}`:                                                        "version 1 to 2",
		decode + `,{"op":"CenterCrop","size":-1}`:                                                               "size",
		decode + `,{"op":"RandomResizedCrop","size":9,"scale":[1,0.5]}`:                                         "scale",
		decode + `,{"op":"RandomResizedCrop","size":9,"scale":0.5}`:                                             "scale two",
		decode + `,{"op":"RandomResizedCrop","size":9,"ratio":[0,1]}`:                                           "ratio",
		decode + `,{"op":"RandomHorizontalFlip","p":1.01}`:                                                      "p 0 to 1",
		decode + `,{"op":"RandomHorizontalFlip","p":1e400}`:                                                     "p number",
		decode + `,{"op":"Normalize","mean":[0,0],"std":[1]}`:                                                   "mean 3",
		decode + `,{"op":"Normalize","std":[1]}`:                                                                "mean missing 3",
		decode + `,{"op":"Normalize","mean":[0]}`:                                                               "std missing 3",
		decode + `,{"op":"Normalize","mean":[0],"std":[0]}`:                                                     "std zero",
		decode + `,{"op":"Normalize","mean":[0],"std":[1e-50]}`:                                                 "std zero",
		decode + `,{"op":"Normalize","mean":[1e39],"std":[1]}`:                                                  "mean",
		decode + `,{"op":"Normalize","mean":[0],"std":[1],"scale":"half"}`:                                      "scale divide, multiply, none",
		decode + `,{"op":"ToDtype"}`:                                                                            "dtype missing",
		decode + `,{"op":"ToDtype","dtype":null}`:                                                               "dtype missing",
		decode + `,{"op":"ToDtype","dtype":"float64"}`:                                                          "dtype float64",
		decode + `,{"op":"ToDtype","dtype":"float32"},{"op":"ToDtype","dtype":"uint8"}`:                         "ops[2] ToDtype dtype uint8",
		decode + `,{"op":"ToDtype","dtype":"float32"},{"op":"Normalize","mean":[0],"std":[1],"scale":"divide"}`: `ops[2] Normalize scale "none" leave`,
	} {
		wantPlanError(t, `{"plan":1,"ops":[`+ops+`]}`, words)
	}
}

func wantPlanError(t *testing.T, text, words string) {
	t.Helper()
	_, err := ParsePlan([]byte(text))
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindPlan || e.Content() || !utf8.ValidString(e.Error()) {
		t.Errorf("%.200s gives %q", text, err)
		return
	}
	for word := range strings.FieldsSeq(words) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%.200s gives %q, which does not say %q", text, err, word)
		}
	}
	if len(err.Error()) > 500 {
		t.Errorf("%.200s gives an error of %d bytes", text, len(err.Error()))
	}
}

func TestCutKeepsIndicesAndOutput(t *testing.T) {
	whole := mustParse(t, trainOps)
	agent, rest := whole.Cut()
	if agent.Len() != 3 || rest.Len() != 1 || whole.Len() != 4 {
		t.Fatalf("cut into %d and %d of %d", agent.Len(), rest.Len(), whole.Len())
	}
	parsed, err := ParsePlan(agent.Canonical())
	if err != nil || parsed.Digest() != agent.Digest() {
		t.Fatalf("the agent half does not survive JSON: %v", err)
	}
	for sample := range uint64(50) {
		key := Key{Seed: 3, Sample: sample}
		a, errA := whole.Resolve(500, 375, key)
		b, errB := parsed.Resolve(500, 375, key)
		if errA != nil || errB != nil || !slices.Equal(a.Steps, b.Steps) {
			t.Errorf("sample %d: %+v, %v and %+v, %v", sample, a, errA, b, errB)
		}
	}
	if _, err := rest.Resolve(5, 5, Key{}); err == nil {
		t.Error("the rest resolves")
	}
	a2, r2 := agent.Cut()
	if a2.Digest() != agent.Digest() || r2.Len() != 0 {
		t.Error("cutting an agent half changes it")
	}
	if a3, r3 := rest.Cut(); a3.Len() != 0 || r3.Digest() != rest.Digest() || a3.Canonical() == nil {
		t.Error("cutting a rest changes it")
	}
}

func TestFixedAndOutput(t *testing.T) {
	for _, c := range []struct {
		ops   string
		fixed string
		out   string // for 500 x 375
	}{
		{``, "-", "uint8 [375 500 3]"},
		{`,{"op":"Resize","size":256}`, "-", "uint8 [256 341 3]"},
		{`,{"op":"Resize","size":256},{"op":"CenterCrop","size":224}`, "uint8 [224 224 3]", "uint8 [224 224 3]"},
		{`,{"op":"Resize","size":[10,20]},{"op":"ToDtype","dtype":"float16"}`, "float16 [10 20 3]", "float16 [10 20 3]"},
		{`,{"op":"CenterCrop","size":[10,20]},{"op":"Resize","size":30}`, "uint8 [30 60 3]", "uint8 [30 60 3]"},
		{`,{"op":"CenterCrop","size":[1,65535]},{"op":"Resize","size":2}`, "-", "limit"},
		{`,{"op":"RandomResizedCrop","size":[7,9]},{"op":"Normalize","mean":[0],"std":[1]}`, "float32 [7 9 3]", "float32 [7 9 3]"},
		{`,{"op":"RandomHorizontalFlip"},{"op":"ToDtype","dtype":"bfloat16"}`, "-", "bfloat16 [375 500 3]"},
	} {
		p := mustParse(t, `{"op":"DecodeImage"}`+c.ops)
		got := "-"
		if spec, ok := p.Fixed(); ok {
			got = fmt.Sprint(spec.Dtype, " ", spec.Shape)
		}
		if got != c.fixed {
			t.Errorf("%s: fixed output is %s, want %s", c.ops, got, c.fixed)
		}
		spec, err := p.Output(500, 375, Key{})
		got = fmt.Sprint(spec.Dtype, " ", spec.Shape)
		if err != nil {
			got = string(err.(*Error).Kind)
		}
		if got != c.out {
			t.Errorf("%s: output is %s, want %s", c.ops, got, c.out)
		}
	}
}

// The size in a file's header is the decoded picture's, but for an EXIF orientation that is applied and may turn it.
func TestOutputOfStoredSizes(t *testing.T) {
	stored, apply := `{"op":"DecodeImage"}`, `{"op":"DecodeImage","orientation":"apply"}`
	for _, c := range []struct {
		ops   string
		exact bool
		out   string // for 500 x 375
	}{
		{stored + `,{"op":"Resize","size":100}`, true, "[100 133 3]"},
		{apply + `,{"op":"Resize","size":100}`, false, "[100 133 3]"},
		{apply, false, "[375 500 3]"},
		{apply + `,{"op":"CenterCrop","size":100}`, true, "[100 100 3]"},
		{apply + `,{"op":"Pad","padding":[0,0,9,0]}`, false, "[500 384 3]"}, // 500 x 384 is more than 375 x 509
		{apply + `,{"op":"RandomCrop","size":[400,1]}`, false, "[400 1 3]"}, // only if it is turned
		{apply + `,{"op":"RandomCrop","size":[600,1]}`, false, "plan"},
		{stored + `,{"op":"RandomCrop","size":[400,1]}`, false, "plan"},
	} {
		spec, exact, err := mustParse(t, c.ops).OutputStored(500, 375, Key{})
		got := fmt.Sprint(spec.Shape)
		if err != nil {
			got = string(err.(*Error).Kind)
		}
		if got != c.out || exact != c.exact {
			t.Errorf("%s: %s, exact %v, want %s, %v", c.ops, got, exact, c.out, c.exact)
		}
	}
	square := mustParse(t, apply+`,{"op":"Resize","size":100}`)
	if _, exact, err := square.OutputStored(64, 64, Key{}); !exact || err != nil {
		t.Errorf("a square picture is not exact: %v", err)
	}
}

func TestIdentities(t *testing.T) {
	got := mustParse(t, trainOps).Identities()
	want := []string{"draw/sha256-counter@1", "geometry/torchvision@1", "gif/go@1", "jpeg/islow-fancy@1", "placement/ours@1", "png/libpng@1", "resize/pil-bilinear@2", "webp/libwebp@1"}
	if !slices.Equal(got, want) {
		t.Errorf("identities are %v", got)
	}
	if got := mustParse(t, `{"op":"DecodeImage"},{"op":"Resize","size":9,"version":1},{"op":"Resize","size":8}`).Identities(); !slices.Contains(got, "resize/pil-bilinear@1") || !slices.Contains(got, "resize/pil-bilinear@2") {
		t.Errorf("identities are %v", got)
	}
	for ops, want := range map[string]string{
		`{"op":"DecodeImage","orientation":"apply"}`:                                          "exif/orientation@1 gif/go@1 jpeg/islow-fancy@1 png/libpng@1 webp/libwebp@1",
		`{"op":"DecodeImage","jpeg":"dct-scaled","truncated":"fill"}`:                         "gif/go@1 jpeg/dct-scaled@1 png/libpng@1 truncated/pil-fill@1 webp/libwebp@1",
		`{"op":"DecodeImage"},{"op":"Resize","size":9,"interpolation":"nearest","version":1}`: "geometry/torchvision@1 gif/go@1 jpeg/islow-fancy@1 placement/ours@1 png/libpng@1 resize/pil-nearest@1 webp/libwebp@1",
		`{"op":"DecodeImage"},{"op":"Resize","size":9,"interpolation":"lanczos","version":1}`: "geometry/torchvision@1 gif/go@1 jpeg/islow-fancy@1 placement/ours@1 png/libpng@1 resize/pil-lanczos@1 webp/libwebp@1",
		`{"op":"DecodeImage"},{"op":"Resize","size":9,"interpolation":"box"}`:                 "geometry/torchvision@1 gif/go@1 jpeg/islow-fancy@1 placement/ours@1 png/libpng@1 resize/pil-box@2 webp/libwebp@1",
	} {
		if got := strings.Join(mustParse(t, ops).Identities(), " "); got != want {
			t.Errorf("identities of %s are %s", ops, got)
		}
	}
	for _, id := range []string{drawIdentity, geometryIdentity} {
		if len(Golden()[id]) != 64 {
			t.Errorf("no golden digest for %s", id)
		}
	}
}

// drawOps draws the JSON of a valid plan.
func drawOps(t *rapid.T) string {
	ops := []string{`{"op":"DecodeImage"}`}
	side := rapid.IntRange(1, 600)
	for range rapid.IntRange(0, 4).Draw(t, "operators") {
		ops = append(ops, rapid.SampledFrom([]string{
			fmt.Sprintf(`{"op":"Resize","size":%d}`, side.Draw(t, "s")),
			fmt.Sprintf(`{"size":[%d,%d],"op":"Resize","version":1}`, side.Draw(t, "h"), side.Draw(t, "w")),
			fmt.Sprintf(`{"op":"CenterCrop","size":[%d,%d]}`, side.Draw(t, "h"), side.Draw(t, "w")),
			fmt.Sprintf(`{"op":"RandomResizedCrop","size":%d,"scale":[%v,1e0]}`, side.Draw(t, "s"), rapid.Float64Range(0, 1).Draw(t, "scale")),
			fmt.Sprintf(`{"op":"RandomHorizontalFlip","p":%v}`, rapid.Float64Range(0, 1).Draw(t, "p")),
		}).Draw(t, "op"))
	}
	return strings.Join(ops, " ,\n")
}

func TestCanonicalFormIsAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, err := ParsePlan([]byte(`{"plan":1,"ops":[` + drawOps(t) + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		second, err := ParsePlan(first.Canonical())
		if err != nil || string(second.Canonical()) != string(first.Canonical()) || second.Digest() != first.Digest() {
			t.Fatalf("%s becomes %s, %v", first.Canonical(), second.Canonical(), err)
		}
	})
}

func TestResolvedStepsFitTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := ParsePlan([]byte(`{"plan":1,"ops":[` + drawOps(t) + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		w, h := rapid.IntRange(1, 5000).Draw(t, "width"), rapid.IntRange(1, 5000).Draw(t, "height")
		key := Key{Seed: rapid.Uint64().Draw(t, "seed"), Sample: rapid.Uint64().Draw(t, "sample")}
		r, err := p.Resolve(w, h, key)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Kind != KindLimit {
				t.Fatal(err)
			}
			return
		}
		for i, s := range r.Steps {
			checkStep(t, p, s, w, h)
			if i > 0 && s.Op < r.Steps[i-1].Op {
				t.Fatalf("steps out of order: %+v", r.Steps)
			}
			w, h = s.Width, s.Height
		}
		if !slices.Equal(r.Output.Shape, []int{h, w, 3}) {
			t.Fatalf("output %v after steps that end at %d x %d", r.Output.Shape, w, h)
		}
		if fixed, ok := p.Fixed(); ok && !fixed.Equal(r.Output) {
			t.Fatalf("fixed output %v, but %v came", fixed, r.Output)
		}
	})
}

func checkStep(t *rapid.T, p *Plan, s Step, w, h int) {
	if s.Width < 1 || s.Height < 1 || s.Width > maxSize || s.Height > maxSize {
		t.Fatalf("step %+v", s)
	}
	switch s.Kind {
	case StepCrop:
		_, pads := p.ops[s.Op].(CenterCrop)
		inside := s.Box.X >= 0 && s.Box.Y >= 0 && s.Box.X+s.Box.W <= w && s.Box.Y+s.Box.H <= h
		if s.Box.W != s.Width || s.Box.H != s.Height || (!inside && !pads) {
			t.Fatalf("crop %+v of %d x %d", s, w, h)
		}
	case StepResize:
		if s.Version != 1 && s.Version != 2 || s.Width == w && s.Height == h {
			t.Fatalf("resize %+v of %d x %d", s, w, h)
		}
	case StepFlip:
		if s.Width != w || s.Height != h {
			t.Fatalf("flip %+v of %d x %d", s, w, h)
		}
	}
}

func FuzzParsePlan(f *testing.F) {
	seeds, err := filepath.Glob("testdata/plans/*.json")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seed plans: %v", err)
	}
	for _, name := range seeds {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint32(500), uint32(375), uint64(7))
		f.Add(data, uint32(0), uint32(maxSide-1), uint64(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, width, height uint32, sample uint64) {
		p, err := ParsePlan(data)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Kind != KindPlan {
				t.Fatalf("error is %v", err)
			}
			return
		}
		again, err := ParsePlan(p.Canonical())
		if err != nil || again.Digest() != p.Digest() {
			t.Fatalf("%s is not canonical: %v", p.Canonical(), err)
		}
		// Whatever the size, what parses resolves to steps that can be executed, or to an error that names the operator.
		checkResolved(t, p, 33, 21, Key{Sample: sample})
		checkResolved(t, p, int(width%maxSide)+1, int(height%maxSide)+1, Key{Sample: sample})
		agent, rest := p.Cut()
		if agent.Len()+rest.Len() != p.Len() {
			t.Fatal("cutting loses operators")
		}
		tail, err := NewFinisher(rest, p.pixels.channels)
		if err != nil {
			t.Fatal(err)
		}
		src := make([]byte, 20*p.pixels.channels)
		dst := make([]byte, tail.Spec(TensorSpec{Shape: []int{len(src)}}).Bytes())
		tail.Apply(dst, src)
		tail.Erase(dst, 5, 4, Key{Sample: sample})
	})
}
