package transform

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Finisher applies a plan's tail to uint8 pixels at the consumer: Apply by table, then Erase. It is immutable and
// safe for concurrent use.
type Finisher struct {
	dtype    Dtype
	channels int
	table    []uint32 // element of value v of channel c at c*256 + v, in the dtype's bits
	erasers  []eraser
}

// eraser is a RandomErasing of the tail.
type eraser struct {
	op    RandomErasing
	index uint32 // in the whole plan
	pixel []byte // what it leaves, after the operators behind it
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
	for i, op := range rest.ops {
		if o, ok := op.(RandomErasing); ok {
			f.erasers = append(f.erasers, eraser{op: o, index: uint32(rest.first + i), pixel: f.erased(rest, o, i)})
		}
	}
	return f, nil
}

// erased returns the pixel that operator i of the tail leaves, as it comes out at the end.
func (f *Finisher) erased(rest *Plan, o RandomErasing, i int) []byte {
	var pixel []byte
	for c := range f.channels {
		x := round(float32(o.Value[c%len(o.Value)]), rest.arrives[i])
		bits := elementBits(rest.carry(x, c, i+1), f.dtype)
		pixel = append(pixel, binary.LittleEndian.AppendUint32(nil, bits)[:f.dtype.Size()]...)
	}
	return pixel
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

// Erase executes each RandomErasing of the tail on what Apply wrote for one sample: height x width pixels, HWC. What is
// drawn depends on key, the size and the operator's place in the whole plan alone. Without a RandomErasing it does
// nothing; if it has one, a dst of another size is a mistake of the caller and panics.
func (f *Finisher) Erase(dst []byte, height, width int, key Key) {
	if len(f.erasers) == 0 {
		return
	}
	size := f.channels * f.dtype.Size()
	if len(dst) != height*width*size {
		panic(fmt.Sprintf("transform.Finisher.Erase: %d bytes are not %d x %d pixels of %d channels of %s", len(dst), height, width, f.channels, f.dtype))
	}
	for _, e := range f.erasers {
		b, erases := e.op.draw(width, height, newStream(key.Op(e.index)))
		for y := b.Y; erases && y < b.Y+b.H; y++ {
			repeat(dst[(y*width+b.X)*size:][:b.W*size], e.pixel)
		}
	}
}

// repeat fills row with pixel after pixel.
func repeat(row, pixel []byte) {
	for done := copy(row, pixel); done < len(row); {
		done += copy(row[done:], row[:done])
	}
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
