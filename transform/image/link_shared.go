//go:build stepahead_shared

package image

// #cgo LDFLAGS: -ljpeg -lpng16 -lwebpdemux -lwebp -lz -lm
import "C"
