package transform

import (
	"encoding/binary"
	"math"
)

// RandomErasing overwrites a drawn box with probability P. Before Normalize and ToDtype it works on uint8 pixels; behind
// one of them on the elements as they then are, at the consumer ([Finisher.Erase]).
type RandomErasing struct {
	P     float64    // default 0.5
	Scale [2]float64 // share of the area, default 0.02 to 0.33
	Ratio [2]float64 // height / width, log-uniform, default 0.3 to 3.3
	Value []float64  // one number or one a channel, default 0; on uint8 whole, from 0 to 255
	Noise bool       // default false; true: random bytes instead of Value, on uint8 only
}

func readRandomErasing(p *params) Op {
	o := RandomErasing{
		P:     p.float("p", 0.5, 0, 1),
		Scale: p.interval("scale", [2]float64{0.02, 0.33}, 0, 1),
		Ratio: p.interval("ratio", [2]float64{0.3, 3.3}, 1./maxSize, maxSize),
		Value: []float64{0},
	}
	v, given := p.take("value")
	if o.Noise = v == "random"; given && !o.Noise {
		o.Value = p.erasingValue(v)
	}
	return o
}

func (p *params) erasingValue(v any) []float64 {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	_, word := v.(string)
	if word || len(list) != 1 && len(list) != colours {
		p.fail("value", `%v is not a number, a list of %d numbers (one a channel), or "random"`, show(v), colours)
		return []float64{0}
	}
	got := make([]float64, len(list))
	for i, e := range list {
		got[i] = p.between("value", e, -math.MaxFloat32, math.MaxFloat32)
	}
	return got
}

// Name implements [Op].
func (RandomErasing) Name() string { return "RandomErasing" }

func (o RandomErasing) params() map[string]any {
	m := map[string]any{"p": o.P, "scale": o.Scale, "ratio": o.Ratio, "value": o.Value}
	switch {
	case o.Noise:
		m["value"] = "random"
	case len(o.Value) == 1:
		m["value"] = o.Value[0]
	}
	return m
}

func (o RandomErasing) shape(where string, in shape) (shape, error) {
	return in, o.check(where, Uint8, in.channels)
}

func (o RandomErasing) settle(where string, in Dtype, channels int) (Op, Dtype, error) {
	if o.Noise {
		return o, in, planError(where, `value: "random" makes bytes; put RandomErasing before Normalize and ToDtype, or give numbers`)
	}
	return o, in, o.check(where, in, channels)
}

func (o RandomErasing) check(where string, in Dtype, channels int) error {
	if len(o.Value) != 1 && len(o.Value) != channels {
		return planError(where, "value: %d numbers for %d channels; give one a channel, or one for all", len(o.Value), channels)
	}
	for _, v := range o.Value {
		if in == Uint8 && (v != math.Trunc(v) || v < 0 || v > 255) {
			return planError(where, "value: %v is not a whole number from 0 to 255, and the pixels are uint8 here; behind Normalize or ToDtype it may be", v)
		}
	}
	return nil
}

// value implements tailOp: outside the box nothing changes.
func (RandomErasing) value(x float32, _ Dtype, _ int) float32 { return x }

func (o RandomErasing) resolve(r *resolver, i int, key Key) error {
	s := newStream(key.Op(uint32(i)))
	b, erases := o.draw(r.w, r.h, s)
	if !erases {
		return nil
	}
	step := Step{Kind: StepErase, Box: b, Noise: o.Noise}
	if o.Noise {
		binary.LittleEndian.PutUint64(step.Key[:8], s.word())
		binary.LittleEndian.PutUint64(step.Key[8:], s.word())
	}
	for c := range step.Fill {
		step.Fill[c] = uint8(o.Value[c%len(o.Value)])
	}
	r.add(i, step)
	if o.Noise && r.channels == 1 { // the noise has colours
		r.add(i, Step{Kind: StepGrayscale})
	}
	return nil
}

// draw returns the box to erase in a w x h picture: whether at all, then ten tries of (area, ratio), then the place of
// the first that is smaller than the picture both ways (row before column). None or an empty one is false.
func (o RandomErasing) draw(w, h int, s *stream) (Box, bool) {
	if s.uniform() >= o.P {
		return Box{}, false
	}
	area := float64(w * h)
	lo, hi := naturalLog(o.Ratio[0]), naturalLog(o.Ratio[1])
	for range 10 {
		target := area * s.between(o.Scale[0], o.Scale[1])
		ratio := Exp(s.between(lo, hi))
		bh := math.RoundToEven(math.Sqrt(float64(target * ratio)))
		bw := math.RoundToEven(math.Sqrt(float64(target / ratio)))
		if bw >= float64(w) || bh >= float64(h) {
			continue
		}
		b := Box{W: int(bw), H: int(bh)}
		b.Y = s.below(h - b.H + 1)
		b.X = s.below(w - b.W + 1)
		return b, b.W > 0 && b.H > 0
	}
	return Box{}, false
}

func (o RandomErasing) identities() []string {
	ids := []string{drawIdentity, drawRandomErasing, "erase/ours@1"}
	if o.Noise {
		ids = append(ids, "grayscale/pil@1") // of a picture with one channel
	}
	return ids
}
