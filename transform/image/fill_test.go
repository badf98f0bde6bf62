package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
	"pgregory.net/rapid"
)

// Cut JPEG files. Where scans of a progressive one are missing, the library smooths, and since 3.0 in another way (its
// issues 700 and 721): of those only the size is compared.
func TestFilledJPEGEqualsPillow(t *testing.T) {
	c := newComparison(t)
	rapid.Check(t, func(r *rapid.T) {
		in, _, _, shape := drawJPEG(r, 80)
		for range 4 {
			cut := in[:rapid.IntRange(bytes.Index(in, []byte{0xFF, 0xDA}), len(in)).Draw(r, "cut")]
			c.loose[len(c.cases)] = strings.Contains(shape, "Progressive:true")
			c.add(t, fmt.Sprintf("%d of %d bytes, %s", len(cut), len(in), shape), cut, decodeCase{Fill: true})
		}
	})
	if n := c.check(t); n < len(c.cases)/2 {
		t.Errorf("both decode only %d of %d files", n, len(c.cases))
	}
}

// checkFilledRegions compares regions of a damaged file with the same parts of the whole picture.
func checkFilledRegions(t *rapid.T, in []byte, shape string) {
	fill := transform.DecodeImage{Truncated: "fill"}
	rgb, w, h, err := decodeWith(fill, in, Limits{})
	if err != nil {
		return // a header that ends early
	}
	for range 10 {
		step := transform.Step{Kind: transform.StepCrop, Box: drawBox(t, w, h)}
		want := pixels{rgb, w, h}.apply(step)
		out := make([]byte, len(want.rgb))
		e := [1]errand{{in: in, out: out, decoding: fill, resolve: func(int, int) (transform.Resolved, error) {
			return transform.Resolved{Steps: []transform.Step{step}}, nil
		}}}
		job{lim: Limits{}.withDefaults(), variant: bestVariant()}.run(e[:])
		if e[0].result.Err != nil || !bytes.Equal(out, want.rgb) {
			t.Fatalf("%s, %+v: differs from the whole picture, %v: %s", shape, step.Box, e[0].result.Err, firstDifference(pixels{out, want.w, want.h}, want))
		}
	}
}

func TestFilledJPEGRegionEqualsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, _, _, shape := drawJPEG(t, 100)
		if rapid.Bool().Draw(t, "flip") {
			in[rapid.IntRange(20, len(in)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
		checkFilledRegions(t, in[:rapid.IntRange(len(in)/4, len(in)).Draw(t, "cut")], shape)
	})
}

// drawPNG draws a picture of any colour type, interlaced or not.
func drawPNG(t *rapid.T) (in []byte, shape string) {
	w, h := rapid.IntRange(1, 60).Draw(t, "width"), rapid.IntRange(1, 60).Draw(t, "height")
	if rapid.IntRange(0, 2).Draw(t, "interlaced") == 0 {
		return interlacedPNG(photo(rapid.Uint32().Draw(t, "seed"), w, h, 4), w, h), fmt.Sprintf("%d x %d, interlaced", w, h)
	}
	pictures := pngPictures(w, h)
	name := rapid.SampledFrom([]string{"grey", "palette", "rgba"}).Draw(t, "type")
	var b bytes.Buffer
	if err := png.Encode(&b, pictures[name]); err != nil {
		t.Fatal(err)
	}
	in = b.Bytes()
	if rapid.Bool().Draw(t, "many chunks") {
		in = splitChunks(in, rapid.IntRange(1, 50).Draw(t, "chunk"))
	}
	return in, fmt.Sprintf("%d x %d, %s", w, h, name)
}

// splitChunks spreads the pixels of a PNG over chunks of at most size bytes.
func splitChunks(in []byte, size int) []byte {
	out := bytes.Clone(in[:8])
	for at := 8; at < len(in); {
		n := int(binary.BigEndian.Uint32(in[at:]))
		name, data := string(in[at+4:at+8]), in[at+8:at+8+n]
		for {
			part := data
			if name == "IDAT" {
				part = data[:min(size, len(data))]
			}
			body := append([]byte(name), part...)
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(part))), body...)
			out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
			if data = data[len(part):]; len(data) == 0 {
				break
			}
		}
		at += 12 + n
	}
	return out
}

// cutInName reports whether a PNG ends in the name of a chunk: Pillow then raises even when it is told not to.
func cutInName(in []byte) bool {
	at := 8
	for at+8 <= len(in) {
		at += 12 + int(binary.BigEndian.Uint32(in[at:]))
	}
	return len(in)-at >= 4
}

// Cut and damaged PNG files.
func TestFilledPNGEqualsPillow(t *testing.T) {
	c := newComparison(t)
	rapid.Check(t, func(r *rapid.T) {
		in, shape := drawPNG(r)
		pixels := bytes.Index(in, []byte("IDAT"))
		for range 4 {
			cut := bytes.Clone(in[:rapid.IntRange(pixels, len(in)).Draw(r, "cut")])
			if cutInName(cut) {
				continue
			}
			c.add(t, fmt.Sprintf("%d of %d bytes, %s", len(cut), len(in), shape), cut, decodeCase{Fill: true})
		}
		first := in[pixels+4:][:binary.BigEndian.Uint32(in[pixels-4:])]
		first[rapid.IntRange(0, len(first)-1).Draw(r, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
		c.add(t, "damaged "+shape, in, decodeCase{Fill: true})
	})
	if n := c.check(t); n < len(c.cases)/2 {
		t.Errorf("both decode only %d of %d files", n, len(c.cases))
	}
}

func TestFilledPNGRegionEqualsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, shape := drawPNG(t)
		checkFilledRegions(t, in[:rapid.IntRange(len(in)/4, len(in)).Draw(t, "cut")], shape)
	})
}

// Real files, cut in the middle and near the end.
func TestFilledFilesEqualPillow(t *testing.T) {
	c := newComparison(t)
	for _, e := range expectations(t) {
		if e.pillow != "ok" || exceptions[e.path] != "" || !slices.Contains([]string{"JPEG", "PNG", "GIF", "WEBP"}, e.format) {
			continue
		}
		in := testdata.Read(t, e.path)
		if len(in) > 30_000 {
			continue
		}
		for _, n := range []int{len(in) / 2, len(in) - 13} {
			if e.format == "PNG" && cutInName(in[:n]) {
				continue
			}
			c.loose[len(c.cases)] = bytes.Contains(in, []byte{0xFF, 0xC2})
			c.add(t, fmt.Sprintf("%s cut at %d", e.path, n), in[:n], decodeCase{Fill: true})
		}
	}
	if n := c.check(t); n < 100 {
		t.Errorf("both decode only %d of %d files", n, len(c.cases))
	}
}
