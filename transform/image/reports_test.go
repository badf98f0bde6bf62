package image

import (
	"bytes"
	stdimage "image"
	"image/color"
	"image/png"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

// What users of other loaders reported, as tests.

// equalsPillow fails unless files decode to the pixels in the table of what Pillow makes of them.
func equalsPillow(t *testing.T, names ...string) {
	t.Helper()
	all := expectations(t)
	for _, name := range names {
		at := slices.IndexFunc(all, func(e expected) bool { return e.path == name })
		if at < 0 {
			t.Errorf("%s is not in the table", name)
			continue
		}
		rgb, w, h, err := decodeAll(testdata.Read(t, name), Limits{})
		if why := all[at].agrees(w, h, digestOf(rgb), err); why != "" {
			t.Errorf("%s: %s, %v", name, why, err)
		}
	}
}

// Decoders that take its narrow range of brightness for the full one wash out lossy WebP.
func TestLossyWebPIsNotWashedOut(t *testing.T) {
	equalsPillow(t, "webp/x-image/yellow_rose.lossy.webp", "webp/x-image/yellow_rose.lossy-with-alpha.webp")
}

// CMYK comes out inverted, or not at all, where Adobe's habit is not known.
func TestCMYKIsNotInverted(t *testing.T) {
	equalsPillow(t, "jpeg/pillow/pil_sample_cmyk.jpg", "jpeg/go/video-001.cmyk.jpeg", "jpeg/torchcodec/cmyk.jpg")
}

// A ramp of 16-bit grey, most of which Pillow makes white, keeps all levels.
func TestGrey16RampIsNotWhite(t *testing.T) {
	const side = 256
	m := stdimage.NewGray16(stdimage.Rect(0, 0, side, side))
	for i := range side * side {
		m.SetGray16(i%side, i/side, color.Gray16{Y: uint16(i)})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	rgb, _, _, err := decodeAll(b.Bytes(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	levels := [256]int{}
	for i := 0; i < len(rgb); i += channels {
		levels[rgb[i]]++
	}
	for v, n := range levels {
		if most := side + 1; n < side/2 || n > most {
			t.Errorf("level %d has %d of %d pixels", v, n, len(rgb)/channels)
		}
	}
}

// A file under a wrong name: nothing, a web page and a stub are named errors, another format is decoded all the same.
func TestWhatLiesUnderAnImagesName(t *testing.T) {
	for name, c := range map[string]struct {
		in   []byte
		kind transform.ErrorKind
	}{
		"nothing":    {nil, transform.KindTruncated},
		"a web page": {[]byte("<!DOCTYPE html><html><body>404 Not Found</body></html>"), transform.KindUnsupported},
		"7 bytes":    {[]byte("\x89PNG\r\n\x1a"), transform.KindUnsupported},
		"a bitmap":   {testdata.Read(t, "jpeg/dali-misnamed/bmp.jpeg"), transform.KindUnsupported},
	} {
		if _, _, _, err := decodeAll(c.in, Limits{}); kindOf(err) != c.kind {
			t.Errorf("%s: %v, want kind %s", name, err, c.kind)
		}
	}
	equalsPillow(t, "jpeg/dali-misnamed/png.jpeg")
}
