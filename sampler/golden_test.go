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
)

type goldenCase struct {
	Canonical     string
	Digest        string
	StepsPerEpoch int64 `json:"steps_per_epoch"`
	Steps         []struct {
		Step    int64
		Epoch   int64
		Samples []uint64
	}
	Substitutes []struct {
		Step     int64
		Position int64
		Attempt  int
		Sample   uint64
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
		s := mustParse(t, c.Canonical)
		if got := string(s.Spec().Canonical()); got != c.Canonical {
			t.Errorf("canonical form %s, want %s", got, c.Canonical)
		}
		if got := fmt.Sprintf("%x", s.Spec().Digest()); got != c.Digest {
			t.Errorf("%s: digest %s, want %s", c.Canonical, got, c.Digest)
		}
		if got := s.StepsPerEpoch(); got != c.StepsPerEpoch {
			t.Errorf("%s: %d steps an epoch, want %d", c.Canonical, got, c.StepsPerEpoch)
		}
		for _, g := range c.Steps {
			refs := s.Step(g.Step, nil)
			if got := ids(refs); !slices.Equal(got, g.Samples) || s.Epoch(g.Step) != g.Epoch || refs[0].Epoch != uint64(g.Epoch) {
				t.Errorf("%s: step %d gives %v of epoch %d, want %v of %d", c.Canonical, g.Step, got, s.Epoch(g.Step), g.Samples, g.Epoch)
			}
		}
		for _, g := range c.Substitutes {
			ref := s.Step(g.Step, nil)[g.Position]
			if got := s.Substitute(g.Step, ref, g.Attempt).Sample; got != g.Sample {
				t.Errorf("%s: substitute %d of step %d position %d is %d, want %d", c.Canonical, g.Attempt, g.Step, g.Position, got, g.Sample)
			}
		}
	}
}

type goldenStream struct {
	Canonical     string
	Digest        string
	StepsPerEpoch int64 `json:"steps_per_epoch"`
	Run           *int64
	Steps         []struct {
		Step  int64
		Epoch int64
		Refs  [][3]uint64 // source, source epoch, sample
	}
	Substitutes []struct {
		Step     int64
		Position int64
		Attempt  int
		Sample   uint64
	}
}

// The same promise for mixtures and block shuffle.
func TestGoldenMixtures(t *testing.T) {
	data, err := os.ReadFile("testdata/mixtures.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenStream
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Digest[:8], func(t *testing.T) { checkGoldenStream(t, c) })
	}
}

func checkGoldenStream(t *testing.T, c goldenStream) {
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
		for _, r := range s.Step(g.Step, nil) {
			got = append(got, [3]uint64{uint64(r.Source), r.Epoch, r.Sample})
		}
		if !slices.Equal(got, g.Refs) || s.Epoch(g.Step) != g.Epoch {
			t.Errorf("%s: step %d\ngives %v\nwant  %v", c.Canonical, g.Step, got, g.Refs)
		}
	}
	for _, g := range c.Substitutes {
		ref := s.Step(g.Step, nil)[g.Position]
		if got := s.Substitute(g.Step, ref, g.Attempt).Sample; got != g.Sample {
			t.Errorf("substitute %d of step %d position %d is %d, want %d", g.Attempt, g.Step, g.Position, got, g.Sample)
		}
	}
}

// The vectors come from another implementation, in another language, of the published description.
func TestGoldenVectorsComeFromTheDescription(t *testing.T) {
	python, err := findPython()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no Python and CI=true: %v", err)
		}
		t.Skipf("SKIPPED, the golden vectors were not recomputed: no Python: %v", err)
	}
	for script, vectors := range map[string]string{"order.py": "golden.json", "mixtures.py": "mixtures.json"} {
		want, err := os.ReadFile("testdata/" + vectors)
		if err != nil {
			t.Fatal(err)
		}
		got, err := exec.Command(python, "testdata/"+script).Output()
		if err != nil {
			t.Fatalf("testdata/%s: %v", script, err)
		}
		if string(got) != string(want) {
			t.Errorf("testdata/%s does not give testdata/%s", script, vectors)
		}
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
		if spec.Seed != 7 || spec.GlobalBatch != 8 || spec.Sources[0].Name != "" {
			continue
		}
		row := strings.Trim(fmt.Sprint(c.Steps[0].Samples), "[]")
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
