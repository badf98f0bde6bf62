package loader

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func widen16(dst *uint64, src *uint16, n int, most *[16]uint16)

//go:noescape
func widen32(dst *uint64, src *int32, n int, most *[8]uint32)

//go:noescape
func copyString(dst, src *byte, n int)

// lineAlign is the alignment that the vector stores need.
const lineAlign = 32

// widenPast is widen with stores that go past the caches, where the processor has them: a batch is larger than its
// share of the caches and nobody reads it soon, and ordinary stores would first read every line from memory. It does
// the first tokens and returns how many, none where it does not apply.
func widenPast(dtype string, dst, src []byte) (done int, largest uint64) {
	if !cpu.X86.HasAVX2 {
		return 0, 0
	}
	n := len(dst) / 8
	head := min(n, (lineAlign-addressOf(dst)%lineAlign)%lineAlign/8)
	body := (n - head) &^ 15
	if body == 0 {
		return 0, 0
	}
	to := (*uint64)(unsafe.Pointer(&dst[8*head]))
	switch dtype {
	case "uint16":
		_ = src[2*(head+body)-1]
		var most [16]uint16
		widen16(to, (*uint16)(unsafe.Pointer(&src[2*head])), body, &most)
		largest = uint64(slices.Max(most[:]))
	case "int32":
		_ = src[4*(head+body)-1]
		var most [8]uint32
		widen32(to, (*int32)(unsafe.Pointer(&src[4*head])), body, &most)
		largest = uint64(int64(int32(slices.Max(most[:]))))
	default:
		return 0, 0
	}
	return head + body, max(largest, widen(dtype, dst[:8*head], src))
}

// copyPast is copy by the processor's own instruction for it, where that is quick: rows as long as these go past the
// caches too, and faster than by vector stores. dst and src are equally long.
func copyPast(dst, src []byte) {
	if len(dst) == 0 || !cpu.X86.HasERMS {
		copy(dst, src)
		return
	}
	_ = src[len(dst)-1]
	copyString(&dst[0], &src[0], len(dst))
}

func addressOf(b []byte) int { return int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
