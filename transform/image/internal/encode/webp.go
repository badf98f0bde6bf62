package encode

// #include <stdlib.h>
// #include "encode.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// WebPOptions is the shape of a WebP file. The zero value is a lossy file without alpha of quality 90.
type WebPOptions struct {
	Lossless bool
	Alpha    bool // else the fourth channel is left out
	Quality  int  // 1 to 100; 0: 90

	// Of lossy files.
	Segments     int  // 1 to 4; 0: 1
	SimpleFilter bool // the loop filter that touches luma alone
	Filter       int  // its strength, 0 (none) to 100
	Partitions   int  // logarithm of the number of partitions, 0 to 3
	AlphaQuality int  // 1 to 100; 0: 100, lossless
}

// WebP encodes width x height RGBA pixels, rows without gaps.
func WebP(rgba []byte, width, height int, o WebPOptions) ([]byte, error) {
	if len(rgba) != 4*width*height {
		return nil, fmt.Errorf("encode.WebP: %d bytes for %d x %d pixels", len(rgba), width, height)
	}
	flag := func(b bool) C.int {
		if b {
			return 1
		}
		return 0
	}
	or := func(v, d int) C.int {
		if v == 0 {
			return C.int(d)
		}
		return C.int(v)
	}
	c := C.en_webp_options{
		lossless: flag(o.Lossless), alpha: flag(o.Alpha), quality: or(o.Quality, 90), segments: or(o.Segments, 1),
		filter_type: flag(!o.SimpleFilter), filter_strength: C.int(o.Filter), partitions: C.int(o.Partitions), alpha_quality: or(o.AlphaQuality, 100),
	}
	var size C.size_t
	var text [C.EN_TEXT]C.char
	data := C.en_webp((*C.uint8_t)(unsafe.SliceData(rgba)), C.int(width), C.int(height), &c, &size, &text[0])
	if data == nil {
		return nil, fmt.Errorf("encode.WebP: %d x %d, %+v: %s", width, height, o, C.GoString(&text[0]))
	}
	defer C.free(unsafe.Pointer(data))
	return C.GoBytes(unsafe.Pointer(data), C.int(size)), nil
}
