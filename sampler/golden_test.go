package sampler

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// A goldenCase is one line of testdata/golden.json: a spec, and what it gives.
type goldenCase struct {
	Canonical     string
	Digest        string
	StepsPerEpoch int64 `json:"steps_per_epoch"`
	Run           *int64
	Lengths       [][]uint64 // by source and sample, of orders that group by length
	Steps         []struct {
		Step  int64
		Epoch int64
		Refs  [][3]uint64 // source, source epoch, sample
	}
	Substitutes []struct {
		Step     int64
		Position int64
		Samples  []uint64 // of attempts 1, 2 and 3
	}
}

func readGolden(t *testing.T) ([]byte, []goldenCase) {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	return data, cases
}

// The order is a promise across versions: a change that breaks this test breaks running jobs.
func TestGoldenVectors(t *testing.T) {
	_, cases := readGolden(t)
	for _, c := range cases {
		t.Run(c.Digest[:8], func(t *testing.T) { c.check(t) })
	}
}

func (c *goldenCase) check(t *testing.T) {
	s := mustParse(t, c.Canonical)
	if got := string(s.Spec().Canonical()); got != c.Canonical || fmt.Sprintf("%x", s.Spec().Digest()) != c.Digest {
		t.Errorf("canonical form %s, want %s", got, c.Canonical)
	}
	if got := s.StepsPerEpoch(); got != c.StepsPerEpoch {
		t.Errorf("%d steps an epoch, want %d", got, c.StepsPerEpoch)
	}
	if steps, ends := s.Steps(); ends != (c.Run != nil) || ends && steps != *c.Run {
		t.Errorf("%d steps, ends %v, want %v", steps, ends, c.Run)
	}
	for _, g := range c.Steps {
		var got [][3]uint64
		for _, r := range c.order(t, s, g.Step).Step(g.Step, nil) {
			got = append(got, [3]uint64{uint64(r.Source), r.Epoch, r.Sample})
		}
		if !slices.Equal(got, g.Refs) || s.Epoch(g.Step) != g.Epoch {
			t.Errorf("%s: step %d\ngives %v\nwant  %v", c.Canonical, g.Step, got, g.Refs)
		}
	}
	for _, g := range c.Substitutes {
		order := c.order(t, s, g.Step)
		ref := order.Step(g.Step, nil)[g.Position]
		for i, want := range g.Samples {
			if got := order.Substitute(g.Step, ref, i+1).Sample; got != want {
				t.Errorf("substitute %d of step %d position %d is %d, want %d", i+1, g.Step, g.Position, got, want)
			}
		}
	}
}

// stepOrder is a Sampler, or a Grouped.
type stepOrder interface {
	Step(step int64, dst []SampleRef) []SampleRef
	Substitute(step int64, ref SampleRef, attempt int) SampleRef
}

// order is what gives the samples of a step.
func (c *goldenCase) order(t *testing.T, s *Sampler, step int64) stepOrder {
	if c.Lengths == nil {
		return s
	}
	g, err := s.Group(step, func(ref SampleRef) (uint64, error) { return c.Lengths[ref.Source][ref.Sample], nil })
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The vectors come from another implementation, in another language, of the published description.
func TestGoldenVectorsComeFromTheDescription(t *testing.T) {
	python, err := findPython()
	if err != nil {
		testdata.Missing(t, "the golden vectors are not recomputed: no Python: %v", err)
	}
	want, _ := readGolden(t)
	got, err := exec.Command(python, "testdata/order.py").Output()
	if err != nil {
		t.Fatalf("testdata/order.py: %v", err)
	}
	if string(got) != string(want) {
		t.Error("testdata/order.py does not give testdata/golden.json")
	}
}

// docs/sampler.md shows some of the vectors.
func TestTheDocumentShowsTheVectors(t *testing.T) {
	doc, err := os.ReadFile("../docs/sampler.md")
	if err != nil {
		t.Fatal(err)
	}
	_, cases := readGolden(t)
	shown := 0
	for _, c := range cases {
		spec := mustParse(t, c.Canonical).Spec()
		if spec.Version != 1 || spec.Seed != 7 || spec.GlobalBatch != 8 || spec.Sources[0].Name != "" {
			continue
		}
		var samples []uint64
		for _, ref := range c.Steps[0].Refs {
			samples = append(samples, ref[2])
		}
		row := strings.Trim(fmt.Sprint(samples), "[]")
		if !strings.Contains(string(doc), "| "+row+" |") {
			t.Errorf("docs/sampler.md lacks %s of %s", row, c.Canonical)
		}
		shown++
	}
	if shown != 4 {
		t.Errorf("%d vectors are to be shown, want 4", shown)
	}
}

func findPython() (string, error) {
	venv, err := filepath.Abs("../.venv/bin/python")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(venv); err == nil {
		return venv, nil
	}
	return exec.LookPath("python3")
}
