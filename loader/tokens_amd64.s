#include "textflag.h"

// widen16 and widen32 write with non-temporal stores (VMOVNTDQ), which do not read a line before they fill it. SFENCE puts
// them before all that follows. dst is aligned to 32 bytes, n a multiple of 16 and not 0.

// func widen16(dst *uint64, src *uint16, n int, most *[16]uint16)
TEXT ·widen16(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ most+24(FP), DX
	VPXOR Y8, Y8, Y8
loop16:
	VPMAXUW   (SI), Y8, Y8
	VPMOVZXWQ (SI), Y0
	VPMOVZXWQ 8(SI), Y1
	VPMOVZXWQ 16(SI), Y2
	VPMOVZXWQ 24(SI), Y3
	VMOVNTDQ  Y0, (DI)
	VMOVNTDQ  Y1, 32(DI)
	VMOVNTDQ  Y2, 64(DI)
	VMOVNTDQ  Y3, 96(DI)
	ADDQ      $32, SI
	ADDQ      $128, DI
	SUBQ      $16, CX
	JNZ       loop16
	VMOVDQU   Y8, (DX)
	SFENCE
	VZEROUPPER
	RET

// func widen32(dst *uint64, src *int32, n int, most *[8]uint32)
TEXT ·widen32(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ most+24(FP), DX
	VPXOR Y8, Y8, Y8
loop32:
	VPMAXUD   (SI), Y8, Y8
	VPMAXUD   32(SI), Y8, Y8
	VPMOVSXDQ (SI), Y0
	VPMOVSXDQ 16(SI), Y1
	VPMOVSXDQ 32(SI), Y2
	VPMOVSXDQ 48(SI), Y3
	VMOVNTDQ  Y0, (DI)
	VMOVNTDQ  Y1, 32(DI)
	VMOVNTDQ  Y2, 64(DI)
	VMOVNTDQ  Y3, 96(DI)
	ADDQ      $64, SI
	ADDQ      $128, DI
	SUBQ      $16, CX
	JNZ       loop32
	VMOVDQU   Y8, (DX)
	SFENCE
	VZEROUPPER
	RET

// func copyString(dst, src *byte, n int)
TEXT ·copyString(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	CLD
	REP; MOVSB
	RET
