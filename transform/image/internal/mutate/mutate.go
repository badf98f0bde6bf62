package mutate

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
)

// Mutator changes encoded images. Bytes changes any bytes in place or returns others, at most most of them; the
// fuzzer brings one that learns.
type Mutator struct {
	Bytes func(in []byte, most int) []byte
}

// Image returns a changed copy of an encoded image, of at most most bytes. other, which may be empty, lends pieces.
func (m Mutator) Image(in, other []byte, most int, r *rand.Rand) []byte {
	in = bytes.Clone(in)
	switch r.IntN(10) {
	case 0:
		return limit(m.Bytes(in, most), most)
	case 1:
		return limit(in, min(most, r.IntN(len(in)+1)))
	}
	c := containerOf(in)
	parts := c.split(in)
	for range 1 + r.IntN(3) {
		parts = m.change(c, parts, other, r)
	}
	return limit(c.join(parts), most)
}

func limit(in []byte, most int) []byte { return in[:min(len(in), most)] }

// change makes one change to a list of parts.
func (m Mutator) change(c container, parts []part, other []byte, r *rand.Rand) []part {
	if len(parts) == 0 {
		return foreign(c, other, r)
	}
	i, j := r.IntN(len(parts)), r.IntN(len(parts))
	switch r.IntN(12) {
	case 0:
		return slices.Delete(parts, i, i+1)
	case 1:
		return slices.Insert(parts, j, parts[i])
	case 2:
		parts[i], parts[j] = parts[j], parts[i]
	case 3, 4:
		return slices.Insert(parts, min(j, 1+r.IntN(len(parts))), known(c, r))
	case 5:
		return slices.Insert(parts, j, foreign(c, other, r)...)
	case 6, 7:
		parts[i].body = setNumber(parts[i].body, r)
	case 8:
		parts[i].head = setNumber(parts[i].head, r)
	case 9:
		return m.pixels(c, parts)
	default:
		parts[i].body = m.Bytes(bytes.Clone(parts[i].body), len(parts[i].body)+64)
	}
	return parts
}

// foreign takes one part out of another file of the same format.
func foreign(c container, other []byte, r *rand.Rand) []part {
	if !bytes.HasPrefix(other, []byte(c.magic)) || c.magic == "" {
		return nil
	}
	parts := c.split(other)
	if len(parts) == 0 {
		return nil
	}
	return []part{parts[r.IntN(len(parts))]}
}

// setNumber writes a number on which decoders may stumble over a field of the first bytes, where headers keep theirs.
func setNumber(body []byte, r *rand.Rand) []byte {
	body = bytes.Clone(body)
	if len(body) == 0 {
		return body
	}
	numbers := []uint32{0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 63, 127, 128, 255, 256, 257, 1000, 4096, 16383, 16384, 32767, 32768, 65500, 65535, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1}
	v := numbers[r.IntN(len(numbers))]
	at := body[r.IntN(min(len(body), 40)):]
	order := []binary.ByteOrder{binary.BigEndian, binary.LittleEndian}[r.IntN(2)]
	switch {
	case len(at) >= 4 && r.IntN(3) == 0:
		order.PutUint32(at, v)
	case len(at) >= 2 && r.IntN(2) == 0:
		order.PutUint16(at, uint16(v))
	default:
		at[0] = byte(v)
	}
	return body
}

// pixels changes what a PNG's compressed chunks hold, where a change to compressed bytes would end at a checksum.
func (m Mutator) pixels(c container, parts []part) []part {
	if c.magic != pngMagic {
		return parts
	}
	var packed []byte
	first := -1
	kept := parts[:0:0]
	for _, p := range parts {
		if string(p.head) != "IDAT" {
			kept = append(kept, p)
			continue
		}
		if first < 0 {
			first = len(kept)
		}
		packed = append(packed, p.body...)
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return parts
	}
	const enough = 1 << 18
	raw, _ := io.ReadAll(io.LimitReader(z, enough)) // what a damaged stream still gives is welcome
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write(m.Bytes(raw, len(raw)+64))
	_ = w.Close()
	return slices.Insert(kept, first, part{[]byte("IDAT"), b.Bytes()})
}
