/* The two passes of the resampler, on rows of 8-bit RGB. Coefficients have 22 fractional bits and
   are stored as two 16-bit halves, k = high * 2048 + low with 0 <= low < 2048, because that is what
   the multiply-and-add of 16-bit pairs can use. All variants give the same bytes: sums are taken
   modulo 2^32, so neither order nor splitting shows. */
#ifndef STEPAHEAD_RESAMPLE_H
#define STEPAHEAD_RESAMPLE_H

#include <stdint.h>

enum { SA_BITS = 22, SA_SPLIT = 11, SA_ROWS = 4, SA_SLACK = 32 };

/* Each output is a sum over pairs of neighbouring taps; a pair holds high0 high1 low0 low1. */
typedef struct {
  int32_t count;        /* outputs; of the horizontal pass a multiple of 4 */
  int32_t stride;       /* pairs that an output owns in coef */
  const int32_t *first; /* per output: first source byte (horizontal) or row (vertical) */
  const int32_t *pairs; /* per output: pairs that it really has; the others weigh nothing */
  const int16_t *coef;
} sa_axis;

typedef struct {
  /* horizontal filters SA_ROWS rows at once. Up to SA_SLACK bytes behind what a source row needs
     are read, and up to SA_SLACK bytes behind count * 3 are written. */
  void (*horizontal)(uint8_t *const *dst, const uint8_t *const *src, const sa_axis *);
  /* vertical makes one row of the given bytes from 2 * pairs rows and touches nothing else. */
  void (*vertical)(uint8_t *dst, const uint8_t *const *src, const int16_t *coef, int32_t pairs, int32_t bytes);
} sa_kernels;

/* The variants, by the numbers in cgo.go. */
enum { SA_SCALAR = 0, SA_SSE41 = 1, SA_AVX2 = 2, SA_NEON = 3 };

/* sa_kernels_of returns a variant, or NULL when this processor has not got it. */
const sa_kernels *sa_kernels_of(int32_t variant);
int32_t sa_best_variant(void);

extern const sa_kernels sa_kernels_scalar;
#if defined(__x86_64__)
extern const sa_kernels sa_kernels_sse41, sa_kernels_avx2;
#endif
#if defined(__aarch64__)
extern const sa_kernels sa_kernels_neon;
#endif

static inline uint8_t sa_clamp(int32_t v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

/* sa_most is the largest number of pairs of four outputs. Two pairs are enough for a triangle down to half the width, three to
   a third, and loops of known length cost up to a third less, though they add pairs that weigh nothing. */
static inline int32_t sa_most(const int32_t *pairs) {
  const int32_t a = pairs[0] > pairs[1] ? pairs[0] : pairs[1], b = pairs[2] > pairs[3] ? pairs[2] : pairs[3];
  return a > b ? a : b;
}

/* sa_vertical_tail makes the bytes from..bytes of a row one by one. */
static inline void sa_vertical_tail(uint8_t *dst, const uint8_t *const *src, const int16_t *coef, int32_t pairs, int32_t from,
                                    int32_t bytes) {
  for (int32_t x = from; x < bytes; x++) {
    uint32_t high = 0, low = 1u << (SA_BITS - 1);
    for (int32_t p = 0; p < pairs; p++) {
      const int32_t a = src[2 * p][x], b = src[2 * p + 1][x];
      high += (uint32_t)(a * coef[4 * p] + b * coef[4 * p + 1]);
      low += (uint32_t)(a * coef[4 * p + 2] + b * coef[4 * p + 3]);
    }
    dst[x] = sa_clamp((int32_t)((high << SA_SPLIT) + low) >> SA_BITS);
  }
}

#endif
