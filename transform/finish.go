package transform

import (
	"encoding/binary"
	"fmt"
	"math"
)

// tailOp is an operator that only changes values, one by one.
type tailOp interface {
	Op
	// settle fills in what depends on the dtype that arrives, and returns the dtype that leaves.
	settle(where string, in Dtype) (Op, Dtype, error)
	// value computes one element of channel c; x is exact in dtype in.
	value(x float32, in Dtype, c int) float32
}

func (o Normalize) settle(where string, in Dtype) (Op, Dtype, error) {
	if in != Uint8 {
		if o.Scale != "" && o.Scale != "none" {
			return o, in, planError(where, "scale: %q, but the values are %s already; leave it out", o.Scale, in)
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

func (o ToDtype) settle(where string, in Dtype) (Op, Dtype, error) {
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

// Finisher applies a plan's tail to uint8 pixels by table, at the consumer. It is immutable and safe
// for concurrent use.
type Finisher struct {
	dtype    Dtype
	channels int
	table    []uint32 // element of value v of channel c at c*256 + v, in the dtype's bits
}

// NewFinisher builds the tables of rest, the second half of [Plan.Cut], for pixels of the given number of
// channels. An empty rest copies.
func NewFinisher(rest *Plan, channels int) (*Finisher, error) {
	if rest.cut != 0 {
		return nil, planError("NewFinisher", "the plan decodes; give the second half of Plan.Cut")
	}
	if channels < 1 || channels > 4 {
		return nil, planError("NewFinisher", "%d channels; 1 to 4 are possible", channels)
	}
	f := &Finisher{dtype: rest.dtype(), channels: channels, table: make([]uint32, 256*channels)}
	for i := range f.table {
		x, dtype := float32(i%256), Uint8
		for j, op := range rest.ops {
			if n, ok := op.(Normalize); ok && len(n.Mean) > 1 && len(n.Mean) != channels {
				return nil, planError(place(j, op), "%d means for %d channels", len(n.Mean), channels)
			}
			t := op.(tailOp)
			x = t.value(x, dtype, i/256)
			_, dtype, _ = t.settle("", dtype)
		}
		f.table[i] = elementBits(x, dtype)
	}
	return f, nil
}

func elementBits(x float32, d Dtype) uint32 {
	switch d {
	case Uint8:
		return uint32(x)
	case Float16:
		return uint32(toHalf(x))
	case BFloat16:
		return uint32(toBFloat(x))
	}
	return math.Float32bits(x)
}

// Spec returns the output of Apply for pixels of spec in.
func (f *Finisher) Spec(in TensorSpec) TensorSpec {
	return TensorSpec{Dtype: f.dtype, Shape: append([]int(nil), in.Shape...)}
}

// Apply reads whole uint8 HWC pixels from src and writes little-endian elements of the output dtype, HWC, to
// dst, which must hold exactly as many elements as src has bytes; other lengths are a mistake of the caller
// and panic. dst and src must not overlap. It allocates nothing.
func (f *Finisher) Apply(dst, src []byte) {
	if len(dst) != len(src)*f.dtype.Size() || len(src)%f.channels != 0 {
		panic(fmt.Sprintf("transform.Finisher.Apply: %d bytes of pixels of %d channels into %d bytes of %s", len(src), f.channels, len(dst), f.dtype))
	}
	switch {
	case f.dtype == Uint8:
		copy(dst, src)
	case f.dtype == Float32 && f.channels == 3:
		f.applyRGB32(dst, src)
	case f.dtype == Float32:
		for i, v := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], f.table[i%f.channels<<8|int(v)])
		}
	case f.channels == 3:
		f.applyRGB16(dst, src)
	default:
		for i, v := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(f.table[i%f.channels<<8|int(v)]))
		}
	}
}

func (f *Finisher) rgb() (r, g, b *[256]uint32) {
	return (*[256]uint32)(f.table[:256]), (*[256]uint32)(f.table[256:512]), (*[256]uint32)(f.table[512:])
}

func (f *Finisher) applyRGB32(dst, src []byte) {
	r, g, b := f.rgb()
	for len(src) >= 3 && len(dst) >= 12 {
		binary.LittleEndian.PutUint32(dst, r[src[0]])
		binary.LittleEndian.PutUint32(dst[4:], g[src[1]])
		binary.LittleEndian.PutUint32(dst[8:], b[src[2]])
		src, dst = src[3:], dst[12:]
	}
}

func (f *Finisher) applyRGB16(dst, src []byte) {
	r, g, b := f.rgb()
	for len(src) >= 3 && len(dst) >= 6 {
		binary.LittleEndian.PutUint16(dst, uint16(r[src[0]]))
		binary.LittleEndian.PutUint16(dst[2:], uint16(g[src[1]]))
		binary.LittleEndian.PutUint16(dst[4:], uint16(b[src[2]]))
		src, dst = src[3:], dst[6:]
	}
}
