package transform

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
)

// distributionsFile is how torchvision draws with torch's own generator (testdata/distributions.py).
type distributionsFile struct {
	Cases []struct {
		Op            json.RawMessage
		Width, Height int
		Features      map[string][][2]float64 // value, share of torchvision's draws not above it
	}
}

// What is drawn here is distributed as what torchvision draws: of 4000 draws no share is further off than chance allows
// once in some 10,000 comparisons (Kolmogorov and Smirnov). The keys are fixed, so this passes always or never.
func TestDrawsAreDistributedAsTorchvisions(t *testing.T) {
	const draws, furthest = 4000, 0.036
	var g distributionsFile
	readGolden(t, "distributions.json", &g)
	for _, c := range g.Cases {
		plan := mustParse(t, `{"op":"DecodeImage"},`+string(c.Op))
		values := map[string][]float64{}
		for sample := range uint64(draws) {
			r, err := plan.Resolve(c.Width, c.Height, Key{Seed: 2, Epoch: 3, Sample: sample})
			if err != nil {
				t.Fatal(err)
			}
			for name, v := range drawnFeatures(r.Steps, plan.ops[1].Name(), c.Width, c.Height) {
				values[name] = append(values[name], v)
			}
		}
		for name, points := range c.Features {
			if off := furthestOff(values[name], points); len(values[name]) < draws/10 || off > furthest {
				t.Errorf("%s of %d x %d: the distribution of %s is %.4f off torchvision's (%d draws)", c.Op, c.Width, c.Height, name, off, len(values[name]))
			}
		}
	}
}

// furthestOff returns the largest difference of shares.
func furthestOff(values []float64, points [][2]float64) (off float64) {
	for _, p := range points {
		n := 0
		for _, v := range values {
			if v <= p[0]+1e-7*math.Abs(p[0]) {
				n++
			}
		}
		off = max(off, math.Abs(float64(n)/float64(len(values))-p[1]))
	}
	return off
}

// drawnFeatures are what testdata/distributions.py calls the same.
func drawnFeatures(steps []Step, op string, w, h int) map[string]float64 {
	if op == "ColorJitter" {
		all := map[string]float64{}
		for i, s := range steps {
			all[fmt.Sprint("place of ", s.Kind)] = float64(i)
			all[string(s.Kind)] = s.Factor
			if s.Kind == StepHue {
				all["hue"] = float64(int8(s.Level))
			}
		}
		return all
	}
	box := Box{W: w, H: h} // a crop of everything is left out
	if op == "RandomErasing" {
		box = Box{}
	}
	if len(steps) > 0 && steps[0].Kind != StepResize {
		box = steps[0].Box
	}
	if box.W == 0 {
		return map[string]float64{"found": 0}
	}
	return map[string]float64{
		"area": float64(box.W*box.H) / float64(w*h), "aspect": math.Log(float64(box.W) / float64(box.H)),
		"x": float64(box.X) / float64(max(w-box.W, 1)), "y": float64(box.Y) / float64(max(h-box.H, 1)), "found": 1,
	}
}
