package image

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
	"pgregory.net/rapid"
)

// gifShape is a GIF of one frame, as an encoder would write it.
type gifShape struct {
	Width, Height     int // of the screen
	Frame             transform.Box
	Global, Local     int  // logarithm of the number of colours; 0: no palette
	Transparent       int  // -1: none
	Interlaced, Plain bool // Plain: palettes that repeat the numbers of their colours
	Bits              int
	Frames            int
	Seed              uint32
}

func (s gifShape) bytes() []byte {
	out := binary.LittleEndian.AppendUint16([]byte("GIF89a"), uint16(s.Width))
	out = binary.LittleEndian.AppendUint16(out, uint16(s.Height))
	out = append(out, flagsOf(s.Global), 1, 0)
	out = append(out, s.palette(s.Global, 1)...)
	out = append(out, 0x21, 0xFE, 2, 'h', 'i', 0)
	for range s.Frames {
		if s.Transparent >= 0 {
			out = append(out, 0x21, 0xF9, 4, 1, 10, 0, byte(s.Transparent), 0)
		}
		out = append(out, s.frame()...)
	}
	return append(out, ';')
}

func flagsOf(colours int) byte {
	if colours == 0 {
		return 0
	}
	return 0x80 | byte(colours-1)
}

func (s gifShape) palette(colours int, seed uint32) []byte {
	if colours == 0 {
		return nil
	}
	p := noise(s.Seed+seed, 3<<colours)
	for i := range p {
		if s.Plain {
			p[i] = byte(i / 3)
		}
	}
	return p
}

func (s gifShape) frame() []byte {
	out := []byte{','}
	for _, v := range []int{s.Frame.X, s.Frame.Y, s.Frame.W, s.Frame.H} {
		out = binary.LittleEndian.AppendUint16(out, uint16(v))
	}
	flags := flagsOf(s.Local)
	if s.Interlaced {
		flags |= 0x40
	}
	out = append(append(out, flags), s.palette(s.Local, 2)...)
	var packed bytes.Buffer
	w := lzw.NewWriter(&packed, lzw.LSB, s.Bits)
	pixels := photo(s.Seed, s.Frame.W, s.Frame.H, 1)
	for i := range pixels {
		pixels[i] &= 1<<s.Bits - 1
	}
	w.Write(pixels)
	w.Close()
	out = append(out, byte(s.Bits))
	for b := packed.Bytes(); len(b) > 0; b = b[min(255, len(b)):] {
		n := min(255, len(b))
		out = append(append(out, byte(n)), b[:n]...)
	}
	return append(out, 0)
}

func drawGIF(t *rapid.T) gifShape {
	s := gifShape{
		Width: rapid.IntRange(0, 70).Draw(t, "width"), Height: rapid.IntRange(0, 70).Draw(t, "height"),
		Frame: transform.Box{
			X: rapid.IntRange(0, 30).Draw(t, "x"), Y: rapid.IntRange(0, 30).Draw(t, "y"),
			W: rapid.IntRange(1, 90).Draw(t, "w"), H: rapid.IntRange(1, 90).Draw(t, "h"),
		},
		Global:      rapid.IntRange(0, 8).Draw(t, "global"),
		Local:       max(rapid.IntRange(-6, 8).Draw(t, "local"), 0),
		Transparent: max(rapid.IntRange(-200, 255).Draw(t, "transparent"), -1),
		Interlaced:  rapid.Bool().Draw(t, "interlaced"),
		Plain:       rapid.IntRange(0, 4).Draw(t, "plain") == 0,
		Bits:        rapid.IntRange(2, 8).Draw(t, "bits"),
		Frames:      rapid.IntRange(1, 2).Draw(t, "frames"),
		Seed:        rapid.Uint32().Draw(t, "seed"),
	}
	return s
}

// Whole files, cut ones and such with a flipped bit, with and without filling, in one go.
func TestGIFEqualsPillow(t *testing.T) {
	c := newComparison(t)
	rapid.Check(t, func(r *rapid.T) {
		s := drawGIF(r)
		in := s.bytes()
		switch rapid.IntRange(0, 3).Draw(r, "damage") {
		case 0:
			in = in[:rapid.IntRange(0, len(in)).Draw(r, "cut")]
		case 1:
			in[rapid.IntRange(6, len(in)-1).Draw(r, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
		}
		c.add(t, fmt.Sprintf("%+v", s), in, decodeCase{Fill: rapid.Bool().Draw(r, "fill")})
	})
	if n := c.check(t); n < len(c.cases)/3 {
		t.Errorf("both decode only %d of %d files", n, len(c.cases))
	}
}

func TestGIFRegionEqualsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawGIF(t)
		in := s.bytes()
		rgb, w, h, err := decodeAll(in, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			checkRegion(t, in, pixels{rgb, w, h}, drawBox(t, w, h), fmt.Sprintf("%+v", s))
		}
	})
}

// Two free 16-bit numbers claim 4 billion pixels, and a few bytes of LZW unpack to as many as are asked for.
func TestGIFBombs(t *testing.T) {
	s := gifShape{Width: 65535, Height: 65535, Frame: transform.Box{W: 4, H: 4}, Bits: 2, Frames: 1}
	if _, _, _, err := decodeAll(s.bytes(), Limits{}); kindOf(err) != transform.KindLimit {
		t.Errorf("a huge screen: %v, want kind limit", err)
	}
	s = gifShape{Width: 4, Height: 4, Frame: transform.Box{X: 65000, W: 4, H: 60000}, Bits: 2, Frames: 1}
	if _, _, _, err := decodeAll(s.bytes(), Limits{}); kindOf(err) != transform.KindLimit {
		t.Errorf("a frame far off the screen: %v, want kind limit", err)
	}
	s = gifShape{Width: 900, Height: 900, Frame: transform.Box{W: 900, H: 900}, Bits: 2, Frames: 1}
	if _, _, _, err := decodeAll(s.bytes(), Limits{MaxMemory: 1 << 20}); kindOf(err) != transform.KindLimit {
		t.Errorf("more memory than the limit: %v, want kind limit", err)
	}
}
