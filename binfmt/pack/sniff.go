package pack

import "bytes"

// unknownType is the type of content that is not recognised.
const unknownType = "application/octet-stream"

// sniffLen is how many first bytes mediaType looks at.
const sniffLen = 64

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

// mediaType tells the type of a file by its first bytes.
func mediaType(head []byte) string {
	for _, s := range signatures {
		if bytes.HasPrefix(head, []byte(s.magic)) {
			return s.typ
		}
	}
	if len(head) < 12 {
		return unknownType
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
	return unknownType
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
