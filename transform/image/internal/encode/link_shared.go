//go:build stepahead_shared

package encode

// #cgo LDFLAGS: -ljpeg -lwebp -lm
import "C"
