package transform

import "math"

// tailOp is an operator that works on elements of any dtype: it runs at the consumer.
type tailOp interface {
	Op
	// settle fills in what depends on the dtype that arrives, and returns the dtype that leaves. An error names where
	// if a parameter does not fit the dtype or the channels.
	settle(where string, in Dtype, channels int) (Op, Dtype, error)
	// value computes one element of channel c; x is exact in dtype in.
	value(x float32, in Dtype, c int) float32
}

// Normalize computes (x - Mean) / Std per channel in the dtype it meets (uint8 becomes float32).
// Scale says how a uint8 input becomes x: "divide" (default: x/255, as torchvision's ToTensor),
// "multiply" (x * float32(1/255), as ToDtype(scale=True)) or "none" (x as it is). The first two
// differ in the last bit of about half of all values. After a ToDtype only "none" is possible.
type Normalize struct {
	Mean, Std []float64
	Scale     string
}

// ToDtype casts. With Scale a uint8 input is multiplied by 1/255, as torchvision does.
type ToDtype struct {
	Dtype Dtype
	Scale bool // default false
}

func readNormalize(p *params) Op {
	n := Normalize{Mean: p.floats("mean"), Std: p.floats("std")}
	for _, s := range n.Std {
		if float32(s) == 0 {
			p.fail("std", "is zero, and nothing can be divided by it")
		}
	}
	if p.given("scale") {
		n.Scale = p.choice("scale", "divide", "multiply", "none")
	}
	return n
}

func readToDtype(p *params) Op {
	if !p.given("dtype") {
		p.fail("dtype", "is missing; use float32, float16, bfloat16 or uint8")
	}
	dtype := p.choice("dtype", string(Float32), string(Float16), string(BFloat16), string(Uint8))
	return ToDtype{Dtype: Dtype(dtype), Scale: p.boolean("scale", false)}
}

// Name implements [Op].
func (Normalize) Name() string { return "Normalize" }

// Name implements [Op].
func (ToDtype) Name() string { return "ToDtype" }

func (o Normalize) params() map[string]any {
	return map[string]any{"mean": o.Mean, "std": o.Std, "scale": o.Scale}
}

func (o ToDtype) params() map[string]any {
	return map[string]any{"dtype": o.Dtype, "scale": o.Scale}
}

func (o Normalize) settle(where string, in Dtype, channels int) (Op, Dtype, error) {
	if n := max(len(o.Mean), len(o.Std)); n != 1 && n != channels {
		return o, in, planError(where, "mean, std: %d numbers for %d channels; give one a channel, or one for all", n, channels)
	}
	if in != Uint8 {
		if o.Scale != "" && o.Scale != "none" {
			return o, in, planError(where, "scale: %q, but the values are %s already; use \"none\", or leave it out", o.Scale, in)
		}
		o.Scale = "none"
		return o, in, nil
	}
	if o.Scale == "" {
		o.Scale = "divide"
	}
	return o, Float32, nil
}

// value rounds each step on its own: the conversions keep compilers from fusing them.
func (o Normalize) value(x float32, in Dtype, c int) float32 {
	if in == Uint8 {
		in = Float32
		switch o.Scale {
		case "divide":
			x = float32(x / 255)
		case "multiply":
			x = float32(x * byteScale)
		}
	}
	mean := round(float32(o.Mean[c%len(o.Mean)]), in)
	std := round(float32(o.Std[c%len(o.Std)]), in)
	return round(round(x-mean, in)/std, in)
}

// byteScale is the float32 nearest to 1/255, by which ToDtype(scale=True) multiplies.
const byteScale float32 = 1. / 255

func (o ToDtype) settle(where string, in Dtype, _ int) (Op, Dtype, error) {
	if o.Dtype == Uint8 && in != Uint8 {
		return o, in, planError(where, "dtype: %s back to uint8 is not offered", in)
	}
	return o, o.Dtype, nil
}

func (o ToDtype) value(x float32, in Dtype, _ int) float32 {
	if o.Scale && in == Uint8 && o.Dtype != Uint8 {
		x = float32(x * byteScale)
	}
	return round(x, o.Dtype)
}

// round returns the value of dtype d nearest to x, ties to even.
func round(x float32, d Dtype) float32 {
	switch d {
	case Float16:
		return fromHalf(toHalf(x))
	case BFloat16:
		return math.Float32frombits(uint32(toBFloat(x)) << 16)
	}
	return x
}
