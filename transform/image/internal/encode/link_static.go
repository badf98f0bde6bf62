//go:build !stepahead_shared

package encode

// #cgo LDFLAGS: -l:libjpeg.a -l:libwebp.a -lm -lpthread
import "C"
