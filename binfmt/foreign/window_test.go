package foreign

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/media"
)

// A part is told by its own bytes, and by no others that the window happens to hold.
func TestSniff(t *testing.T) {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 5, 7))); err != nil {
		t.Fatal(err)
	}
	small := slices.Clone(b.Bytes())
	b.Reset()
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 11, 13)), nil); err != nil { // its size lies behind its tables
		t.Fatal(err)
	}
	large := b.Bytes()
	if media.SniffLen > len(large)/2 {
		t.Fatalf("the JPEG has %d bytes", len(large))
	}
	file := slices.Concat([]byte("text"), small, large)
	for _, c := range []struct {
		name     string
		off, len int
		typ      string
		w, h     uint32
	}{
		{"text", 0, 4, media.Unknown, 0, 0},
		{"PNG", 4, len(small), "image/png", 5, 7},
		{"the beginning of a PNG", 4, 12, "image/png", 0, 0},
		{"less than a PNG's signature", 4, 3, media.Unknown, 0, 0},
		{"JPEG", 4 + len(small), len(large), "image/jpeg", 11, 13},
		{"the beginning of a JPEG", 4 + len(small), media.SniffLen + 1, "image/jpeg", 0, 0},
		{"nothing", 4, 0, media.Unknown, 0, 0},
	} {
		p := Part{Field: "x"}
		p.Off, p.Len = int64(c.off), int64(c.len)
		want := p
		want.Type, want.Width, want.Height = c.typ, c.w, c.h
		if err := NewWindow(bytes.NewReader(file)).Sniff(&p); err != nil || p.Part != want.Part {
			t.Errorf("%s: %+v, %v; want %+v", c.name, p.Part, err, want.Part)
		}
	}
}

func TestRowIsUsedAgain(t *testing.T) {
	var r Row
	r.Clear()
	for range 2 {
		if r.Key != "" || len(r.Parts) != 0 || len(r.Scalars) != 0 {
			t.Fatalf("not empty: %+v", r)
		}
		r.Key, r.Parts = "a", append(r.Parts, Part{})
		r.Set("n", binfmt.Value{Kind: binfmt.Int64, Int: 3})
		r.Set("n", binfmt.Value{Kind: binfmt.Int64, Int: 4})
		if len(r.Scalars) != 1 || r.Scalars["n"].Int != 4 {
			t.Fatalf("scalars %v", r.Scalars)
		}
		r.Clear()
	}
}
