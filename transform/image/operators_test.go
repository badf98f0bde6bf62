package image

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

// operatorPlans are what stands behind DecodeImage: every operator on pixels but the blur, which is our own.
var operatorPlans = []string{
	`{"op":"RandomResizedCrop","size":224},{"op":"RandomHorizontalFlip"},{"op":"ColorJitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1}`,
	`{"op":"RandomResizedCrop","size":176,"interpolation":"bicubic"},{"op":"RandAugment"},{"op":"RandomErasing","p":0.8,"value":"random"}`,
	`{"op":"Resize","size":200},{"op":"RandomCrop","size":224,"padding":16,"padding_mode":"reflect"},{"op":"RandomVerticalFlip"},{"op":"RandomGrayscale","p":0.5}`,
	`{"op":"Resize","size":[150,250],"interpolation":"lanczos"},{"op":"Pad","padding":[300,7,20,400],"padding_mode":"symmetric"},{"op":"RandAugment","num_ops":5,"magnitude":20,"interpolation":"bilinear","fill":[124,116,104]},{"op":"CenterCrop","size":300}`,
	`{"op":"ColorJitter","brightness":[0.2,4],"contrast":[0.2,4],"saturation":[0,6],"hue":0.5},{"op":"Resize","size":96},{"op":"RandomErasing","value":[1,200,30]}`,
	`{"op":"Grayscale"},{"op":"RandAugment","num_ops":3,"magnitude":30},{"op":"RandomResizedCrop","size":128},{"op":"RandomErasing","p":1,"value":"random"}`,
	`{"op":"Pad","padding":[0,40,60,3],"padding_mode":"edge"},{"op":"RandomCrop","size":[310,420],"pad_if_needed":true,"fill":[9,99,199]},{"op":"Grayscale","num_output_channels":3},{"op":"Resize","size":80,"version":1}`,
}

// operatorCase is a case of pixel/testdata/pillow.py.
type operatorCase struct {
	File     string           `json:"file"`
	Steps    []map[string]any `json:"steps"`
	Channels int              `json:"channels"`
}

// stepFields are all that any step may need, as pillow.py names them.
func stepFields(s transform.Step) map[string]any {
	return map[string]any{
		"kind": s.Kind, "box": [4]int{s.Box.X, s.Box.Y, s.Box.W, s.Box.H}, "width": s.Width, "height": s.Height, "version": s.Version,
		"filter": s.Filter, "pad": s.Pad, "fill": []int{int(s.Fill[0]), int(s.Fill[1]), int(s.Fill[2])}, "factor": s.Factor,
		"level": s.Level, "matrix": s.Matrix, "noise": s.Noise, "key": hex.EncodeToString(s.Key[:]),
	}
}

// operatorRuns collects results and what is to be asked of Pillow.
type operatorRuns struct {
	cases []operatorCase
	got   []string
	notes []string
	kinds map[transform.StepKind]int
}

// add runs a plan on a file and notes the steps that it drew.
func (r *operatorRuns) add(t *testing.T, path string, w, h int, ops string, key transform.Key) []transform.Step {
	t.Helper()
	plan, err := transform.ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"},` + ops + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := plan.Resolve(w, h, key)
	if err != nil {
		return nil // a picture that the plan does not fit
	}
	out := make([]byte, resolved.Output.Bytes())
	spec, err := Run(plan, key, testdata.Read(t, path), out, Limits{})
	if err != nil || spec.Bytes() != int64(len(out)) {
		t.Fatalf("%s, %s, %+v: %+v, %v", path, ops, key, spec, err)
	}
	c := operatorCase{File: testdata.Path(t, path), Steps: []map[string]any{}, Channels: spec.Shape[2]}
	for _, s := range resolved.Steps {
		c.Steps = append(c.Steps, stepFields(s))
		r.kinds[s.Kind]++
	}
	r.cases, r.got = append(r.cases, c), append(r.got, digestOf(out))
	r.notes = append(r.notes, fmt.Sprintf("%s, %s, %+v: %+v", path, ops, key, resolved.Steps))
	return resolved.Steps
}

// compare asks Pillow for the same steps, one after the other on whole pictures.
func (r *operatorRuns) compare(t *testing.T) {
	t.Helper()
	in, err := json.Marshal(r.cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python(t), "pixel/testdata/pillow.py")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Answers []string }
	if err := json.Unmarshal(out, &answer); err != nil || len(answer.Answers) != len(r.cases) {
		t.Fatalf("pillow.py answered %d of %d cases: %v", len(answer.Answers), len(r.cases), err)
	}
	for i, want := range answer.Answers {
		if r.got[i] != want {
			t.Errorf("other pixels than Pillow's: %s", r.notes[i])
		}
	}
}

// Every operator on real photographs, from the file to the tensor, with the parameters that it draws.
func TestOperatorsEqualPillowOnPhotographs(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	runs := operatorRuns{kinds: map[transform.StepKind]int{}}
	for i, e := range smallPhotographs(t) {
		key := transform.Key{Seed: rng.Uint64(), Epoch: rng.Uint64N(9), Sample: rng.Uint64N(1000)}
		runs.add(t, e.path, e.width, e.height, operatorPlans[i%len(operatorPlans)], key)
	}
	if len(runs.cases) < 2*len(operatorPlans) {
		t.Fatalf("only %d photographs", len(runs.cases))
	}
	for _, k := range []transform.StepKind{
		transform.StepCrop, transform.StepResize, transform.StepFlip, transform.StepFlipVertical, transform.StepErase, transform.StepGrayscale,
		transform.StepBrightness, transform.StepContrast, transform.StepSaturation, transform.StepHue,
	} {
		if runs.kinds[k] == 0 {
			t.Errorf("no plan drew %s", k)
		}
	}
	runs.compare(t)
}

// smallPhotographs are whole files of at most a megapixel, which a test on a busy machine can take.
func smallPhotographs(t *testing.T) (all []expected) {
	for _, e := range expectations(t) {
		if e.pillow == "ok" && exceptions[e.path] == "" && e.path != raising && (e.format == "JPEG" || e.format == "PNG" || e.format == "WEBP") &&
			e.width*e.height > 64<<10 && e.width*e.height < 1<<20 {
			all = append(all, e)
		}
	}
	return all
}

// Every operator of RandAugment alone, at magnitudes from nothing to the most, in both filters, of either sign.
func TestEachAugmentationEqualsPillow(t *testing.T) {
	photographs := smallPhotographs(t)
	slices.SortFunc(photographs, func(a, b expected) int { return a.width*a.height - b.width*b.height })
	runs := operatorRuns{kinds: map[transform.StepKind]int{}}
	seen := map[string]int{}
	for sample := range uint64(300) {
		e := photographs[sample%5]
		magnitude := []int{0, 1, 9, 15, 16, 30}[sample%6]
		ops := fmt.Sprintf(`{"op":"Resize","size":%d},{"op":"RandAugment","num_ops":1,"magnitude":%d,"interpolation":%q,"fill":[7,70,170]}`,
			80+sample%7, magnitude, []string{"nearest", "bilinear"}[sample%2])
		for _, s := range runs.add(t, e.path, e.width, e.height, ops, transform.Key{Seed: 4, Sample: sample}) {
			seen[fmt.Sprint(s.Kind, cmp.Compare(s.Matrix[1], 0), cmp.Compare(s.Matrix[3], 0), s.Factor < 1, cmp.Compare(s.Box.X, 0), cmp.Compare(s.Box.Y, 0))]++
		}
	}
	// Four enhancements, two shears, rotations and two moves, each of two signs; four tones; the resize.
	if want := 2*(4+2+1+2) + 4 + 1; len(seen) != want {
		t.Errorf("%d different changes, want %d: %v", len(seen), want, seen)
	}
	runs.compare(t)
}
