#include "resample.h"

#include <stddef.h>

static inline uint32_t whole(const int16_t *coef, int tap) {
  return ((uint32_t)(int32_t)coef[tap] << SA_SPLIT) + (uint32_t)coef[tap + 2];
}

static void horizontal_row(uint8_t *dst, const uint8_t *src, const sa_axis *a) {
  const int16_t *row = a->coef;
  for (int32_t o = 0; o < a->count; o++, dst += 3, row += 4 * (ptrdiff_t)a->stride) {
    const uint8_t *from = src + a->first[o];
    const int16_t *k = row;
    uint32_t r = 1u << (SA_BITS - 1), g = r, b = r;
    for (int32_t p = a->pairs[o]; p > 0; p--, k += 4, from += 6) {
      const uint32_t k0 = whole(k, 0), k1 = whole(k, 1);
      r += from[0] * k0 + from[3] * k1;
      g += from[1] * k0 + from[4] * k1;
      b += from[2] * k0 + from[5] * k1;
    }
    dst[0] = sa_clamp((int32_t)r >> SA_BITS);
    dst[1] = sa_clamp((int32_t)g >> SA_BITS);
    dst[2] = sa_clamp((int32_t)b >> SA_BITS);
  }
}

static void horizontal(uint8_t *const *dst, const uint8_t *const *src, const sa_axis *a) {
  for (int i = 0; i < SA_ROWS; i++) horizontal_row(dst[i], src[i], a);
}

static void vertical(uint8_t *dst, const uint8_t *const *src, const int16_t *coef, int32_t pairs, int32_t bytes) {
  enum { BLOCK = 64 };
  int32_t x = 0;
  for (; x + BLOCK <= bytes; x += BLOCK) {
    uint32_t sum[BLOCK];
    for (int i = 0; i < BLOCK; i++) sum[i] = 1u << (SA_BITS - 1);
    for (int32_t p = 0; p < pairs; p++) {
      const uint8_t *a = src[2 * p] + x, *b = src[2 * p + 1] + x;
      const uint32_t k0 = whole(coef + 4 * p, 0), k1 = whole(coef + 4 * p, 1);
      for (int i = 0; i < BLOCK; i++) sum[i] += a[i] * k0 + b[i] * k1;
    }
    for (int i = 0; i < BLOCK; i++) dst[x + i] = sa_clamp((int32_t)sum[i] >> SA_BITS);
  }
  sa_vertical_tail(dst, src, coef, pairs, x, bytes);
}

const sa_kernels sa_kernels_scalar = {horizontal, vertical};
