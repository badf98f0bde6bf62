// Package mutate knows the containers of image files well enough to damage what lies inside them: it takes a file
// apart, changes pieces, and puts them together again with lengths and checksums that are right, so that the damage gets past the
// outermost checks. It serves the fuzzer alone.
package mutate

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// part is one piece of a file. A piece without a head is raw bytes.
type part struct {
	head, body []byte
}

// container is how a format packs its pieces. join may be given any parts in any order.
type container struct {
	magic string
	split func(in []byte) []part
	join  func(parts []part) []byte
}

const (
	pngMagic  = "\x89PNG\r\n\x1a\n"
	gifHeader = 13
)

func containers() []container {
	return []container{
		{"\xff\xd8", splitJPEG, joinJPEG},
		{pngMagic, splitPNG, joinPNG},
		{"RIFF", splitRIFF, joinRIFF},
		{"GIF8", splitGIF, joinGIF},
	}
}

// containerOf returns how in is packed; a file of no known format is one raw piece.
func containerOf(in []byte) container {
	for _, c := range containers() {
		if bytes.HasPrefix(in, []byte(c.magic)) {
			return c
		}
	}
	return container{
		split: func(in []byte) []part { return []part{{body: in}} },
		join: func(parts []part) (out []byte) {
			for _, p := range parts {
				out = append(out, p.body...)
			}
			return out
		},
	}
}

// alone reports whether a JPEG marker has neither a length nor a body.
func alone(marker byte) bool { return marker == 1 || marker >= 0xD0 && marker <= 0xD9 }

// splitJPEG gives a part for each segment, with its marker as head, and raw parts for what lies between them.
func splitJPEG(in []byte) (parts []part) {
	for len(in) > 0 {
		if len(in) < 2 || in[0] != 0xFF || in[1] == 0 || in[1] == 0xFF {
			n := scanEnd(in)
			parts, in = append(parts, part{nil, in[:n]}), in[n:]
			continue
		}
		if alone(in[1]) {
			parts, in = append(parts, part{in[1:2], nil}), in[2:]
			continue
		}
		n := len(in)
		if len(in) >= 4 {
			n = min(n, 2+max(2, int(binary.BigEndian.Uint16(in[2:]))))
		}
		parts, in = append(parts, part{in[1:2], in[min(4, n):n]}), in[n:]
	}
	return parts
}

// scanEnd returns where the raw bytes that in begins with end: at the next marker that is not stuffing.
func scanEnd(in []byte) int {
	for i := 1; i+1 < len(in); i++ {
		if in[i] == 0xFF && in[i+1] != 0 && in[i+1] != 0xFF {
			return i
		}
	}
	return len(in)
}

func joinJPEG(parts []part) (out []byte) {
	for _, p := range parts {
		if len(p.head) == 0 {
			out = append(out, p.body...)
			continue
		}
		out = append(out, 0xFF, p.head[0])
		if !alone(p.head[0]) {
			out = binary.BigEndian.AppendUint16(out, uint16(len(p.body)+2))
		}
		out = append(out, p.body...)
	}
	return out
}

// splitPNG gives a part for each chunk, with its type as head, and a raw one for a rest.
func splitPNG(in []byte) (parts []part) {
	in = in[len(pngMagic):]
	for len(in) >= 12 {
		n := min(int(binary.BigEndian.Uint32(in)), len(in)-12)
		parts, in = append(parts, part{in[4:8], in[8 : 8+n]}), in[12+n:]
	}
	return appendRest(parts, in)
}

func appendRest(parts []part, rest []byte) []part {
	if len(rest) == 0 {
		return parts
	}
	return append(parts, part{nil, rest})
}

func joinPNG(parts []part) []byte {
	out := []byte(pngMagic)
	for _, p := range parts {
		if len(p.head) != 4 {
			out = append(out, p.body...)
			continue
		}
		out = binary.BigEndian.AppendUint32(out, uint32(len(p.body)))
		sum := crc32.ChecksumIEEE(append(bytes.Clone(p.head), p.body...))
		out = append(append(out, p.head...), p.body...)
		out = binary.BigEndian.AppendUint32(out, sum)
	}
	return out
}

// splitRIFF gives a part for each chunk, with its four letters as head; the first part is what stands before them.
func splitRIFF(in []byte) (parts []part) {
	n := min(12, len(in))
	parts, in = append(parts, part{nil, in[:n]}), in[n:]
	for len(in) >= 8 {
		n := min(int(binary.LittleEndian.Uint32(in[4:])), len(in)-8)
		parts, in = append(parts, part{in[:4], in[8 : 8+n]}), in[min(len(in), 8+n+n%2):]
	}
	return appendRest(parts, in)
}

func joinRIFF(parts []part) (out []byte) {
	for _, p := range parts {
		if len(p.head) != 4 {
			out = append(out, p.body...)
			continue
		}
		out = binary.LittleEndian.AppendUint32(append(out, p.head...), uint32(len(p.body)))
		out = append(out, p.body...)
		if len(p.body)%2 == 1 {
			out = append(out, 0)
		}
	}
	if len(out) >= 8 {
		binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	}
	return out
}

// splitGIF gives the screen and its palette as a raw part, then one for each block: head is everything before the
// data, body the data without their division into pieces of 255.
func splitGIF(in []byte) (parts []part) {
	n := min(len(in), gifHeader)
	if n == gifHeader {
		n = min(len(in), n+paletteBytes(in[10]))
	}
	parts, in = append(parts, part{nil, in[:n]}), in[n:]
	for len(in) > 0 {
		n := gifHead(in)
		if n == 0 || n > len(in) {
			break
		}
		head := in[:n]
		body, left := gifData(in[n:])
		parts, in = append(parts, part{head, body}), left
	}
	return appendRest(parts, in)
}

func paletteBytes(flags byte) int {
	if flags&0x80 == 0 {
		return 0
	}
	return 3 << (1 + flags&7)
}

// gifHead returns the size of what stands before a block's data, 0 if no block begins here.
func gifHead(in []byte) int {
	switch {
	case in[0] == 0x21:
		return 2
	case in[0] == 0x2C && len(in) >= 10:
		return 10 + paletteBytes(in[9]) + 1
	}
	return 0
}

func gifData(in []byte) (body, rest []byte) {
	for len(in) > 0 && in[0] != 0 {
		n := min(len(in), 1+int(in[0]))
		body, in = append(body, in[1:n]...), in[n:]
	}
	return body, in[min(1, len(in)):]
}

func joinGIF(parts []part) (out []byte) {
	for _, p := range parts {
		if len(p.head) == 0 {
			out = append(out, p.body...)
			continue
		}
		out = append(out, p.head...)
		for body := p.body; len(body) > 0; {
			n := min(255, len(body))
			out = append(append(out, byte(n)), body[:n]...)
			body = body[n:]
		}
		out = append(out, 0)
	}
	return out
}
