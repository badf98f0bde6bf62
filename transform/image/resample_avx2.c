#if defined(__x86_64__)
#include "resample.h"

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

#define TARGET __attribute__((target("avx2")))

/* The sums of one output for two rows, one row a lane: R G B and nothing, 32 bits each. */
typedef struct {
  __m256i high, low;
} sums;

TARGET static inline __m256i pair_of(const int16_t *coef) {
  int32_t both;
  memcpy(&both, coef, sizeof both);
  return _mm256_set1_epi32(both);
}

TARGET static inline __m256i two_rows(const uint8_t *a, const uint8_t *b) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)), _mm_loadu_si128((const __m128i *)b), 1);
}

TARGET static inline void add(sums *s, __m256i pixels, __m256i high, __m256i low) {
  s->high = _mm256_add_epi32(s->high, _mm256_madd_epi16(pixels, high));
  s->low = _mm256_add_epi32(s->low, _mm256_madd_epi16(pixels, low));
}

TARGET static inline __m256i value(sums s) {
  return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(s.high, SA_SPLIT), s.low), SA_BITS);
}

/* store4 packs four outputs of two rows to 12 bytes a row and writes 16. */
TARGET static inline void store4(uint8_t *a, uint8_t *b, const __m256i *v) {
  const __m256i drop = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1,
                                        -1, -1, -1);
  __m256i x = _mm256_packus_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  x = _mm256_shuffle_epi8(x, drop);
  _mm_storeu_si128((__m128i *)a, _mm256_castsi256_si128(x));
  _mm_storeu_si128((__m128i *)b, _mm256_extracti128_si256(x, 1));
}

/* What the horizontal pass makes 16-bit pairs of two neighbouring pixels with: the first two of four, then the others. */
#define NEAR 0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1
#define FAR 6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1

TARGET static inline __m256i near(__m256i pixels) { return _mm256_shuffle_epi8(pixels, _mm256_setr_epi8(NEAR, NEAR)); }
TARGET static inline __m256i far(__m256i pixels) { return _mm256_shuffle_epi8(pixels, _mm256_setr_epi8(FAR, FAR)); }

/* output makes one output of the four rows whose taps begin at s. */
TARGET static inline void output(const uint8_t *const *s, ptrdiff_t at, const int16_t *k, int32_t pairs, __m256i *top, __m256i *bottom) {
  sums t = {_mm256_setzero_si256(), _mm256_set1_epi32(1 << (SA_BITS - 1))}, b = t;
  for (; pairs >= 2; pairs -= 2, k += 8, at += 12) {
    const __m256i x = two_rows(s[0] + at, s[1] + at), y = two_rows(s[2] + at, s[3] + at);
    const __m256i h0 = pair_of(k), l0 = pair_of(k + 2), h1 = pair_of(k + 4), l1 = pair_of(k + 6);
    add(&t, near(x), h0, l0);
    add(&b, near(y), h0, l0);
    add(&t, far(x), h1, l1);
    add(&b, far(y), h1, l1);
  }
  if (pairs > 0) {
    const __m256i h = pair_of(k), l = pair_of(k + 2);
    add(&t, near(two_rows(s[0] + at, s[1] + at)), h, l);
    add(&b, near(two_rows(s[2] + at, s[3] + at)), h, l);
  }
  *top = value(t);
  *bottom = value(b);
}

TARGET static void horizontal(uint8_t *const *dst, const uint8_t *const *src, const sa_axis *a) {
  const uint8_t *const s[SA_ROWS] = {src[0], src[1], src[2], src[3]};
  const ptrdiff_t stride = 4 * (ptrdiff_t)a->stride;
  const int16_t *k = a->coef;
  for (int32_t o = 0; o < a->count; o += 4) {
    const int32_t *first = a->first + o, *pairs = a->pairs + o;
    const int32_t most = sa_most(pairs);
    __m256i top[4], bottom[4];
    if (a->stride >= 2 && most <= 2)
      for (int i = 0; i < 4; i++, k += stride) output(s, first[i], k, 2, &top[i], &bottom[i]);
    else if (a->stride >= 3 && most == 3)
      for (int i = 0; i < 4; i++, k += stride) output(s, first[i], k, 3, &top[i], &bottom[i]);
    else
      for (int i = 0; i < 4; i++, k += stride) output(s, first[i], k, pairs[i], &top[i], &bottom[i]);
    store4(dst[0] + 3 * (ptrdiff_t)o, dst[1] + 3 * (ptrdiff_t)o, top);
    store4(dst[2] + 3 * (ptrdiff_t)o, dst[3] + 3 * (ptrdiff_t)o, bottom);
  }
}

TARGET static void vertical(uint8_t *dst, const uint8_t *const *src, const int16_t *coef, int32_t pairs, int32_t bytes) {
  const __m256i half = _mm256_set1_epi32(1 << (SA_BITS - 1)), zero = _mm256_setzero_si256();
  int32_t x = 0;
  for (; x + 32 <= bytes; x += 32) {
    sums s[4] = {{zero, half}, {zero, half}, {zero, half}, {zero, half}};
    for (int32_t p = 0; p < pairs; p++) {
      const __m256i h = pair_of(coef + 4 * p), l = pair_of(coef + 4 * p + 2);
      const __m256i a = _mm256_loadu_si256((const __m256i *)(src[2 * p] + x)), b = _mm256_loadu_si256((const __m256i *)(src[2 * p + 1] + x));
      const __m256i left = _mm256_unpacklo_epi8(a, b), right = _mm256_unpackhi_epi8(a, b);
      add(&s[0], _mm256_unpacklo_epi8(left, zero), h, l);
      add(&s[1], _mm256_unpackhi_epi8(left, zero), h, l);
      add(&s[2], _mm256_unpacklo_epi8(right, zero), h, l);
      add(&s[3], _mm256_unpackhi_epi8(right, zero), h, l);
    }
    _mm256_storeu_si256((__m256i *)(dst + x), _mm256_packus_epi16(_mm256_packs_epi32(value(s[0]), value(s[1])),
                                                                  _mm256_packs_epi32(value(s[2]), value(s[3]))));
  }
  sa_vertical_tail(dst, src, coef, pairs, x, bytes);
}

const sa_kernels sa_kernels_avx2 = {horizontal, vertical};
#else
typedef int sa_nothing_here;
#endif
