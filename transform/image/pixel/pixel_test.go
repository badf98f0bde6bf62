package pixel

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

// reference is a case of testdata/pillow.py.
type reference struct {
	File   string    `json:"file,omitempty"`
	Seed   uint32    `json:"seed"`
	Width  int       `json:"width"`
	Height int       `json:"height"`
	Few    int       `json:"few"`
	Steps  []stepRow `json:"steps"`
	SHA256 string    `json:"sha256,omitempty"`

	Colours *uint32 `json:"colours,omitempty"`

	pixels Image // of File and Colours
}

// stepRow is a [transform.Step] as pillow.py reads it.
type stepRow struct {
	Kind   transform.StepKind `json:"kind"`
	Box    *[4]int            `json:"box,omitempty"`
	Width  int                `json:"width,omitempty"`
	Height int                `json:"height,omitempty"`
	Filter transform.Filter   `json:"filter,omitempty"`
	Pad    transform.PadMode  `json:"pad,omitempty"`
	Fill   []int              `json:"fill,omitempty"`
	Factor float64            `json:"factor,omitempty"`
	Level  int                `json:"level,omitempty"`
	Matrix *[6]float64        `json:"matrix,omitempty"`
	Noise  bool               `json:"noise,omitempty"`
	Key    string             `json:"key,omitempty"`
}

func rowOf(s transform.Step) stepRow {
	row := stepRow{Kind: s.Kind, Width: s.Width, Height: s.Height, Filter: s.Filter, Pad: s.Pad, Factor: s.Factor, Level: s.Level, Noise: s.Noise}
	row.Fill = []int{int(s.Fill[0]), int(s.Fill[1]), int(s.Fill[2])}
	row.Box = &[4]int{s.Box.X, s.Box.Y, s.Box.W, s.Box.H}
	row.Matrix, row.Key = &s.Matrix, hex.EncodeToString(s.Key[:])
	return row
}

func (r stepRow) step() transform.Step {
	s := transform.Step{Kind: r.Kind, Width: r.Width, Height: r.Height, Filter: r.Filter, Pad: r.Pad, Factor: r.Factor, Level: r.Level, Noise: r.Noise}
	if r.Box != nil {
		s.Box = transform.Box{X: r.Box[0], Y: r.Box[1], W: r.Box[2], H: r.Box[3]}
	}
	for i, v := range r.Fill {
		s.Fill[i] = uint8(v)
	}
	if r.Matrix != nil {
		s.Matrix = *r.Matrix
	}
	key, _ := hex.DecodeString(r.Key)
	copy(s.Key[:], key)
	return s
}

func (r reference) picture() Image {
	if r.pixels.Pix != nil {
		return Image{W: r.pixels.W, H: r.pixels.H, Pix: bytes.Clone(r.pixels.Pix)}
	}
	return madeUp(r.Seed, r.Width, r.Height, r.Few)
}

// run executes the steps of a case and returns the digest of the result.
func (r reference) run(t *testing.T) string {
	t.Helper()
	im := r.picture()
	for _, row := range r.Steps {
		var err error
		if im, err = Apply(row.step(), im, allocate); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
	}
	sum := sha256.Sum256(im.Pix)
	return hex.EncodeToString(sum[:])
}

// allocate gives memory that holds anything.
func allocate(n int) []byte { return bytes.Repeat([]byte{0xaa}, n) }

func TestEqualsPillowGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Pillow string
		Cases  []reference
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if golden.Pillow != pillowVersion || len(golden.Cases) < 500 {
		t.Fatalf("golden.json: Pillow %s with %d cases, want %s and at least 500", golden.Pillow, len(golden.Cases), pillowVersion)
	}
	kinds := map[transform.StepKind]bool{}
	for _, c := range golden.Cases {
		kinds[c.Steps[0].Kind] = true
		if got := c.run(t); got != c.SHA256 {
			t.Errorf("%d x %d, few %d, %+v: %s, Pillow has %s", c.Width, c.Height, c.Few, c.Steps[0].step(), got, c.SHA256)
		}
	}
	for _, k := range everyKind {
		if !kinds[k] {
			t.Errorf("golden.json has no %s", k)
		}
	}
}

var everyKind = []transform.StepKind{
	transform.StepCrop, transform.StepFlip, transform.StepFlipVertical, transform.StepAffine, transform.StepErase, transform.StepGrayscale,
	transform.StepBrightness, transform.StepContrast, transform.StepSaturation, transform.StepSharpness, transform.StepHue, transform.StepInvert,
	transform.StepPosterize, transform.StepSolarize, transform.StepAutoContrast, transform.StepEqualize,
}

// python finds an interpreter with the right Pillow, or skips.
func python(t testing.TB) string {
	t.Helper()
	exe := os.Getenv("STEPAHEAD_PYTHON")
	if exe == "" {
		exe, _ = filepath.Abs("../../../.venv/bin/python")
	}
	out, err := exec.Command(exe, "-c", "import PIL; print(PIL.__version__, end='')").CombinedOutput()
	if err != nil || string(out) != pillowVersion {
		testdata.Missing(t, "Pillow %s to compare with: %s: %v %s (set STEPAHEAD_PYTHON, or run `make setup`)", pillowVersion, exe, err, out)
	}
	return exe
}

// ask has pillow.py answer cases.
func ask[T any](t testing.TB, cases []reference, args ...string) []T {
	t.Helper()
	in, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python(t), append([]string{"testdata/pillow.py"}, args...)...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Answers []T }
	if err := json.Unmarshal(out, &answer); err != nil || len(answer.Answers) != len(cases) {
		t.Fatalf("pillow.py answered %d of %d cases: %v", len(answer.Answers), len(cases), err)
	}
	return answer.Answers
}

// compare runs cases here and in pillow.py, and shows the first that differs.
func compare(t *testing.T, cases []reference, args ...string) {
	t.Helper()
	differ, first := 0, ""
	for i, want := range ask[string](t, cases, args...) {
		if c := cases[i]; c.run(t) != want {
			if differ++; differ == 1 {
				c.pixels = Image{}
				shown, _ := json.Marshal(c)
				first = string(shown)
			}
		}
	}
	if differ > 0 {
		t.Errorf("Pillow has other pixels in %d of %d cases; the first is %s", differ, len(cases), first)
	}
}

// vectorCases are what goldens vouch for.
func vectorCases() (cases []reference) {
	for _, vectors := range goldenVectors() {
		for _, v := range vectors {
			cases = append(cases, reference{Seed: 1, Width: v.w, Height: v.h, Few: v.few, Steps: []stepRow{rowOf(v.step)}})
		}
	}
	return cases
}

// randomCases are several steps after each other, of any kind and with any parameter, on pictures of any shape.
func randomCases(rng *rand.Rand, n int) (cases []reference) {
	for range n {
		c := reference{Seed: rng.Uint32(), Width: 1 + rng.IntN(90), Height: 1 + rng.IntN(60)}
		if rng.IntN(3) == 0 {
			c.Few = 1 + rng.IntN(254)
		}
		w, h := c.Width, c.Height
		for range 1 + rng.IntN(3) {
			s := randomStep(rng, w, h)
			switch s.Kind {
			case transform.StepCrop:
				w, h = s.Box.W, s.Box.H
			case transform.StepAffine:
				w, h = s.Width, s.Height
			}
			c.Steps = append(c.Steps, rowOf(s))
		}
		cases = append(cases, c)
	}
	return cases
}

func TestEqualsPillow(t *testing.T) {
	compare(t, append(vectorCases(), randomCases(rand.New(rand.NewPCG(4, 16)), 400)...))
}

// The reference's own lines for padding and hue are torchvision's.
func TestEqualsTorchvision(t *testing.T) {
	testdata.Soak(t)
	compare(t, append(vectorCases(), randomCases(rand.New(rand.NewPCG(4, 17)), 4000)...), "--torchvision")
}

// Whole photographs, one step of each kind.
func TestPhotographsEqualPillow(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 18))
	var cases []reference
	for _, name := range photographs {
		im := readPNG(t, name)
		for _, kind := range everyKind {
			s := randomStep(rng, im.W, im.H)
			for s.Kind != kind {
				s = randomStep(rng, im.W, im.H)
			}
			cases = append(cases, reference{File: testdata.Path(t, name), Steps: []stepRow{rowOf(s)}, pixels: im})
		}
	}
	compare(t, cases)
}

func randomStep(rng *rand.Rand, w, h int) transform.Step {
	s := transform.Step{Kind: everyKind[rng.IntN(len(everyKind))]}
	s.Fill = [3]uint8{uint8(rng.Uint32()), uint8(rng.Uint32()), uint8(rng.Uint32())}
	switch s.Kind {
	case transform.StepCrop:
		s.Pad = []transform.PadMode{transform.PadConstant, transform.PadEdge, transform.PadReflect, transform.PadSymmetric}[rng.IntN(4)]
		s.Box = transform.Box{X: rng.IntN(3*w) - 2*w, Y: rng.IntN(3*h) - 2*h, W: 1 + rng.IntN(2*w), H: 1 + rng.IntN(2*h)}
	case transform.StepAffine:
		s.Filter = []transform.Filter{transform.Nearest, transform.Bilinear}[rng.IntN(2)]
		s.Width, s.Height = 1+rng.IntN(2*w), 1+rng.IntN(2*h)
		for i := range s.Matrix {
			s.Matrix[i] = rng.NormFloat64()
		}
		s.Matrix[2] += float64(w) * rng.Float64()
		s.Matrix[5] += float64(h) * rng.Float64()
		if rng.IntN(4) == 0 {
			s.Matrix[1], s.Matrix[3] = 0, 0
		}
	case transform.StepErase:
		s.Box = transform.Box{X: rng.IntN(w), Y: rng.IntN(h)}
		s.Box.W, s.Box.H = 1+rng.IntN(w-s.Box.X), 1+rng.IntN(h-s.Box.Y)
		s.Noise = rng.IntN(2) == 0
		s.Key = [16]byte{byte(rng.Uint32()), 2, 3}
	default:
		s.Factor = rng.NormFloat64()*2 + 1
		s.Level = 1 + rng.IntN(8)
		if s.Kind == transform.StepHue || s.Kind == transform.StepSolarize {
			s.Level = rng.IntN(256)
		}
	}
	return s
}

// All 2^24 colours, through every operator that looks at a whole pixel.
func TestEveryColourEqualsPillow(t *testing.T) {
	testdata.Soak(t)
	rng := rand.New(rand.NewPCG(4, 19))
	for k := range uint32(16) {
		steps := []stepRow{{Kind: transform.StepGrayscale}, {Kind: transform.StepSaturation, Factor: rng.Float64() * 2}}
		for range 8 {
			steps = append(steps, stepRow{Kind: transform.StepHue, Level: rng.IntN(256)})
		}
		var cases []reference
		for _, s := range steps {
			cases = append(cases, reference{Colours: &k, Steps: []stepRow{s}, pixels: colours(k)})
		}
		compare(t, cases)
	}
}

// colours are the 2^20 colours whose upper four bits of red are k.
func colours(k uint32) Image {
	im := Image{W: 1024, H: 1024}
	for n := range uint32(1 << 20) {
		n += k << 20
		im.Pix = append(im.Pix, uint8(n>>16), uint8(n>>8), uint8(n))
	}
	return im
}
