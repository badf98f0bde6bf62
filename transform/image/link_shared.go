//go:build stepahead_shared

package image

// #cgo LDFLAGS: -ljpeg -lpng16 -lz -lm
import "C"
