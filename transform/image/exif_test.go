package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/internal/encode"
	"pgregory.net/rapid"
)

// exifOf is EXIF data with an orientation.
func exifOf(order binary.AppendByteOrder, orientation int) []byte {
	out := []byte("II")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		out = []byte("MM")
	}
	out = order.AppendUint32(order.AppendUint16(out, 42), 8)
	out = order.AppendUint16(out, 2)
	out = append(order.AppendUint32(order.AppendUint16(order.AppendUint16(out, 0x0100), 3), 1), 0, 0, 0, 0) // a width
	out = order.AppendUint32(order.AppendUint16(order.AppendUint16(out, 0x0112), 3), 1)
	return append(order.AppendUint16(out, uint16(orientation)), 0, 0, 0, 0, 0, 0)
}

func jpegWithEXIF(in, exif []byte) []byte {
	segment := append([]byte{0xFF, 0xE1}, binary.BigEndian.AppendUint16(nil, uint16(len(exif)+2))...)
	return bytes.Join([][]byte{in[:2], segment, exif, in[2:]}, nil)
}

func pngWithEXIF(in, exif []byte) []byte {
	body := append([]byte("eXIf"), exif...)
	chunk := append(binary.BigEndian.AppendUint32(nil, uint32(len(exif))), body...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(body))
	return bytes.Join([][]byte{in[:33], chunk, in[33:]}, nil)
}

func webpWithEXIF(in, exif []byte, w, h int) []byte {
	body := in[12:]
	if string(body[:4]) == "VP8X" {
		body = body[18:]
	}
	return riff(chunk("VP8X", bytes.Join([][]byte{{8, 0, 0, 0}, le24(w - 1), le24(h - 1)}, nil)), body, chunk("EXIF", exif))
}

// drawOriented draws a picture of some format that says how it is to be shown.
func drawOriented(t *rapid.T) (in []byte, orientation int, shape string) {
	var order binary.AppendByteOrder = binary.LittleEndian
	if rapid.Bool().Draw(t, "big-endian") {
		order = binary.BigEndian
	}
	orientation = rapid.IntRange(0, 9).Draw(t, "orientation")
	exif := exifOf(order, orientation)
	prefixed := append([]byte(exifPrefix), exif...)
	switch rapid.IntRange(0, 2).Draw(t, "format") {
	case 0:
		in, _, _, shape = drawJPEG(t, 90)
		in = jpegWithEXIF(in, prefixed)
		junk := rapid.SampledFrom([]string{"", "\xff\xff", "junk", "\xff\x00\xff\x00", "\xff\x00junk\xff"}).Draw(t, "junk")
		return bytes.Join([][]byte{in[:2], []byte("\xff\xfe\x00\x03c"), []byte(junk), in[2:]}, nil), orientation, fmt.Sprintf("%s, %q", shape, junk)
	case 1:
		w, h := rapid.IntRange(1, 60).Draw(t, "width"), rapid.IntRange(1, 60).Draw(t, "height")
		in = interlacedPNG(photo(rapid.Uint32().Draw(t, "seed"), w, h, 4), w, h)
		return pngWithEXIF(in, exif), orientation, fmt.Sprintf("png %d x %d", w, h)
	}
	in, w, h, shape := drawWebP(t, 60)
	if rapid.Bool().Draw(t, "prefix") {
		exif = prefixed
	}
	return webpWithEXIF(in, exif, w, h), orientation, shape
}

// Pictures that say how they are to be shown are shown as Pillow's exif_transpose does.
func TestOrientationEqualsPillow(t *testing.T) {
	c := newComparison(t)
	rapid.Check(t, func(r *rapid.T) {
		in, orientation, shape := drawOriented(r)
		c.add(t, fmt.Sprintf("orientation %d, %s", orientation, shape), in, decodeCase{Turn: true})
	})
	if n := c.check(t); n != len(c.cases) {
		t.Errorf("both decode only %d of %d files", n, len(c.cases))
	}
}

// Whatever follows sees the shown picture: any crop and resize equals the same of the whole picture, turned.
func TestOrientedRegionEqualsWhole(t *testing.T) {
	apply := transform.DecodeImage{Orientation: "apply"}
	rapid.Check(t, func(t *rapid.T) {
		in, orientation, shape := drawOriented(t)
		rgb, w, h, err := decodeWith(apply, in, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			steps := []transform.Step{{Kind: transform.StepCrop, Box: drawBox(t, w, h)}}
			if rapid.Bool().Draw(t, "resize") {
				steps = append(steps, transform.Step{Kind: transform.StepResize, Width: rapid.IntRange(1, 70).Draw(t, "to width"), Height: rapid.IntRange(1, 70).Draw(t, "to height"), Version: 2, Filter: transform.Bilinear})
			}
			want, err := stepsOnPixels(pixels{rgb, w, h}, scalar, steps)
			if err != nil {
				t.Fatal(err)
			}
			out := make([]byte, len(want.rgb))
			e := [1]errand{{in: in, out: out, decoding: apply, resolve: func(int, int) (transform.Resolved, error) { return transform.Resolved{Steps: steps}, nil }}}
			job{lim: Limits{}.withDefaults(), variant: bestVariant()}.run(e[:])
			if e[0].result.Err != nil || !bytes.Equal(out, want.rgb) {
				t.Fatalf("orientation %d, %s, %+v: differs from the whole picture, %v", orientation, shape, steps, e[0].result.Err)
			}
		}
	})
}

// notOurRule are files that Pillow shows turned, or refuses to, for other reasons than EXIF data.
var notOurRule = map[string]string{
	"png/pillow/xmp_tags_orientation.png":          "the orientation stands in XMP alone",
	"png/pillow/xmp_tags_orientation_exiftool.png": "the orientation stands in XMP alone",
}

// All files of the test data that say how they are to be shown, against Pillow.
func TestOrientationOfFilesEqualsPillow(t *testing.T) {
	var cases []decodeCase
	var names []string
	for _, e := range expectations(t) {
		in := testdata.Read(t, e.path)
		f, _ := sniff(in)
		says := orientationOf(f.code, in) != 1 || e.orientation != "" || strings.Contains(e.path, "xmp") || strings.Contains(e.path, "exif")
		if e.pillow == "ok" && exceptions[e.path] == "" && e.path != raising && says && len(in) < 1<<19 {
			cases, names = append(cases, decodeCase{File: testdata.Path(t, e.path), Turn: true}), append(names, e.path)
		}
	}
	turned := map[int]int{}
	for i, want := range pillowAnswers(t, cases) {
		in := testdata.Read(t, names[i])
		got, err := cases[i].answer(in)
		if kindOf(err) == transform.KindUnsupported {
			continue
		}
		if reason := notOurRule[names[i]]; (got != want) != (reason != "") {
			t.Errorf("%s: %s, %v, Pillow has %s; listed reason: %q", names[i], got, err, want, reason)
		}
		f, _ := sniff(in)
		turned[orientationOf(f.code, in)]++
	}
	for o := 1; o <= 8; o++ {
		if turned[o] == 0 {
			t.Errorf("no file with orientation %d", o)
		}
	}
}

func TestTurningNeedsMemory(t *testing.T) {
	in := jpegWithEXIF(mustJPEG(t, 200, 100, encode.Options{}), append([]byte(exifPrefix), exifOf(binary.BigEndian, 6)...))
	apply := transform.DecodeImage{Orientation: "apply"}
	if _, w, h, err := decodeWith(apply, in, Limits{MaxMemory: 250_000}); err != nil || w != 100 || h != 200 {
		t.Errorf("%d x %d, %v", w, h, err)
	}
	if _, _, _, err := decodeWith(apply, in, Limits{MaxMemory: 230_000}); kindOf(err) != transform.KindLimit {
		t.Errorf("%v, want kind limit", err)
	}
}

// Any bytes have an orientation.
func FuzzOrientation(f *testing.F) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		exif := exifOf(order, 6)
		f.Add(exif)
		f.Add(append([]byte(exifPrefix), exif...))
	}
	names, _ := filepath.Glob("vectors/exif-*")
	for _, name := range names {
		in, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, media := range transform.MediaTypes() {
			format, _ := formatOf(media)
			if o := orientationOf(format.code, in); o < 1 || o > 8 {
				t.Fatalf("%s: orientation %d", format.name, o)
			}
		}
		if o := exifOrientation(in); o < 1 || o > 8 {
			t.Fatalf("orientation %d", o)
		}
	})
}
