//go:build fuzzworker

// Command fuzzworker is the image pipeline as a library for libFuzzer, which `make fuzz-worker` builds and runs. It is
// built as a C archive; the fuzzer's main is Clang's.
package main

// #include <stdint.h>
// #include <stdlib.h>
// size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
import "C"

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image"
	"github.com/stepahead-io/stepahead/transform/image/internal/mutate"
	"github.com/stepahead-io/stepahead/transform/image/internal/oracle"
)

func main() {}

// limits are what an input may cost; `make fuzz-worker` gives the fuzzer a little more.
func limits() image.Limits {
	return image.Limits{MaxPixels: 1 << 16, MaxInput: 1 << 20, MaxOutput: 1 << 20, MaxMemory: 32 << 20, MaxScans: 20}
}

// pipeline is the code under test. Of the other ways that must give the same it tries the one that turn chooses: all of them
// would only make it slow.
func pipeline(turn int) oracle.Pipeline {
	ways := image.Ways(limits())
	return oracle.Pipeline{
		Run: func(plan *transform.Plan, key transform.Key, in, out []byte) (transform.TensorSpec, error) {
			return image.Run(plan, key, in, out, limits())
		},
		Same:      ways[turn%len(ways):][:1],
		MaxOutput: int(limits().MaxOutput),
		Alloc:     func(n int) []byte { return unsafe.Slice((*byte)(C.malloc(C.size_t(n))), n) },
		Free:      func(b []byte) { C.free(unsafe.Pointer(unsafe.SliceData(b))) },
	}
}

// LLVMFuzzerTestOneInput tries one input and ends the process if anything is wrong with what comes out.
//
//export LLVMFuzzerTestOneInput
func LLVMFuzzerTestOneInput(data *C.uint8_t, size C.size_t) C.int {
	before := cpuTime()
	err := pipeline(int(size)).Check(unsafe.Slice((*byte)(data), size))
	if took := cpuTime() - before; err == nil && took > slow {
		err = fmt.Errorf("an input of %d bytes took %v of CPU time", size, took)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FINDING:", err)
		C.abort()
	}
	return 0
}

// slow is what no input within the limits may cost, though all ways to run it are tried, with sanitizers. The fuzzer's own limit is by
// the clock, which says nothing on a busy machine.
const slow = 10 * time.Second

func cpuTime() time.Duration {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// LLVMFuzzerCustomMutator changes the control bytes or the image behind them.
//
//export LLVMFuzzerCustomMutator
func LLVMFuzzerCustomMutator(data *C.uint8_t, size, most C.size_t, seed C.uint) C.size_t {
	return change(unsafe.Slice((*byte)(data), most)[:size], nil, seed)
}

// LLVMFuzzerCustomCrossOver changes an input with pieces of another.
//
//export LLVMFuzzerCustomCrossOver
func LLVMFuzzerCustomCrossOver(a *C.uint8_t, n C.size_t, b *C.uint8_t, m C.size_t, to *C.uint8_t, most C.size_t, seed C.uint) C.size_t {
	out := unsafe.Slice((*byte)(to), most)
	out = out[:copy(out, unsafe.Slice((*byte)(a), n))]
	other := unsafe.Slice((*byte)(b), m)
	return change(out, other[min(len(other), oracle.Control):], seed)
}

// change changes an input in place, within its capacity, and returns its new size.
func change(in, other []byte, seed C.uint) C.size_t {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	n := min(len(in), oracle.Control)
	if n < oracle.Control || r.IntN(8) == 0 {
		control := learned(bytes.Clone(in[:n]), oracle.Control)
		control = append(control, make([]byte, oracle.Control-len(control))...)
		image := append(control, in[n:]...)
		return C.size_t(copy(in[:cap(in)], image))
	}
	image := mutate.Mutator{Bytes: learned}.Image(in[n:], other, cap(in)-n, r)
	return C.size_t(n + copy(in[n:cap(in)], image))
}

// learned lets the fuzzer change bytes, with what it has learned from comparisons.
func learned(in []byte, most int) []byte {
	buf := C.malloc(C.size_t(most + 1))
	defer C.free(buf)
	b := unsafe.Slice((*byte)(buf), most+1)
	n := copy(b[:most], in)
	return bytes.Clone(b[:C.LLVMFuzzerMutate((*C.uint8_t)(buf), C.size_t(n), C.size_t(most))])
}
