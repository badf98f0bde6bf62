package image

// #cgo CFLAGS: -O3 -std=gnu11 -Wall -Wextra -Wno-clobbered
// #include <stdlib.h>
// #include "stage.h"
// #include "resample.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/stepahead-io/stepahead/transform"
)

// variant numbers a set of kernels; the numbers are those of resample.h.
type variant int32

const (
	scalar variant = C.SA_SCALAR
	sse41  variant = C.SA_SSE41
	avx2   variant = C.SA_AVX2
	neon   variant = C.SA_NEON
)

func (v variant) String() string {
	return map[variant]string{scalar: "scalar", sse41: "SSE4.1", avx2: "AVX2", neon: "NEON"}[v]
}

// available reports whether this processor has the variant.
func (v variant) available() bool { return C.sa_kernels_of(C.int32_t(v)) != nil }

// bestVariant returns the fastest kernels of this processor.
func bestVariant() variant { return variant(C.sa_best_variant()) }

// picture is an opened image: its header is read, its pixels are not. It is used once, by one
// goroutine, and closed.
type picture struct {
	c             *C.sa_picture
	name          string // of the format, for messages
	in            []byte
	width, height int
}

// openPicture reads the header of an encoded image. It keeps in, which must not change.
func openPicture(f format, in []byte, lim Limits) (*picture, error) {
	var failure C.sa_error
	limits := C.sa_limits{max_memory: C.int64_t(lim.MaxMemory), max_scans: C.int32_t(lim.MaxScans)}
	c := C.sa_open(f.code, bytePointer(in), C.size_t(len(in)), limits, &failure)
	if c == nil {
		return nil, failed(f.name, &failure)
	}
	return &picture{c: c, name: f.name, in: in, width: int(c.header.width), height: int(c.header.height)}, nil
}

// openPixels gives finished RGB pixels the face of a picture.
func openPixels(in []byte, width, height int) (*picture, error) {
	var failure C.sa_error
	c := C.sa_raw_open(C.int32_t(width), C.int32_t(height), &failure)
	if c == nil {
		return nil, failed("pixels", &failure)
	}
	return &picture{c: c, name: "pixels", in: in, width: width, height: height}, nil
}

// close frees the decoder; a second call does nothing.
func (p *picture) close() {
	if p.c != nil {
		C.sa_close(p.c)
		p.c = nil
	}
}

// run executes a stage into out, which must hold exactly the stage's result.
func (p *picture) run(s *stage, v variant, lim Limits, out []byte) error {
	t := s.tables()
	c := C.sa_stage{
		box:              cBox(t.source),
		horizontal_count: C.int32_t(t.horizontal.count), horizontal_stride: C.int32_t(t.horizontal.stride),
		vertical_count: C.int32_t(t.vertical.count), vertical_stride: C.int32_t(t.vertical.stride),
		vertical_first: cBool(s.verticalFirst()),
		mirror:         cBool(s.mirror && t.horizontal.count == 0),
		made_w:         C.int32_t(s.window.W), made_h: C.int32_t(s.window.H),
		at_x: C.int32_t(s.atX), at_y: C.int32_t(s.atY), out_w: C.int32_t(s.outW), out_h: C.int32_t(s.outH),
		variant:    C.int32_t(v),
		max_memory: C.int64_t(lim.MaxMemory),
	}
	if want := s.bytes(); int64(len(out)) != want {
		panic(fmt.Sprintf("image: the result has %d bytes, the stage makes %d", len(out), want))
	}
	if C.sa_run(p.c, bytePointer(p.in), C.size_t(len(p.in)), &c,
		(*C.int32_t)(unsafe.SliceData(t.index)), (*C.int16_t)(unsafe.SliceData(t.coef)), bytePointer(out)) < 0 {
		return failed(p.name, &p.c.error)
	}
	return nil
}

func bytePointer(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(b)) }

func cBox(b transform.Box) C.sa_box {
	return C.sa_box{C.int32_t(b.X), C.int32_t(b.Y), C.int32_t(b.W), C.int32_t(b.H)}
}

func cBool(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

// failed makes the C side's failure an error that names the format.
func failed(format string, e *C.sa_error) error {
	kinds := map[C.int32_t]transform.ErrorKind{
		C.SA_TRUNCATED:   transform.KindTruncated,
		C.SA_UNSUPPORTED: transform.KindUnsupported,
		C.SA_LIMIT:       transform.KindLimit,
		C.SA_MEMORY:      transform.KindCrash, // of this machine; elsewhere, or later, the sample may be fine
	}
	kind, ok := kinds[e.kind]
	if !ok {
		kind = transform.KindDecode
	}
	return &transform.Error{Kind: kind, Op: "DecodeImage", Detail: format + ": " + C.GoString(&e.text[0])}
}
