#if defined(__aarch64__)
#include "resample.h"

#include <arm_neon.h>
#include <stddef.h>
#include <string.h>

static inline int32_t whole(const int16_t *coef, int tap) {
  return (int32_t)(((uint32_t)(int32_t)coef[tap] << SA_SPLIT) + (uint32_t)coef[tap + 2]);
}

/* pixel loads four bytes, of which three are a pixel, as 32-bit numbers. */
static inline int32x4_t pixel(const uint8_t *from) {
  uint32_t bytes;
  memcpy(&bytes, from, sizeof bytes);
  return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(bytes))))));
}

static inline uint8x8_t packed(int32x4_t a, int32x4_t b) {
  return vqmovun_s16(vcombine_s16(vqmovn_s32(vshrq_n_s32(a, SA_BITS)), vqmovn_s32(vshrq_n_s32(b, SA_BITS))));
}

static void horizontal(uint8_t *const *dst, const uint8_t *const *src, const sa_axis *a) {
  const int16_t *row = a->coef;
  for (int32_t o = 0; o < a->count; o++, row += 4 * (ptrdiff_t)a->stride) {
    const int16_t *k = row;
    ptrdiff_t at = a->first[o];
    int32x4_t s[SA_ROWS];
    for (int r = 0; r < SA_ROWS; r++) s[r] = vdupq_n_s32(1 << (SA_BITS - 1));
    for (int32_t p = a->pairs[o]; p > 0; p--, k += 4, at += 6) {
      const int32_t k0 = whole(k, 0), k1 = whole(k, 1);
      for (int r = 0; r < SA_ROWS; r++) s[r] = vmlaq_n_s32(vmlaq_n_s32(s[r], pixel(src[r] + at), k0), pixel(src[r] + at + 3), k1);
    }
    for (int r = 0; r < SA_ROWS; r++) {
      const uint32_t bytes = vget_lane_u32(vreinterpret_u32_u8(packed(s[r], s[r])), 0);
      memcpy(dst[r] + 3 * (ptrdiff_t)o, &bytes, sizeof bytes);
    }
  }
}

static inline void add(int32x4_t *s, uint8x16_t v, int32_t k) {
  const uint16x8_t low = vmovl_u8(vget_low_u8(v)), high = vmovl_u8(vget_high_u8(v));
  s[0] = vmlaq_n_s32(s[0], vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))), k);
  s[1] = vmlaq_n_s32(s[1], vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(low))), k);
  s[2] = vmlaq_n_s32(s[2], vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))), k);
  s[3] = vmlaq_n_s32(s[3], vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(high))), k);
}

static void vertical(uint8_t *dst, const uint8_t *const *src, const int16_t *coef, int32_t pairs, int32_t bytes) {
  int32_t x = 0;
  for (; x + 16 <= bytes; x += 16) {
    int32x4_t s[4];
    for (int i = 0; i < 4; i++) s[i] = vdupq_n_s32(1 << (SA_BITS - 1));
    for (int32_t p = 0; p < pairs; p++) {
      add(s, vld1q_u8(src[2 * p] + x), whole(coef + 4 * p, 0));
      add(s, vld1q_u8(src[2 * p + 1] + x), whole(coef + 4 * p, 1));
    }
    vst1q_u8(dst + x, vcombine_u8(packed(s[0], s[1]), packed(s[2], s[3])));
  }
  sa_vertical_tail(dst, src, coef, pairs, x, bytes);
}

const sa_kernels sa_kernels_neon = {horizontal, vertical};
#else
typedef int sa_nothing_here;
#endif
