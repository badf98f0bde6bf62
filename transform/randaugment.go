package transform

import (
	"math"
	"strconv"
)

// RandAugment applies drawn operators of torchvision's table, one after the other, at one magnitude.
type RandAugment struct {
	NumOps        int      // default 2
	Magnitude     int      // default 9, below Bins
	Bins          int      // default 31: how finely magnitudes are divided
	Interpolation Filter   // of shears and rotations: Nearest (default) or Bilinear
	Fill          [3]uint8 // RGB of what they leave empty, default black
}

// The limits of a RandAugment: what it draws must end, and magnitudes must stay apart in float32.
const (
	maxAugmentOps  = 16
	maxAugmentBins = 1000
)

func readRandAugment(p *params) Op {
	o := RandAugment{
		NumOps:        p.integer("num_ops", 2, 0, maxAugmentOps),
		Magnitude:     p.integer("magnitude", 9, 0, maxAugmentBins-1),
		Bins:          p.integer("num_magnitude_bins", 31, 2, maxAugmentBins),
		Interpolation: Filter(p.choice("interpolation", string(Nearest), string(Bilinear))),
		Fill:          p.fill("fill"),
	}
	if o.Magnitude >= o.Bins {
		p.fail("magnitude", "%d must be below num_magnitude_bins %d", o.Magnitude, o.Bins)
	}
	return o
}

// Name implements [Op].
func (RandAugment) Name() string { return "RandAugment" }

func (o RandAugment) params() map[string]any {
	return map[string]any{
		"num_ops": o.NumOps, "magnitude": o.Magnitude, "num_magnitude_bins": o.Bins,
		"interpolation": o.Interpolation, "fill": fillParam(o.Fill),
	}
}

func (o RandAugment) shape(where string, in shape) (shape, error) {
	return in, checkFill(where, o.Fill, in)
}

func (RandAugment) identities() []string {
	return []string{drawIdentity, drawRandAugment, padIdentity, placementIdentity, colourIdentity, "affine/pil@1", "tone/pil@1"}
}

// augmentations are torchvision's, in its order. The signed ones are negated half of the time. A step without a kind
// has no effect.
var augmentations = [...]struct {
	name   string
	signed bool
	step   func(o RandAugment, w, h int, sign float64) Step
}{
	{"Identity", false, func(RandAugment, int, int, float64) Step { return Step{} }},
	{"ShearX", true, func(o RandAugment, _, _ int, sign float64) Step {
		return o.affine([6]float64{1, sign * o.level(0, 0.3), 0, 0, 1, 0})
	}},
	{"ShearY", true, func(o RandAugment, _, _ int, sign float64) Step {
		return o.affine([6]float64{1, 0, 0, sign * o.level(0, 0.3), 1, 0})
	}},
	{"TranslateX", true, func(o RandAugment, w, h int, sign float64) Step {
		return o.translate(-o.shift(w, sign), 0, w, h)
	}},
	{"TranslateY", true, func(o RandAugment, w, h int, sign float64) Step {
		return o.translate(0, -o.shift(h, sign), w, h)
	}},
	{"Rotate", true, func(o RandAugment, w, h int, sign float64) Step {
		return o.affine(rotation(sign*o.level(0, 30), w, h))
	}},
	{"Brightness", true, func(o RandAugment, _, _ int, sign float64) Step { return o.enhance(StepBrightness, sign) }},
	{"Color", true, func(o RandAugment, _, _ int, sign float64) Step { return o.enhance(StepSaturation, sign) }},
	{"Contrast", true, func(o RandAugment, _, _ int, sign float64) Step { return o.enhance(StepContrast, sign) }},
	{"Sharpness", true, func(o RandAugment, _, _ int, sign float64) Step { return o.enhance(StepSharpness, sign) }},
	{"Posterize", false, func(o RandAugment, _, _ int, _ float64) Step { return o.posterize() }},
	{"Solarize", false, func(o RandAugment, _, _ int, _ float64) Step {
		return Step{Kind: StepSolarize, Level: int(math.Ceil(255 * o.level(1, 0)))}
	}},
	{"AutoContrast", false, func(RandAugment, int, int, float64) Step { return Step{Kind: StepAutoContrast} }},
	{"Equalize", false, func(RandAugment, int, int, float64) Step { return Step{Kind: StepEqualize} }},
}

func (o RandAugment) resolve(r *resolver, i int, key Key) error {
	s := newStream(key.Op(uint32(i)))
	for range o.NumOps {
		a := augmentations[s.below(len(augmentations))]
		sign := 1.0
		if a.signed && s.uniform() <= 0.5 {
			sign = -1
		}
		step := a.step(o, r.w, r.h, sign)
		if step.Kind != "" && (step.Kind != StepSaturation || r.channels != 1) {
			r.add(i, step)
		}
	}
	return nil
}

// level returns the magnitude on the scale from lo to hi: torch.linspace(lo, hi, Bins)[Magnitude], counted from the
// nearer end in float32.
func (o RandAugment) level(lo, hi float32) float64 {
	step := (hi - lo) / float32(o.Bins-1)
	if o.Magnitude < o.Bins/2 {
		return float64(lo + float32(step*float32(o.Magnitude)))
	}
	return float64(hi - float32(step*float32(o.Bins-1-o.Magnitude)))
}

// shift returns how many pixels a side of n is moved by.
func (o RandAugment) shift(n int, sign float64) int {
	return int(sign * o.level(0, float32(float64(150.0/331.0*float64(n)))))
}

// translate is torchvision's affine with whole steps, which takes a box of the same size beside the picture.
func (o RandAugment) translate(x, y, w, h int) Step {
	if x == 0 && y == 0 {
		return Step{}
	}
	return Step{Kind: StepCrop, Box: Box{X: x, Y: y, W: w, H: h}, Pad: PadConstant, Fill: o.Fill}
}

func (o RandAugment) affine(m [6]float64) Step {
	if m == [6]float64{1, 0, 0, 0, 1, 0} {
		return Step{}
	}
	return Step{Kind: StepAffine, Matrix: m, Filter: o.Interpolation, Fill: o.Fill}
}

func (o RandAugment) enhance(kind StepKind, sign float64) Step {
	amount := sign * o.level(0, 0.9)
	if amount == 0 {
		return Step{}
	}
	return Step{Kind: kind, Factor: 1 + amount}
}

func (o RandAugment) posterize() Step {
	lost := float32(o.Magnitude) / float32(float64(o.Bins-1)/4)
	if bits := int(math.RoundToEven(float64(8 - lost))); bits < 8 {
		return Step{Kind: StepPosterize, Level: bits}
	}
	return Step{}
}

// rotation returns the matrix of Pillow's Image.rotate about the middle of a w x h picture, counter-clockwise by
// degrees, which it takes modulo 360 before it computes.
func rotation(degrees float64, w, h int) [6]float64 {
	if degrees == 0 {
		return [6]float64{1, 0, 0, 0, 1, 0}
	}
	if degrees < 0 {
		degrees += 360
	}
	angle := -float64(degrees * (math.Pi / 180))
	c, s := round15(cosine(angle)), round15(sine(angle))
	x, y := float64(w)/2, float64(h)/2
	return [6]float64{
		c, s, float64(c*-x) + float64(s*-y) + x,
		-s, c, float64(-s*-x) + float64(c*-y) + y,
	}
}

// round15 rounds to 15 decimals as Python: the decimal nearest to the exact value, then the float64 nearest to that.
func round15(x float64) float64 {
	var b [32]byte
	v, _ := strconv.ParseFloat(string(strconv.AppendFloat(b[:0], x, 'f', 15, 64)), 64)
	return v
}
