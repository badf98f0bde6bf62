#ifndef STEPAHEAD_ENCODE_H
#define STEPAHEAD_ENCODE_H

#include <stddef.h>
#include <stdint.h>

enum { EN_TEXT = 256 };

typedef struct {
  int space, quality, progressive, arithmetic, restart;
  int h[4], v[4];
} en_options;

/* en_jpeg returns a block from malloc, or NULL and the reason in text (EN_TEXT bytes). */
uint8_t *en_jpeg(const uint8_t *pixels, int width, int height, const en_options *, size_t *size, char *text);

typedef struct {
  int lossless, alpha, quality;
  int segments, filter_type, filter_strength, partitions, alpha_quality;
} en_webp_options;

/* en_webp is the same for WebP; the pixels are RGBA. */
uint8_t *en_webp(const uint8_t *rgba, int width, int height, const en_webp_options *, size_t *size, char *text);

#endif
