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

#endif
