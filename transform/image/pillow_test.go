package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

// pillowVersion is the Pillow that all references were made with.
const pillowVersion = "13.0.0"

// pillowCase is a case of testdata/pillow.py.
type pillowCase struct {
	File   string       `json:"file,omitempty"`
	Seed   uint32       `json:"seed"`
	Width  int          `json:"width"`
	Height int          `json:"height"`
	Steps  []pillowStep `json:"steps"`
	SHA256 string       `json:"sha256,omitempty"`
}

type pillowStep struct {
	Kind    transform.StepKind `json:"kind"`
	Box     *[4]int            `json:"box,omitempty"`
	Width   int                `json:"width,omitempty"`
	Height  int                `json:"height,omitempty"`
	Version int                `json:"version,omitempty"`
	Filter  transform.Filter   `json:"filter,omitempty"`
}

func (s pillowStep) step() transform.Step {
	step := transform.Step{Kind: s.Kind, Width: s.Width, Height: s.Height, Version: s.Version, Filter: s.Filter, Pad: transform.PadConstant}
	if s.Box != nil {
		step.Box = transform.Box{X: s.Box[0], Y: s.Box[1], W: s.Box[2], H: s.Box[3]}
	}
	return step
}

func pillowSteps(steps []transform.Step) []pillowStep {
	all := []pillowStep{}
	for _, s := range steps {
		p := pillowStep{Kind: s.Kind, Width: s.Width, Height: s.Height, Version: s.Version, Filter: s.Filter}
		if s.Kind == transform.StepCrop {
			p.Box = &[4]int{s.Box.X, s.Box.Y, s.Box.W, s.Box.H}
		}
		all = append(all, p)
	}
	return all
}

func (c pillowCase) steps() []transform.Step {
	var all []transform.Step
	for _, s := range c.Steps {
		all = append(all, s.step())
	}
	return all
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestResizeEqualsPillowGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/pillow.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Pillow string
		Cases  []pillowCase
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if golden.Pillow != pillowVersion || len(golden.Cases) < 100 {
		t.Fatalf("pillow.json: Pillow %s with %d cases, want %s and at least 100", golden.Pillow, len(golden.Cases), pillowVersion)
	}
	for _, c := range golden.Cases {
		for _, v := range variants() {
			got, err := stepsOnPixels(pixels{noise(c.Seed, c.Width*c.Height*channels), c.Width, c.Height}, v, c.steps())
			if err != nil {
				t.Fatal(err)
			}
			if sum := digestOf(got.rgb); sum != c.SHA256 {
				t.Errorf("%v: %+v: %s, want %s", v, c, sum, c.SHA256)
			}
		}
	}
}

// The golden rows that the arithmetic was first understood by: width 8 to 3, 5 and 12.
func TestResizeOfOneRow(t *testing.T) {
	row := []byte{0, 50, 100, 150, 200, 250, 255, 128}
	for _, c := range []struct {
		filter transform.Filter
		out    []byte
	}{
		{transform.Bilinear, []byte{55, 174, 213}},
		{transform.Bilinear, []byte{20, 96, 175, 242, 180}},
		{transform.Bilinear, []byte{0, 25, 58, 92, 125, 158, 192, 225, 251, 254, 192, 128}},
		{transform.Bicubic, []byte{45, 180, 215}},
		{transform.Bicubic, []byte{16, 94, 177, 251, 179}},
		{transform.Bicubic, []byte{0, 21, 58, 92, 125, 158, 192, 228, 255, 255, 188, 120}},
	} {
		steps := []transform.Step{{Kind: transform.StepResize, Width: len(c.out), Height: 1, Version: 2, Filter: c.filter}}
		got, err := stepsOnPixels(pixels{grey(row), len(row), 1}, bestVariant(), steps)
		if err != nil || !bytes.Equal(got.rgb, grey(c.out)) {
			t.Errorf("width %d: %v, %v, want %v", len(c.out), got.rgb, err, grey(c.out))
		}
	}
}

func grey(row []byte) []byte {
	var rgb []byte
	for _, v := range row {
		rgb = append(rgb, v, v, v)
	}
	return rgb
}

func TestBilinearCoefficients(t *testing.T) {
	scaled := kernel{1, bilinear, true}.scaling(whole(8), 3)
	for o, want := range [][]int32{{1214141, 1655646, 993388, 331129}, {99864, 699051, 1298237, 1298237, 699051, 99864}, {331129, 993388, 1655646, 1214141}} {
		_, w := scaled.weights(o, make([]float64, scaled.mostTaps()))
		var got []int32
		for _, x := range w {
			got = append(got, fixed(x))
		}
		if len(got) != len(want) {
			t.Fatalf("output %d has weights %v, want %v", o, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("output %d has weights %v, want %v", o, got, want)
			}
		}
	}
}

// python finds an interpreter with the right Pillow, or skips.
func python(t *testing.T) string {
	t.Helper()
	exe := os.Getenv("STEPAHEAD_PYTHON")
	if exe == "" {
		exe, _ = filepath.Abs("../../.venv/bin/python")
	}
	out, err := exec.Command(exe, "-c", "import PIL; print(PIL.__version__, end='')").CombinedOutput()
	if err != nil || string(out) != pillowVersion {
		testdata.Missing(t, "Pillow %s to compare with: %s: %v %s (set STEPAHEAD_PYTHON, or run `make setup`)", pillowVersion, exe, err, out)
	}
	return exe
}

func pillowDigests(t *testing.T, cases []pillowCase) []string {
	t.Helper()
	in, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python(t), "testdata/pillow.py")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Digests []string }
	if err := json.Unmarshal(out, &answer); err != nil || len(answer.Digests) != len(cases) {
		t.Fatalf("pillow.py answered %d digests for %d cases: %v", len(answer.Digests), len(cases), err)
	}
	return answer.Digests
}

// Plans with drawn parameters on real photographs, from the file to the tensor, against Pillow in one go.
func TestPlansEqualPillowOnPhotographs(t *testing.T) {
	plans := []string{
		`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[224,224]},{"op":"RandomHorizontalFlip"}]}`,
		`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"Resize","size":[256]},{"op":"CenterCrop","size":[224,224]}]}`,
		`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[96,301],"ratio":[0.1,10.0],"version":1},{"op":"CenterCrop","size":[128,128]}]}`,
		`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"CenterCrop","size":[700,3000]},{"op":"Resize","size":[65,640]},{"op":"RandomHorizontalFlip","p":1.0},{"op":"RandomResizedCrop","size":[32,32]}]}`,
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var cases []pillowCase
	var got []string
	for _, e := range expectations(t) {
		if e.pillow != "ok" || (e.format != "JPEG" && e.format != "PNG") || exceptions[e.path] != "" || e.path == raising || rng.IntN(10) > 1 {
			continue
		}
		plan, err := transform.ParsePlan([]byte(plans[rng.IntN(len(plans))]))
		if err != nil {
			t.Fatal(err)
		}
		key := transform.Key{Seed: rng.Uint64(), Epoch: rng.Uint64N(4), Sample: rng.Uint64N(1000)}
		r, err := plan.Resolve(e.width, e.height, key)
		if err != nil {
			continue // a strip that would become longer than the plan allows
		}
		out := make([]byte, r.Output.Bytes())
		spec, err := Run(plan, key, testdata.Read(t, e.path), out, Limits{})
		if err != nil {
			t.Fatalf("%s: %v", e.path, err)
		}
		if spec.Bytes() != r.Output.Bytes() {
			t.Fatalf("%s: result %+v, want %+v", e.path, spec, r.Output)
		}
		cases = append(cases, pillowCase{File: testdata.Path(t, e.path), Steps: pillowSteps(r.Steps)})
		got = append(got, digestOf(out))
	}
	if len(cases) < 40 {
		t.Fatalf("only %d files", len(cases))
	}
	for i, want := range pillowDigests(t, cases) {
		if got[i] != want {
			t.Errorf("%+v: %s, Pillow has %s", cases[i], got[i], want)
		}
	}
}
