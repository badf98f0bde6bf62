package transform

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

type drawsFile struct {
	Streams []struct {
		Seed      uint64
		Source    string
		Epoch     uint64
		Sample    uint64
		Index     uint32
		Key       string
		Words     []string
		Uniform   []string
		Below1000 []int
	}
	Functions []struct{ X, Log, Exp string }
	Angles    []struct{ X, Sin, Cos string }
	Crops     []struct {
		Width, Height int
		Scale, Ratio  [2]float64
		Boxes         [][4]int
	}
	Flips   []bool
	Applied [][2]bool
	Resizes []struct {
		In   [2]int
		Size int
		Max  int
		Out  []int
	}
	Centres [][3]int
}

func readGolden(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

func hexFloat(t *testing.T, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestStreamsEqualTheReference(t *testing.T) {
	var g drawsFile
	readGolden(t, "draws.json", &g)
	for _, want := range g.Streams {
		key := Key{Seed: want.Seed, Source: want.Source, Epoch: want.Epoch, Sample: want.Sample}.Op(want.Index)
		if got := hex.EncodeToString(key[:]); got != want.Key {
			t.Errorf("key of %+v: %s, want %s", want, got, want.Key)
		}
		words := newStream(key)
		for i, w := range want.Words {
			if got := fmt.Sprintf("%016x", words.word()); got != w {
				t.Errorf("%s: word %d is %s, want %s", want.Key, i, got, w)
			}
		}
		s := newStream(key)
		for i, u := range want.Uniform {
			if got := s.uniform(); got != hexFloat(t, u) {
				t.Errorf("%s: uniform %d is %x, want %s", want.Key, i, got, u)
			}
		}
		for i, n := range want.Below1000 {
			if got := s.below(1000); got != n {
				t.Errorf("%s: below(1000) %d is %d, want %d", want.Key, i, got, n)
			}
		}
	}
}

func TestElementaryFunctionsEqualTheReference(t *testing.T) {
	var g drawsFile
	readGolden(t, "draws.json", &g)
	for _, f := range g.Functions {
		x := hexFloat(t, f.X)
		if got, want := naturalLog(x), hexFloat(t, f.Log); got != want {
			t.Errorf("log(%v) = %x, want %x", x, got, want)
		}
		if got, want := Exp(naturalLog(x)), hexFloat(t, f.Exp); got != want {
			t.Errorf("exp(log(%v)) = %x, want %x", x, got, want)
		}
	}
	for _, a := range g.Angles {
		x := hexFloat(t, a.X)
		if got, want := sine(x), hexFloat(t, a.Sin); got != want {
			t.Errorf("sin(%v) = %x, want %x", x, got, want)
		}
		if got, want := cosine(x), hexFloat(t, a.Cos); got != want {
			t.Errorf("cos(%v) = %x, want %x", x, got, want)
		}
	}
}

func TestCropsAndFlipsEqualTheReference(t *testing.T) {
	var g drawsFile
	readGolden(t, "draws.json", &g)
	for _, c := range g.Crops {
		op := RandomResizedCrop{Height: 224, Width: 224, Scale: c.Scale, Ratio: c.Ratio}
		for sample, want := range c.Boxes {
			key := Key{Seed: 7, Epoch: 1, Sample: uint64(sample)}
			b := op.draw(c.Width, c.Height, newStream(key.Op(1)))
			if got := [4]int{b.X, b.Y, b.W, b.H}; got != want {
				t.Errorf("%dx%d scale %v ratio %v sample %d: box %v, want %v", c.Width, c.Height, c.Scale, c.Ratio, sample, got, want)
			}
		}
	}
	for sample, want := range g.Flips {
		if got := newStream(Key{Seed: 7, Sample: uint64(sample)}.Op(2)).uniform() < 0.5; got != want {
			t.Errorf("flip of sample %d: %v, want %v", sample, got, want)
		}
	}
}

// A RandomApply of two flips at place 2: drawn by keys of their own, and none without it.
func TestAppliedFlipsEqualTheReference(t *testing.T) {
	var g drawsFile
	readGolden(t, "draws.json", &g)
	plan := mustParse(t, `{"op":"DecodeImage"},{"op":"Pad","padding":0},{"op":"RandomApply","transforms":[{"op":"RandomHorizontalFlip"},{"op":"RandomVerticalFlip"}]}`)
	for sample, want := range g.Applied {
		r, err := plan.Resolve(3, 2, Key{Seed: 7, Sample: uint64(sample)})
		if err != nil {
			t.Fatal(err)
		}
		var got [2]bool
		for _, s := range r.Steps {
			got[0], got[1] = got[0] || s.Kind == StepFlip, got[1] || s.Kind == StepFlipVertical
		}
		if got != want {
			t.Errorf("sample %d: %v, want %v", sample, got, want)
		}
	}
	if len(g.Applied) != 64 {
		t.Errorf("%d samples", len(g.Applied))
	}
}

func TestSizesAndCentresEqualTheReference(t *testing.T) {
	var g drawsFile
	readGolden(t, "draws.json", &g)
	for _, c := range g.Resizes {
		w, h, allowed := Resize{Size: []int{c.Size}, MaxSize: c.Max}.size(c.In[0], c.In[1])
		if got := []int{w, h}; allowed && !slices.Equal(got, c.Out) || allowed != (c.Out != nil) {
			t.Errorf("%+v: got %v, %v", c, got, allowed)
		}
	}
	for _, c := range g.Centres {
		if got := centre(c[0], c[1]); got != c[2] {
			t.Errorf("%d in the centre of %d begins at %d, want %d", c[1], c[0], got, c[2])
		}
	}
}

type tablesFile struct {
	Torch, Torchvision string
	Tables             []struct {
		Ops         json.RawMessage
		Dtype       Dtype
		SHA256, Hex string
	}
}

func TestTablesEqualTorchvision(t *testing.T) {
	var g tablesFile
	readGolden(t, "tables.json", &g)
	var src []byte
	for v := range 256 {
		src = append(src, byte(v), byte(v), byte(v))
	}
	for _, want := range g.Tables {
		ops := append([]byte(`[{"op":"DecodeImage"},`), bytes.TrimLeft(want.Ops, "[ \n")...)
		plan, err := ParsePlan([]byte(`{"plan":1,"ops":` + string(ops) + `}`))
		if err != nil {
			t.Fatalf("%s: %v", want.Ops, err)
		}
		_, rest := plan.Cut()
		f, err := NewFinisher(rest, 3)
		if err != nil {
			t.Fatal(err)
		}
		spec := f.Spec(TensorSpec{Dtype: Uint8, Shape: []int{1, 256, 3}})
		dst := make([]byte, spec.Bytes())
		f.Apply(dst, src)
		sum := sha256.Sum256(dst)
		if spec.Dtype != want.Dtype || hex.EncodeToString(sum[:]) != want.SHA256 {
			t.Errorf("%s: %s, last bytes %x; torch %s has %s, %s", want.Ops, spec.Dtype, dst[len(dst)-24:], g.Torch, want.Dtype, want.Hex[48:])
		}
	}
}

// python finds an interpreter of which probe (Python statements) is true.
func python(t *testing.T, probe string) string {
	t.Helper()
	for _, p := range []string{"../.venv/bin/python", "python3"} {
		if exec.Command(p, "-c", probe).Run() == nil {
			return p
		}
	}
	testdata.Missing(t, "a Python interpreter that runs %q: run make setup", probe)
	return ""
}

// TestGoldenFilesAreTheReferences recomputes the committed files by the Python program that they came from.
func TestGoldenFilesAreTheReferences(t *testing.T) {
	for _, c := range []struct{ name, probe string }{{"draws", "pass"}, {"tables", "import torchvision"}, {"torchvision", "import torchvision"}} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "draws" {
				testdata.Soak(t) // importing torchvision takes 20 s
			}
			out, err := exec.Command(python(t, c.probe), "testdata/reference.py", c.name).Output()
			if err != nil {
				t.Fatal(err)
			}
			var got, want map[string]json.RawMessage
			readGolden(t, c.name+".json", &want)
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			for key := range want {
				if key != "torch" && key != "torchvision" && key != "pillow" && !bytes.Equal(got[key], want[key]) {
					t.Errorf("testdata/%s.json: %s differs from what reference.py computes", c.name, key)
				}
			}
		})
	}
}
