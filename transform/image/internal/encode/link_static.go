//go:build !stepahead_shared

package encode

// #cgo LDFLAGS: -l:libjpeg.a
import "C"
