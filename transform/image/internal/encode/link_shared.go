//go:build stepahead_shared

package encode

// #cgo LDFLAGS: -ljpeg
import "C"
