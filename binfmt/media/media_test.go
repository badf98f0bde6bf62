package media

import "testing"

func TestType(t *testing.T) {
	for head, want := range map[string]string{
		"":                                     Unknown,
		"\xff\xd8\xff\xe0":                     "image/jpeg",
		"\x89PNG\r\n\x1a\n....":                "image/png",
		"\x89PNG":                              Unknown,
		"RIFF....WEBPVP8 ":                     "image/webp",
		"RIFF....WAVEfmt ":                     "audio/wav",
		"RIFF....XXXX":                         Unknown,
		"....ftypavif....":                     "image/avif",
		"....ftypisom....":                     "video/mp4",
		"....ftypqt  ....":                     "video/quicktime",
		"BM\x10\x20\x00\x00\x00\x00\x00\x0012": "image/bmp",
		"BMessage to you":                      Unknown,
		"<!DOCTYPE html>":                      Unknown,
		"fLaC":                                 "audio/flac",
	} {
		if got := Type([]byte(head)); got != want {
			t.Errorf("%q is %s, want %s", head, got, want)
		}
	}
}
