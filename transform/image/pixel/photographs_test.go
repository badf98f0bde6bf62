package pixel

import (
	"bytes"
	goimage "image"
	"image/draw"
	"image/png"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

var photographs = []string{"photos/scikit-image/astronaut.png", "photos/scikit-image/coffee.png", "photos/scikit-image/chelsea.png"}

// readPNG returns an opaque picture of the test data.
func readPNG(t *testing.T, name string) Image {
	t.Helper()
	decoded, err := png.Decode(bytes.NewReader(testdata.Read(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	size := decoded.Bounds().Size()
	rgba := goimage.NewNRGBA(goimage.Rectangle{Max: size})
	draw.Draw(rgba, rgba.Rect, decoded, decoded.Bounds().Min, draw.Src)
	im := Image{W: size.X, H: size.Y}
	for p := rgba.Pix; len(p) > 0; p = p[4:] {
		im.Pix = append(im.Pix, p[:3]...)
	}
	return im
}
