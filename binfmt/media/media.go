// Package media knows what files of pictures, video and audio say of themselves in their first bytes.
package media

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"io"
)

// Unknown is the type of content that is not recognised.
const Unknown = "application/octet-stream"

// SniffLen is how many first bytes Type looks at.
const SniffLen = 64

// signatures are the media types told by their first bytes; names are never asked.
var signatures = []struct{ magic, typ string }{
	{"\xff\xd8\xff", "image/jpeg"},
	{"\x89PNG\r\n\x1a\n", "image/png"},
	{"GIF87a", "image/gif"},
	{"GIF89a", "image/gif"},
	{"II*\x00", "image/tiff"},
	{"MM\x00*", "image/tiff"},
	{"\x00\x00\x00\x0cjP  \r\n\x87\n", "image/jp2"},
	{"\xff\x0a", "image/jxl"},
	{"\x00\x00\x00\x0cJXL \r\n\x87\n", "image/jxl"},
	{"\x1aE\xdf\xa3", "video/x-matroska"}, // WebM too
	{"fLaC", "audio/flac"},
	{"OggS", "application/ogg"},
	{"ID3", "audio/mpeg"},
	{"\xff\xfb", "audio/mpeg"},
	{"\xff\xf3", "audio/mpeg"},
	{"\xff\xf2", "audio/mpeg"},
}

// Type tells the media type of a file by its first bytes.
func Type(head []byte) string {
	for _, s := range signatures {
		if bytes.HasPrefix(head, []byte(s.magic)) {
			return s.typ
		}
	}
	if len(head) < 12 {
		return Unknown
	}
	switch kind := string(head[8:12]); {
	case string(head[:2]) == "BM" && string(head[6:10]) == "\x00\x00\x00\x00":
		return "image/bmp"
	case string(head[:4]) == "RIFF" && kind == "WEBP":
		return "image/webp"
	case string(head[:4]) == "RIFF" && kind == "WAVE":
		return "audio/wav"
	case string(head[:4]) == "RIFF" && kind == "AVI ":
		return "video/x-msvideo"
	case string(head[4:8]) == "ftyp":
		return brandType(kind)
	}
	return Unknown
}

// brandType tells the ISO media files apart by their major brand.
func brandType(brand string) string {
	switch brand {
	case "avif", "avis":
		return "image/avif"
	case "heic", "heix", "mif1", "msf1":
		return "image/heic"
	case "M4A ", "M4B ":
		return "audio/mp4"
	case "qt  ":
		return "video/quicktime"
	}
	return "video/mp4"
}

// Size returns the width and height in pixels that a picture's header claims, 0 where that is unknown or broken: whether a picture
// can be decoded is found out by who decodes it.
func Size(typ string, r io.Reader) (width, height uint32) {
	var c image.Config
	var err error
	switch typ {
	case "image/jpeg":
		c, err = jpeg.DecodeConfig(r)
	case "image/png":
		c, err = png.DecodeConfig(r)
	default:
		return 0, 0
	}
	if err != nil || c.Width <= 0 || c.Height <= 0 || c.Width > 1<<31-1 || c.Height > 1<<31-1 {
		return 0, 0
	}
	return uint32(c.Width), uint32(c.Height)
}
