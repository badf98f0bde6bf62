package foreign

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/binfmt"
)

// ScalarKind is the kind of values that WebDataset's decoders make of a file, by what follows the first dot of its name: "" if it is
// no scalar.
func ScalarKind(ext string) binfmt.Kind {
	switch ext[strings.LastIndexByte(ext, '.')+1:] {
	case "cls", "cls2", "class", "count", "index", "inx", "id":
		return binfmt.Int64
	case "txt", "text", "transcript", "json", "jsn":
		return binfmt.UTF8
	}
	return ""
}

// Scalar reads a value of a kind that ScalarKind gives. What is none is left to be a media field.
func Scalar(kind binfmt.Kind, data []byte) (binfmt.Value, bool) {
	if kind == binfmt.Int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		return binfmt.Value{Kind: kind, Int: n}, err == nil
	}
	return binfmt.Value{Kind: kind, Str: string(data)}, len(data) <= binfmt.MaxText && utf8.Valid(data)
}

// NamedFiles are the renamings of containers whose fields are the ends of files' names: what training code expects them to be called
// in a packed dataset.
func NamedFiles() []Rename {
	return []Rename{
		{Field: "image", From: []string{"jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "ppm", "pgm"}},
		{Field: binfmt.LabelField, From: []string{"cls"}},
	}
}
