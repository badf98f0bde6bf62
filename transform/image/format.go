package image

// #include "stage.h"
import "C"

import (
	"bytes"
	"fmt"
	"hash"

	"github.com/stepahead-io/stepahead/transform"
)

// format is a still-image format that is decoded here. The bytes decide which one a file has; its name never does.
type format struct {
	name string
	code C.int32_t // of the decoder
}

// inGo is the code of formats that are decoded in Go.
const inGo = -1

// formatOf returns the format of a media type, which [transform.MediaType] tells: the place where a new decoder is entered.
func formatOf(media string) (f format, decoded bool) {
	switch media {
	case "image/jpeg":
		return format{"jpeg", C.SA_JPEG}, true
	case "image/png":
		return format{"png", C.SA_PNG}, true
	case "image/webp":
		return format{"webp", C.SA_WEBP}, true
	case "image/gif":
		return format{"gif", inGo}, true
	}
	return format{}, false
}

// signature tells a format that is not decoded here, for a message's sake.
type signature struct {
	name  string
	at    int // where magic lies
	magic string
}

func undecoded() []signature {
	return []signature{
		{"bmp", 0, "BM"},
		{"tiff", 0, "II*\x00"},
		{"tiff", 0, "MM\x00*"},
		{"jpeg-2000", 4, "jP  \r\n\x87\n"},
		{"jpeg-xl", 0, "\xff\x0a"},
		{"jpeg-xl", 4, "JXL \r\n\x87\n"},
		{"avif", 4, "ftypavif"},
		{"heif", 4, "ftyphei"},
		{"heif", 4, "ftypmif1"},
	}
}

// decoders says how the identity of each decoder is put to the test.
func (j job) decoders() map[string]func(h hash.Hash) {
	decodes := func(pattern string, d transform.DecodeImage) func(hash.Hash) {
		return func(h hash.Hash) { j.hashDecoded(h, "vectors/"+pattern, d) }
	}
	return map[string]func(hash.Hash){
		"jpeg/islow-fancy@1":   decodes("jpeg-*", transform.DecodeImage{}),
		"jpeg/dct-scaled@1":    j.hashScaled,
		"png/libpng@1":         decodes("png-*", transform.DecodeImage{}),
		"webp/libwebp@1":       decodes("webp-*", transform.DecodeImage{}),
		"gif/go@1":             decodes("gif-*", transform.DecodeImage{}),
		"exif/orientation@1":   decodes("exif-*", transform.DecodeImage{Orientation: "apply"}),
		"truncated/pil-fill@1": j.hashFilled,
	}
}

// sniff tells the format of an encoded image, or the error that says what it is instead.
func sniff(in []byte) (format, error) {
	if f, decoded := formatOf(transform.MediaType(in)); decoded {
		return f, nil
	}
	for _, s := range undecoded() {
		if len(in) >= s.at && bytes.HasPrefix(in[s.at:], []byte(s.magic)) {
			return format{}, refuse(transform.KindUnsupported, "this build does not decode %s; it decodes jpeg, png, webp and gif", s.name)
		}
	}
	if len(in) == 0 {
		return format{}, refuse(transform.KindTruncated, "0 bytes")
	}
	return format{}, refuse(transform.KindUnsupported, "not an image in a known format: it begins with %q", in[:min(len(in), 12)])
}

func refuse(kind transform.ErrorKind, detail string, args ...any) error {
	return &transform.Error{Kind: kind, Op: "DecodeImage", Detail: fmt.Sprintf(detail, args...)}
}
