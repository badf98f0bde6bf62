package mutate

import (
	"encoding/binary"
	"math/rand/v2"
)

// known returns a part that a decoder gives a meaning to.
func known(c container, r *rand.Rand) part {
	switch c.magic {
	case "\xff\xd8":
		return pick(r, jpegParts(r))
	case pngMagic:
		return pick(r, pngParts(r))
	case "RIFF":
		return pick(r, riffParts(r))
	case "GIF8":
		return pick(r, gifParts(r))
	}
	return part{body: []byte{byte(r.Uint32())}}
}

func pick(r *rand.Rand, parts []part) part { return parts[r.IntN(len(parts))] }

func side(r *rand.Rand) uint16 {
	return []uint16{0, 1, 2, 7, 8, 9, 16, 17, 33, 64, 100, 255, 256, 1000, 16384, 65500, 65535}[r.IntN(17)]
}

// exif is a TIFF header and a directory that holds an orientation, in either byte order.
func exif(r *rand.Rand) []byte {
	order, mark := binary.AppendByteOrder(binary.LittleEndian), "II"
	if r.IntN(2) == 0 {
		order, mark = binary.BigEndian, "MM"
	}
	b := order.AppendUint16([]byte(mark), 42)
	b = order.AppendUint32(b, []uint32{8, 8, 8, 0, 4, 1 << 31}[r.IntN(6)])
	b = order.AppendUint16(b, []uint16{1, 1, 2, 65535}[r.IntN(4)])
	b = order.AppendUint16(b, 0x0112)
	b = order.AppendUint16(b, []uint16{3, 3, 3, 4, 1}[r.IntN(5)])
	b = order.AppendUint32(b, []uint32{1, 1, 2, 0}[r.IntN(4)])
	b = order.AppendUint16(b, uint16(r.IntN(10)))
	return append(b, 0, 0)
}

func jpegParts(r *rand.Rand) []part {
	marker := func(m byte, body ...byte) part { return part{[]byte{m}, body} }
	h, w := side(r), side(r)
	frame := []byte{[]byte{8, 8, 8, 12}[r.IntN(4)], byte(h >> 8), byte(h), byte(w >> 8), byte(w), byte(1 + r.IntN(4))}
	scan := []byte{frame[5]}
	for i := range frame[5] {
		frame = append(frame, i+1, byte(1+r.IntN(4))<<4|byte(1+r.IntN(4)), 0)
		scan = append(scan, i+1, byte(r.IntN(2))<<4|byte(r.IntN(2)))
	}
	scan = append(scan, byte(r.IntN(64)), byte(r.IntN(64)), byte(r.IntN(14))<<4|byte(r.IntN(14)))
	return []part{
		marker(0xE1, append([]byte("Exif\x00\x00"), exif(r)...)...),
		marker(0xEE, append([]byte("Adobe\x00\x64\x00\x00\x00\x00"), byte(r.IntN(3)))...),
		marker(0xE0, []byte("JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00")...),
		marker(0xDD, byte(r.IntN(2)), byte(r.IntN(9))),
		marker(0xDC, byte(h>>8), byte(h)),
		marker([]byte{0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA}[r.IntN(6)], frame...),
		marker(0xDA, scan...),
		marker(0xD0 + byte(r.IntN(10))),
		marker(0xCC, 0, byte(r.Uint32()), 0x10, byte(r.Uint32())),
		marker(0xFE, 'c'),
		{body: []byte{0xFF, 0xFF, 0xFF}},
	}
}

func pngParts(r *rand.Rand) []part {
	chunk := func(kind string, body ...byte) part { return part{[]byte(kind), body} }
	h, w := side(r), side(r)
	depth, colour := []byte{1, 2, 4, 8, 16}[r.IntN(5)], []byte{0, 2, 3, 4, 6}[r.IntN(5)]
	palette := make([]byte, 3*r.IntN(258))
	return []part{
		chunk("IHDR", 0, 0, byte(w>>8), byte(w), 0, 0, byte(h>>8), byte(h), depth, colour, 0, 0, byte(r.IntN(2))),
		chunk("eXIf", exif(r)...),
		chunk("PLTE", palette...),
		chunk("tRNS", make([]byte, r.IntN(9))...),
		chunk("acTL", 0, 0, 0, 2, 0, 0, 0, 0),
		chunk("fcTL", make([]byte, 26)...),
		chunk("IDAT"),
		chunk("IEND"),
		chunk("zTXt", []byte("k\x00\x00x\x9c\x03\x00\x00\x00\x00\x01")...),
		chunk("iCCP", []byte("k\x00\x00x\x9c\x03\x00\x00\x00\x00\x01")...),
		chunk("sBIT", 1, 1, 1),
		chunk("gAMA", 0, 0, 1, 0),
		chunk("ABCD"),
	}
}

func riffParts(r *rand.Rand) []part {
	h, w := side(r), side(r)
	size := []byte{byte(w), byte(w >> 8), 0, byte(h), byte(h >> 8), 0}
	chunk := func(kind string, body ...byte) part { return part{[]byte(kind), body} }
	return []part{
		chunk("VP8X", append([]byte{byte(r.Uint32()), 0, 0, 0}, size...)...),
		chunk("EXIF", exif(r)...),
		chunk("EXIF", append([]byte("Exif\x00\x00"), exif(r)...)...),
		chunk("ANIM", 0, 0, 0, 0, 0, 0),
		chunk("ANMF", append(append([]byte{0, 0, 0, 0, 0, 0}, size...), 0, 0, 0, byte(r.IntN(4)))...),
		chunk("ALPH", byte(r.IntN(64))),
		chunk("VP8L", 0x2F, byte(w), byte(w>>8)&0x3F|byte(h)<<6, byte(h>>2), byte(h>>10)&0xF),
		chunk("VP8 ", 0x10, 0, 0, 0x9D, 0x01, 0x2A, byte(w), byte(w>>8), byte(h), byte(h>>8)),
		chunk("ICCP"),
	}
}

func gifParts(r *rand.Rand) []part {
	h, w := side(r), side(r)
	image := []byte{0x2C, byte(r.IntN(9)), 0, byte(r.IntN(9)), 0, byte(w), byte(w >> 8), byte(h), byte(h >> 8), byte(r.IntN(2)) << 6, byte(2 + r.IntN(9))}
	return []part{
		{image, []byte{0x84, 0x8F, 0xA9, 0x05}},
		{[]byte{0x21, 0xF9}, []byte{byte(r.IntN(32)), 0, 0, byte(r.Uint32())}},
		{[]byte{0x21, 0xFF}, []byte("NETSCAPE2.0\x01\x00\x00")},
		{[]byte{0x21, 0xFE}, []byte("c")},
		{nil, []byte{0x3B}},
	}
}
