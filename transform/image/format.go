package image

// #include "stage.h"
import "C"

import (
	"fmt"
	"hash"

	"github.com/stepahead-io/stepahead/transform"
)

// format is a still-image format. The bytes decide which one a file has; its name never does.
type format struct {
	name  string
	at    int // where magic lies
	magic string
	code  C.int32_t // the decoder; 0: recognised, not decoded
}

// inGo is the code of formats that are decoded in Go.
const inGo = -1

// formats is the place where a new decoder is entered.
func formats() []format {
	return []format{
		{"jpeg", 0, "\xff\xd8\xff", C.SA_JPEG},
		{"png", 0, "\x89PNG\r\n\x1a\n", C.SA_PNG},
		{"webp", 8, "WEBPVP8", C.SA_WEBP},
		{"gif", 0, "GIF87a", inGo},
		{"gif", 0, "GIF89a", inGo},
		{"bmp", 0, "BM", 0},
		{"tiff", 0, "II*\x00", 0},
		{"tiff", 0, "MM\x00*", 0},
		{"jpeg-2000", 4, "jP  \r\n\x87\n", 0},
		{"jpeg-xl", 0, "\xff\x0a", 0},
		{"jpeg-xl", 4, "JXL \r\n\x87\n", 0},
		{"avif", 4, "ftypavif", 0},
		{"heif", 4, "ftyphei", 0},
		{"heif", 4, "ftypmif1", 0},
	}
}

// decoders says how the identity of each decoder is put to the test.
func (j job) decoders() map[string]func(h hash.Hash) {
	decodes := func(pattern string, d transform.DecodeImage) func(hash.Hash) {
		return func(h hash.Hash) { j.hashDecoded(h, "vectors/"+pattern, d) }
	}
	return map[string]func(hash.Hash){
		"jpeg/islow-fancy@1": decodes("jpeg-*", transform.DecodeImage{}),
		"jpeg/dct-scaled@1":  j.hashScaled,
		"png/libpng@1":       decodes("png-*", transform.DecodeImage{}),
		"webp/libwebp@1":     decodes("webp-*", transform.DecodeImage{}),
		"gif/go@1":           decodes("gif-*", transform.DecodeImage{}),
		"exif/orientation@1": decodes("exif-*", transform.DecodeImage{Orientation: "apply"}),

		"truncated/pil-fill@1": decodes("fill-*", transform.DecodeImage{Truncated: "fill"}),
	}
}

// sniff tells the format of an encoded image, or the error that says what it is instead.
func sniff(in []byte) (format, error) {
	for _, f := range formats() {
		if len(in) < f.at+len(f.magic) || string(in[f.at:f.at+len(f.magic)]) != f.magic {
			continue
		}
		if f.code == 0 {
			return f, refuse(transform.KindUnsupported, "this build does not decode %s; it decodes jpeg, png, webp and gif", f.name)
		}
		return f, nil
	}
	if len(in) == 0 {
		return format{}, refuse(transform.KindTruncated, "0 bytes")
	}
	return format{}, refuse(transform.KindUnsupported, "not an image in a known format: it begins with %q", in[:min(len(in), 12)])
}

func refuse(kind transform.ErrorKind, detail string, args ...any) error {
	return &transform.Error{Kind: kind, Op: "DecodeImage", Detail: fmt.Sprintf(detail, args...)}
}
