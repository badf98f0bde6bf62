package transform

import (
	"slices"
	"testing"
)

func TestEachMediaTypeHasOneDecoderOfThePlan(t *testing.T) {
	exact, scaled := mustParse(t, `{"op":"DecodeImage"}`), mustParse(t, `{"op":"DecodeImage","jpeg":"dct-scaled"},{"op":"Resize","size":9}`)
	for _, c := range []struct{ head, media, exact, scaled string }{
		{"\xff\xd8\xff\xe0", "image/jpeg", "jpeg/islow-fancy@1", "jpeg/dct-scaled@1"},
		{"\x89PNG\r\n\x1a\nrest", "image/png", "png/libpng@1", "png/libpng@1"},
		{"RIFF\x00\x00\x00\x00WEBPVP8X", "image/webp", "webp/libwebp@1", "webp/libwebp@1"},
		{"GIF87a", "image/gif", "gif/go@1", "gif/go@1"},
		{"GIF89a", "image/gif", "gif/go@1", "gif/go@1"},
		{"\xff\xd8", "", "", ""},
		{"RIFF\x00\x00\x00\x00WAVE", "", "", ""},
		{"", "", "", ""},
	} {
		if got := MediaType([]byte(c.head)); got != c.media {
			t.Errorf("%q is %q, want %q", c.head, got, c.media)
		}
		if a, b := exact.Decoder(c.media), scaled.Decoder(c.media); a != c.exact || b != c.scaled {
			t.Errorf("%q is decoded by %q and %q, want %q and %q", c.media, a, b, c.exact, c.scaled)
		}
		if c.media != "" && (!slices.Contains(exact.Identities(), c.exact) || !slices.Contains(scaled.Identities(), c.scaled)) {
			t.Errorf("the plans' identities lack the decoder of %s: %q, %q", c.media, exact.Identities(), scaled.Identities())
		}
	}
	if got := MediaTypes(); !slices.Equal(got, []string{"image/jpeg", "image/png", "image/webp", "image/gif"}) {
		t.Errorf("types are %q", got)
	}
	if _, rest := mustParse(t, `{"op":"DecodeImage"},{"op":"ToDtype","dtype":"float32"}`).Cut(); rest.Decoder("image/jpeg") != "" {
		t.Error("a tail decodes")
	}
}
