// Package encode knows how to write JPEG and WebP files of every shape that decoders meet: all sampling
// factors, progressive, arithmetic, restart markers, CMYK; lossless, alpha, loop filters. It serves tests
// and benchmarks alone.
package encode

// #cgo CFLAGS: -O2 -std=gnu11 -Wall -Wextra -Wno-clobbered
// #include <stdlib.h>
// #include "encode.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Space is the colour space of a file.
type Space int

// The colour spaces. CMYK and YCCK take four input channels, all others three.
const (
	YCbCr Space = iota
	Gray
	RGB
	CMYK
	YCCK
)

// Options is the shape of a file. The zero value is a baseline 4:4:4 file of quality 90.
type Options struct {
	Space       Space
	Sampling    [4][2]int // horizontal and vertical factor of each component, 1 to 4; 0: 1
	Quality     int       // 1 to 100; 0: 90
	Progressive bool
	Arithmetic  bool
	Restart     int // MCUs between restart markers; 0: none
}

// JPEG encodes width x height pixels, 8 bits a channel, rows without gaps. An error names what the
// library does not like about the options.
func JPEG(pixels []byte, width, height int, o Options) ([]byte, error) {
	channels := 3
	if o.Space == CMYK || o.Space == YCCK {
		channels = 4
	}
	if len(pixels) != width*height*channels {
		return nil, fmt.Errorf("encode.JPEG: %d bytes for %d x %d pixels of %d channels", len(pixels), width, height, channels)
	}
	c := C.en_options{space: C.int(o.Space), quality: C.int(o.Quality), restart: C.int(o.Restart)}
	if o.Quality == 0 {
		c.quality = 90
	}
	if o.Progressive {
		c.progressive = 1
	}
	if o.Arithmetic {
		c.arithmetic = 1
	}
	for i, s := range o.Sampling {
		c.h[i], c.v[i] = C.int(max(s[0], 1)), C.int(max(s[1], 1))
	}
	var size C.size_t
	var text [C.EN_TEXT]C.char
	data := C.en_jpeg((*C.uint8_t)(unsafe.SliceData(pixels)), C.int(width), C.int(height), &c, &size, &text[0])
	if data == nil {
		return nil, fmt.Errorf("encode.JPEG: %d x %d, %+v: %s", width, height, o, C.GoString(&text[0]))
	}
	defer C.free(unsafe.Pointer(data))
	return C.GoBytes(unsafe.Pointer(data), C.int(size)), nil
}
