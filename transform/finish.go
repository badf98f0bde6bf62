package transform

import (
	"encoding/binary"
	"fmt"
	"math"
)

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
	f := &Finisher{dtype: rest.dtype, channels: channels, table: make([]uint32, 256*channels)}
	for j, op := range rest.ops {
		if _, _, err := op.(tailOp).settle(place(rest.first+j, op), rest.arrives[j], channels); err != nil {
			return nil, err
		}
	}
	for i := range f.table {
		f.table[i] = elementBits(rest.carry(float32(i%256), i/256, 0), f.dtype)
	}
	return f, nil
}

// carry takes an element of channel c through the operators of a tail from index on.
func (p *Plan) carry(x float32, c, from int) float32 {
	for i := from; i < len(p.ops); i++ {
		x = p.ops[i].(tailOp).value(x, p.arrives[i], c)
	}
	return x
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
