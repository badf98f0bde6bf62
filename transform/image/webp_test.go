package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/internal/encode"
	"pgregory.net/rapid"
)

func mustWebP(t testing.TB, w, h int, o encode.WebPOptions) []byte {
	t.Helper()
	in, err := encode.WebP(photo(1, w, h, 4), w, h, o)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func drawWebP(t *rapid.T, most int) (in []byte, w, h int, shape string) {
	w, h = rapid.IntRange(1, most).Draw(t, "width"), rapid.IntRange(1, most).Draw(t, "height")
	o := encode.WebPOptions{
		Lossless:     rapid.IntRange(0, 3).Draw(t, "lossless") == 0,
		Alpha:        rapid.Bool().Draw(t, "alpha"),
		Quality:      rapid.SampledFrom([]int{10, 50, 90}).Draw(t, "quality"),
		Segments:     rapid.IntRange(1, 4).Draw(t, "segments"),
		SimpleFilter: rapid.Bool().Draw(t, "simple filter"),
		Filter:       rapid.SampledFrom([]int{0, 20, 100}).Draw(t, "filter"),
		Partitions:   rapid.IntRange(0, 3).Draw(t, "partitions"),
		AlphaQuality: rapid.SampledFrom([]int{20, 100}).Draw(t, "alpha quality"),
	}
	in, err := encode.WebP(photo(rapid.Uint32().Draw(t, "seed"), w, h, 4), w, h, o)
	if err != nil {
		t.Fatal(err)
	}
	return in, w, h, fmt.Sprintf("%d x %d, %+v", w, h, o)
}

// chunk is a piece of a RIFF file.
func chunk(name string, data []byte) []byte {
	out := append(binary.LittleEndian.AppendUint32([]byte(name), uint32(len(data))), data...)
	return append(out, make([]byte, len(data)%2)...)
}

func riff(chunks ...[]byte) []byte {
	body := append([]byte("WEBP"), bytes.Join(chunks, nil)...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

func le24(v int) []byte { return []byte{byte(v), byte(v >> 8), byte(v >> 16)} }

// animated lays a still WebP on a canvas as the first frame of an animation, at an even offset.
func animated(still []byte, canvasW, canvasH, x, y, w, h int) []byte {
	body := still[12:]
	if string(body[:4]) == "VP8X" {
		body = body[18:]
	}
	frame := bytes.Join([][]byte{le24(x / 2), le24(y / 2), le24(w - 1), le24(h - 1), le24(40), {0}, body}, nil)
	extended := bytes.Join([][]byte{{2 | 16, 0, 0, 0}, le24(canvasW - 1), le24(canvasH - 1)}, nil)
	return riff(chunk("VP8X", extended), chunk("ANIM", []byte{9, 8, 7, 255, 0, 0}), chunk("ANMF", frame), chunk("ANMF", frame))
}

func TestWebPRegionEqualsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, w, h, shape := drawWebP(t, 100)
		if rapid.IntRange(0, 3).Draw(t, "animated") == 0 {
			x, y := 2*rapid.IntRange(0, 9).Draw(t, "at x"), 2*rapid.IntRange(0, 9).Draw(t, "at y")
			canvasW, canvasH := x+w+rapid.IntRange(0, 9).Draw(t, "right"), y+h+rapid.IntRange(0, 9).Draw(t, "below")
			in = animated(in, canvasW, canvasH, x, y, w, h)
			w, h, shape = canvasW, canvasH, shape+", animated"
		}
		rgb, gotW, gotH, err := decodeAll(in, Limits{})
		if err != nil || gotW != w || gotH != h {
			t.Fatalf("%s: %d x %d, %v", shape, gotW, gotH, err)
		}
		for range 50 {
			checkRegion(t, in, pixels{rgb, w, h}, drawBox(t, w, h), shape)
		}
	})
}

// What is wrong with an animation's frame is found also where the region holds nothing of it.
func TestABrokenWebPFrameIsFoundBesideIt(t *testing.T) {
	broken := 0
	rapid.Check(t, func(t *rapid.T) {
		still, w, h, shape := drawWebP(t, 60)
		in := animated(still, w+20, h+20, 4, 6, w, h)
		in[rapid.IntRange(bytes.Index(in, []byte("ANMF"))+24, len(in)/2).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		_, _, _, want := decodeAll(in, Limits{})
		if want != nil {
			broken++
		}
		for _, box := range []transform.Box{{X: w + 9, W: 3, H: h + 20}, {Y: h + 12, W: w, H: 5}, {X: 1, Y: 2, W: 2, H: h + 9}} {
			_, err := runSteps(in, make([]byte, box.W*box.H*channels), bestVariant(), transform.Step{Kind: transform.StepCrop, Box: box})
			if kindOf(err) != kindOf(want) {
				t.Fatalf("%s: in %+v %v, in all %v", shape, box, err, want)
			}
		}
	})
	if broken == 0 {
		t.Error("no frame was broken")
	}
}

// Alpha is dropped; the colour under it stays.
func TestWebPKeepsColourUnderAlpha(t *testing.T) {
	const w, h = 20, 10
	rgba := photo(3, w, h, 4)
	in, err := encode.WebP(rgba, w, h, encode.WebPOptions{Lossless: true, Alpha: true})
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for i := 0; i < len(rgba); i += 4 {
		want = append(want, rgba[i:i+3]...)
	}
	if got, _, _, err := decodeAll(in, Limits{}); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other pixels, %v", err)
	}
}

// The file states its length, so a cut is found wherever the region lies.
func TestWebPCutAnywhereIsTruncated(t *testing.T) {
	in := mustWebP(t, 64, 64, encode.WebPOptions{Alpha: true})
	out := make([]byte, 64*channels)
	for n := 20; n < len(in); n++ {
		_, err := runSteps(in[:n], out, bestVariant(), transform.Step{Kind: transform.StepCrop, Box: transform.Box{W: 64, H: 1}})
		if kindOf(err) != transform.KindTruncated {
			t.Fatalf("cut at %d of %d bytes: %v, want kind truncated", n, len(in), err)
		}
	}
}

// What a header claims costs nothing, and a lossless frame that needs more than the limit is refused before it is unpacked.
func TestWebPMemoryIsLimited(t *testing.T) {
	in := mustWebP(t, 300, 300, encode.WebPOptions{Lossless: true})
	if _, _, _, err := decodeAll(in, Limits{MaxMemory: 300 * 300 * 6}); kindOf(err) != transform.KindLimit {
		t.Errorf("%v, want kind limit", err)
	}
	if _, _, _, err := decodeAll(in, Limits{MaxMemory: 300 * 300 * 8}); err != nil {
		t.Error(err)
	}
}
