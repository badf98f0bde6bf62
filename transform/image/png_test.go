package image

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"os"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
	"pgregory.net/rapid"
)

func TestPNGRegionEqualsWhole(t *testing.T) {
	for _, name := range []string{"png-grey.png", "png-grey16.png", "png-interlaced.png", "png-palette.png", "png-rgba.png"} {
		in, err := os.ReadFile("vectors/" + name)
		if err != nil {
			t.Fatal(err)
		}
		rgb, w, h, err := decodeAll(in, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) { checkRegion(t, in, pixels{rgb, w, h}, drawBox(t, w, h), name) })
	}
}

// A fault below the region is found: PNG rows are all decompressed.
func TestPNGFaultBelowTheRegion(t *testing.T) {
	in, err := os.ReadFile("vectors/png-rgba.png")
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 37*channels)
	_, err = runSteps(in[:len(in)/2], out, bestVariant(), transform.Step{Kind: transform.StepCrop, Box: transform.Box{W: 37, H: 1}})
	if kindOf(err) != transform.KindTruncated {
		t.Errorf("%v, want kind truncated", err)
	}
}

// 16-bit grey keeps its levels: Pillow would make everything above 255 white.
func TestGrey16IsScaled(t *testing.T) {
	for _, name := range []string{"png/pngsuite/basn0g16.png", "png/torchcodec/grayscale_16bit.png"} {
		rgb, _, _, err := decodeAll(testdata.Read(t, name), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		levels := map[byte]bool{}
		for _, v := range rgb {
			levels[v] = true
		}
		if len(levels) < 30 {
			t.Errorf("%s: only %d levels are left", name, len(levels))
		}
	}
	in := photo(2, 37, 29, 2) // the pixels of the vector, big-endian
	vector, err := os.ReadFile("vectors/png-grey16.png")
	if err != nil {
		t.Fatal(err)
	}
	rgb, _, _, err := decodeAll(vector, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for i := 0; i < len(in); i += 2 {
		v := byte(math.Round(float64(int(in[i])<<8|int(in[i+1])) / 257))
		want = append(want, v, v, v)
	}
	if !bytes.Equal(rgb, want) {
		t.Error("16-bit grey is not v/257, rounded")
	}
}

// withMore is a PNG with more pixels in its data than its header says.
func withMore(t require, in, more []byte) []byte {
	first := bytes.Index(in, []byte("IDAT")) - 4
	var packed []byte
	for at := 8; at < len(in); {
		n := int(binary.BigEndian.Uint32(in[at:]))
		if string(in[at+4:at+8]) == "IDAT" {
			packed = append(packed, in[at+8:at+8+n]...)
		}
		at += 12 + n
	}
	r, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, _ := zlib.NewWriterLevel(&b, zlib.BestSpeed)
	_, _ = w.Write(append(rows, more...))
	_ = w.Close()
	out := append(bytes.Clone(in[:first]), binary.BigEndian.AppendUint32(nil, uint32(b.Len()))...)
	body := append([]byte("IDAT"), b.Bytes()...)
	out = binary.BigEndian.AppendUint32(append(out, body...), crc32.ChecksumIEEE(body))
	return append(out, in[len(in)-12:]...)
}

type require interface{ Fatal(...any) }

// What lies behind the last row is no part of the picture, however much it is, and costs no more than a little of it.
func TestPNGWithMoreThanItsRows(t *testing.T) {
	more := noise(7, 100<<10)
	rapid.Check(t, func(t *rapid.T) {
		in, shape := drawPNG(t)
		d := transform.DecodeImage{Truncated: rapid.SampledFrom([]string{"raise", "fill"}).Draw(t, "truncated")}
		want, w, h, err := decodeWith(d, in, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		long := withMore(t, in, more)
		got, _, _, err := decodeWith(d, long, Limits{})
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %v, or other pixels", shape, err)
		}
		checkRegion(t, long, pixels{want, w, h}, drawBox(t, w, h), shape)
	})
}

// The rows of an interlaced picture are counted as the library counts them: none of them is taken for what lies behind.
func TestInterlacedPNGOfAllShapes(t *testing.T) {
	for _, size := range [][2]int{{1, 100_000}, {100_000, 1}, {2, 60_000}, {3, 50_001}, {4, 40_000}, {5, 33_333}, {301, 300}, {300, 302}, {299, 303}} {
		w, h := size[0], size[1]
		rgba := noise(7, w*h*4)
		var want []byte
		for i := 0; i < len(rgba); i += 4 {
			want = append(want, rgba[i:i+3]...)
		}
		in := interlacedPNG(rgba, w, h)
		for _, in := range [][]byte{in, withMore(t, in, noise(7, 100<<10))} {
			if got, _, _, err := decodeAll(in, Limits{}); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d x %d: %v, or other pixels", w, h, err)
			}
		}
	}
}
