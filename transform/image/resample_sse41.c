#if defined(__x86_64__)
#include "resample.h"

#include <smmintrin.h>
#include <stddef.h>
#include <string.h>

#define TARGET __attribute__((target("sse4.1")))

/* The sums of one output for one row: R G B and nothing, 32 bits each. */
typedef struct {
  __m128i high, low;
} sums;

TARGET static inline __m128i pair_of(const int16_t *coef) {
  int32_t both;
  memcpy(&both, coef, sizeof both);
  return _mm_set1_epi32(both);
}

TARGET static inline void add(sums *s, __m128i pixels, __m128i high, __m128i low) {
  s->high = _mm_add_epi32(s->high, _mm_madd_epi16(pixels, high));
  s->low = _mm_add_epi32(s->low, _mm_madd_epi16(pixels, low));
}

TARGET static inline __m128i value(sums s) {
  return _mm_srai_epi32(_mm_add_epi32(_mm_slli_epi32(s.high, SA_SPLIT), s.low), SA_BITS);
}

/* Two neighbouring pixels as 16-bit pairs: the first two of four, then the others. */
TARGET static inline __m128i near(__m128i pixels) {
  return _mm_shuffle_epi8(pixels, _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
}

TARGET static inline __m128i far(__m128i pixels) {
  return _mm_shuffle_epi8(pixels, _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
}

/* output makes one output of two rows. */
TARGET static inline void output(const uint8_t *const *src, ptrdiff_t at, const int16_t *k, int32_t pairs, __m128i *first, __m128i *second) {
  sums s[2] = {{_mm_setzero_si128(), _mm_set1_epi32(1 << (SA_BITS - 1))}, {_mm_setzero_si128(), _mm_set1_epi32(1 << (SA_BITS - 1))}};
  for (; pairs >= 2; pairs -= 2, k += 8, at += 12) {
    const __m128i h0 = pair_of(k), l0 = pair_of(k + 2), h1 = pair_of(k + 4), l1 = pair_of(k + 6);
    for (int r = 0; r < 2; r++) {
      const __m128i x = _mm_loadu_si128((const __m128i *)(src[r] + at));
      add(&s[r], near(x), h0, l0);
      add(&s[r], far(x), h1, l1);
    }
  }
  if (pairs > 0) {
    const __m128i h = pair_of(k), l = pair_of(k + 2);
    for (int r = 0; r < 2; r++) add(&s[r], near(_mm_loadu_si128((const __m128i *)(src[r] + at))), h, l);
  }
  *first = value(s[0]);
  *second = value(s[1]);
}

/* store4 packs four outputs of a row to 12 bytes and writes 16. */
TARGET static inline void store4(uint8_t *to, const __m128i *v) {
  const __m128i drop = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const __m128i x = _mm_packus_epi16(_mm_packs_epi32(v[0], v[1]), _mm_packs_epi32(v[2], v[3]));
  _mm_storeu_si128((__m128i *)to, _mm_shuffle_epi8(x, drop));
}

TARGET static inline void two_rows(uint8_t *const *dst, const uint8_t *const *src, const sa_axis *a) {
  const ptrdiff_t stride = 4 * (ptrdiff_t)a->stride;
  const int16_t *k = a->coef;
  for (int32_t o = 0; o < a->count; o += 4) {
    const int32_t *first = a->first + o, *pairs = a->pairs + o;
    const int32_t most = sa_most(pairs);
    __m128i x[4], y[4];
    if (a->stride >= 2 && most <= 2)
      for (int i = 0; i < 4; i++, k += stride) output(src, first[i], k, 2, &x[i], &y[i]);
    else if (a->stride >= 3 && most == 3)
      for (int i = 0; i < 4; i++, k += stride) output(src, first[i], k, 3, &x[i], &y[i]);
    else
      for (int i = 0; i < 4; i++, k += stride) output(src, first[i], k, pairs[i], &x[i], &y[i]);
    store4(dst[0] + 3 * (ptrdiff_t)o, x);
    store4(dst[1] + 3 * (ptrdiff_t)o, y);
  }
}

TARGET static void horizontal(uint8_t *const *dst, const uint8_t *const *src, const sa_axis *a) {
  two_rows(dst, src, a);
  two_rows(dst + 2, src + 2, a);
}

TARGET static void vertical(uint8_t *dst, const uint8_t *const *src, const int16_t *coef, int32_t pairs, int32_t bytes) {
  const __m128i half = _mm_set1_epi32(1 << (SA_BITS - 1)), zero = _mm_setzero_si128();
  int32_t x = 0;
  for (; x + 16 <= bytes; x += 16) {
    sums s[4] = {{zero, half}, {zero, half}, {zero, half}, {zero, half}};
    for (int32_t p = 0; p < pairs; p++) {
      const __m128i h = pair_of(coef + 4 * p), l = pair_of(coef + 4 * p + 2);
      const __m128i a = _mm_loadu_si128((const __m128i *)(src[2 * p] + x)), b = _mm_loadu_si128((const __m128i *)(src[2 * p + 1] + x));
      const __m128i left = _mm_unpacklo_epi8(a, b), right = _mm_unpackhi_epi8(a, b);
      add(&s[0], _mm_unpacklo_epi8(left, zero), h, l);
      add(&s[1], _mm_unpackhi_epi8(left, zero), h, l);
      add(&s[2], _mm_unpacklo_epi8(right, zero), h, l);
      add(&s[3], _mm_unpackhi_epi8(right, zero), h, l);
    }
    _mm_storeu_si128((__m128i *)(dst + x),
                     _mm_packus_epi16(_mm_packs_epi32(value(s[0]), value(s[1])), _mm_packs_epi32(value(s[2]), value(s[3]))));
  }
  sa_vertical_tail(dst, src, coef, pairs, x, bytes);
}

const sa_kernels sa_kernels_sse41 = {horizontal, vertical};
#else
typedef int sa_nothing_here;
#endif
