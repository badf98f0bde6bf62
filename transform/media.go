package transform

import "slices"

// decoders are the formats that DecodeImage reads, each with its media type, with what tells it by the first bytes, and with
// the identity of its decoder.
var decoders = []struct {
	media    string
	at       int // where magic lies
	magic    string
	identity string
}{
	{"image/jpeg", 0, "\xff\xd8\xff", "jpeg/islow-fancy@1"},
	{"image/png", 0, "\x89PNG\r\n\x1a\n", "png/libpng@1"},
	{"image/webp", 8, "WEBPVP8", "webp/libwebp@1"},
	{"image/gif", 0, "GIF87a", "gif/go@1"},
	{"image/gif", 0, "GIF89a", "gif/go@1"},
}

// MediaType tells an encoded image by its first bytes: "image/jpeg", "image/png", "image/webp", "image/gif", or "" for
// anything else, which DecodeImage refuses wherever it is tried.
func MediaType(in []byte) string {
	for _, d := range decoders {
		if len(in) >= d.at+len(d.magic) && string(in[d.at:d.at+len(d.magic)]) == d.magic {
			return d.media
		}
	}
	return ""
}

// MediaTypes returns every type that [MediaType] tells, but for "".
func MediaTypes() []string {
	var all []string
	for _, d := range decoders {
		all = append(all, d.media)
	}
	return slices.Compact(all)
}

// Decoder returns the identity of the one decoder that the plan puts content of a media type through, "" for a type that it
// does not decode. It is among Identities; the other decoders there play no part for such content.
func (p *Plan) Decoder(media string) string {
	if p.cut == 0 {
		return ""
	}
	return p.Decode().decoder(media)
}

func (o DecodeImage) decoder(media string) string {
	if media == "image/jpeg" && o.JPEG == "dct-scaled" {
		return "jpeg/dct-scaled@1"
	}
	for _, d := range decoders {
		if d.media == media {
			return d.identity
		}
	}
	return ""
}
