package image

// #cgo CFLAGS: -O3 -std=gnu11 -Wall -Wextra -Wno-clobbered
// #include <stdlib.h>
// #include "stage.h"
// #include "resample.h"
import "C"

import (
	"fmt"
	"runtime"
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

// picture is an image before or after its header is read; its pixels are not, unless they are all that there is. It is run
// once, by one goroutine, or closed.
type picture struct {
	c             *C.sa_picture // nil: in is not opened yet, or finished pixels
	name          string        // of the format, for messages
	code          C.int32_t     // of the decoder
	in            []byte
	decoding      transform.DecodeImage // the zero value: as the defaults
	gif           *gif                  // of what is decoded in Go, once it is opened
	width, height int                   // as shown
	turn          turn                  // of what c gives
	x, y          int                   // where finished pixels lie in the picture that a stage speaks of
	err           error
}

// pixelsOf gives finished RGB pixels the face of a picture.
func pixelsOf(in []byte, width, height int) *picture {
	return &picture{name: "pixels", code: C.SA_PIXELS, in: in, width: width, height: height}
}

// openAll reads the headers of encoded pictures that have no err yet, in one call into C, and sets their size or err.
func openAll(pictures []*picture, lim Limits) {
	var pin runtime.Pinner
	defer pin.Unpin()
	var todo []*picture
	var args []C.sa_opening
	for _, p := range pictures {
		if p.err != nil || p.code == C.SA_PIXELS || p.code == inGo {
			continue
		}
		todo = append(todo, p)
		args = append(args, C.sa_opening{
			in: (*C.uint8_t)(pinned(&pin, p.in)), n: C.size_t(len(p.in)), format: p.code,
			limits: C.sa_limits{max_memory: C.int64_t(p.memory(lim)), max_scans: C.int32_t(lim.MaxScans), fill: cBool(p.decoding.Truncated == "fill")},
		})
	}
	if len(args) == 0 {
		return
	}
	C.sa_open_all(&args[0], C.int32_t(len(args)))
	for i, p := range todo {
		if p.c = args[i].picture; p.c == nil {
			p.err = failed(p.name, &args[i].error)
			continue
		}
		p.width, p.height = int(p.c.header.width), int(p.c.header.height)
	}
}

// close frees the decoder; a second call does nothing.
func (p *picture) close() {
	if p.c != nil {
		C.sa_close(p.c)
		p.c = nil
	}
}

// running is a stage of a picture, to be run into out, which holds exactly the stage's result.
type running struct {
	picture *picture
	stage   *stage
	out     []byte
}

// runAll runs stages, in order and in one call into C, closes their pictures and sets the err of those that failed.
func runAll(all []running, v variant, lim Limits) {
	if len(all) == 0 {
		return
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	args := make([]C.sa_running, len(all))
	for i, r := range all {
		if want := r.stage.bytes(); int64(len(r.out)) != want {
			panic(fmt.Sprintf("image: the result has %d bytes, the stage makes %d", len(r.out), want))
		}
		t := r.stage.tables()
		t.source.X -= r.picture.x
		t.source.Y -= r.picture.y
		args[i] = C.sa_running{
			picture: r.picture.c, width: C.int32_t(r.picture.width), height: C.int32_t(r.picture.height),
			in: (*C.uint8_t)(pinned(&pin, r.picture.in)), n: C.size_t(len(r.picture.in)),
			stage: r.stage.c(t, v, lim),
			index: (*C.int32_t)(pinned(&pin, t.index)), coef: (*C.int16_t)(pinned(&pin, t.coef)),
			out: (*C.uint8_t)(pinned(&pin, r.out)),
		}
	}
	C.sa_run_all(&args[0], C.int32_t(len(args)))
	for i, r := range all {
		r.picture.c = nil
		if args[i].error.kind != C.SA_OK {
			r.picture.err = failed(r.picture.name, &args[i].error)
		}
	}
}

// c is the stage as C knows it.
func (s *stage) c(t tables, v variant, lim Limits) C.sa_stage {
	return C.sa_stage{
		denominator:      C.int32_t(s.denominator),
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
}

// pinned returns where s lies, and keeps it there until p.Unpin, so that C structures may point to it.
func pinned[T any](p *runtime.Pinner, s []T) *T {
	at := unsafe.SliceData(s)
	if cap(s) > 0 {
		p.Pin(at)
	}
	return at
}

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
