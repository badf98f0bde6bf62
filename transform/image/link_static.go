//go:build !stepahead_shared

package image

// The image libraries are linked in, so that one worker program gives the same pixels wherever it is
// copied. Build with -tags stepahead_shared where the distribution has no static libraries.

// #cgo LDFLAGS: -l:libjpeg.a -l:libpng16.a -l:libwebpdemux.a -l:libwebp.a -l:libz.a -lm -lpthread
import "C"
