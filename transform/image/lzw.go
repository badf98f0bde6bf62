package image

import "github.com/stepahead-io/stepahead/transform"

const (
	lzwBits  = 12 // of the longest code
	lzwCodes = 1 << lzwBits
)

// dictionary is that of GIF's compression. Every string in it stands somewhere in the output, one
// byte longer than the string it continues.
type dictionary struct {
	clear, next  int
	width        int              // of a code, in bits
	start, count [lzwCodes]uint32 // a GIF's largest frame has 65,535 x 65,535 bytes
}

func (d *dictionary) reset(bits int) { d.clear, d.next, d.width = 1<<bits, 1<<bits+2, bits+1 }

// add enters the string at start, which has count bytes, as long as there is room.
func (d *dictionary) add(start, count int) {
	if d.next >= lzwCodes {
		return
	}
	d.start[d.next], d.count[d.next] = uint32(start), uint32(count)
	if d.next == 1<<d.width-1 && d.width < lzwBits {
		d.width++
	}
	d.next++
}

// unpackLZW decompresses the sub-blocks in data until out is full and returns how many bytes it has. Data that
// end early, or a code that means nothing, are an error; what came before is there. As in Pillow the bytes
// of a sub-block count only if all of it is there.
func unpackLZW(out, data []byte, bits int) (int, error) {
	if bits > lzwBits {
		return 0, refuse(transform.KindDecode, "gif: codes of %d bits, at most %d are possible", bits, lzwBits)
	}
	var d dictionary
	d.reset(bits)
	codes := codeReader{data: data}
	n, last := 0, 0 // bytes written, and of those the last code's; 0 after a clear
	for n < len(out) {
		code, ok := codes.next(d.width)
		switch {
		case !ok || code == d.clear+1:
			return n, refuse(transform.KindTruncated, "gif: the data end at pixel %d of %d", n, len(out))
		case code == d.clear:
			d.reset(bits)
			last = 0
			continue
		case code > d.next || code >= lzwCodes || last == 0 && code > d.clear:
			return n, refuse(transform.KindDecode, "gif: code %d before it has a meaning, at pixel %d of %d", code, n, len(out))
		}
		if last > 0 {
			d.add(n-last, last+1)
		}
		if code < d.clear {
			out[n] = byte(code)
			last = 1
		} else {
			last = repeat(out, n, int(d.start[code]), int(d.count[code]))
		}
		n += last
	}
	return n, nil
}

// repeat writes count bytes of out that begin at from anew at n, as far as there is room, and returns how many
// those are. They may reach one byte into what is being written.
func repeat(out []byte, n, from, count int) int {
	count = min(count, len(out)-n)
	copy(out[n:n+count], out[from:])
	if count > 0 && from+count > n {
		out[n+count-1] = out[from+count-1]
	}
	return count
}

// codeReader takes codes of any width from sub-blocks, lowest bits first.
type codeReader struct {
	data  []byte
	block int // bytes left of the sub-block
	bits  uint32
	have  int // of bits
}

// next returns the next code; false if there is none.
func (c *codeReader) next(width int) (int, bool) {
	for c.have < width {
		if c.block == 0 {
			if len(c.data) == 0 || c.data[0] == 0 || len(c.data) <= int(c.data[0]) {
				return 0, false
			}
			c.block, c.data = int(c.data[0]), c.data[1:]
		}
		c.bits |= uint32(c.data[0]) << c.have
		c.have += 8
		c.block, c.data = c.block-1, c.data[1:]
	}
	code := int(c.bits & (1<<width - 1))
	c.bits >>= width
	c.have -= width
	return code, true
}
