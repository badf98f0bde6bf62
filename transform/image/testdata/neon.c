/* Compares the NEON kernels with the scalar ones on random rows. TestNEONUnderEmulation builds and runs it where a
   cross compiler and an emulator are installed; on arm64 itself the other tests see the NEON kernels anyway. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resample.h"

enum { TAPS = 24, ROWS = SA_ROWS, SIDE = 300 };

static uint8_t in[TAPS][3 * SIDE + 64], a[ROWS][3 * SIDE + 64], b[ROWS][3 * SIDE + 64];
static int32_t first[SIDE], pairs[SIDE];
static int16_t coef[SIDE * TAPS * 2];

static unsigned random_number(void) {
  static unsigned state = 1;
  state = state * 1664525 + 1013904223;
  return state >> 8;
}

/* Weights as large as an axis can hold, of both signs, so that sums overflow if they are not taken modulo 2^32. */
static void fill(int32_t stride) {
  for (int y = 0; y < TAPS; y++)
    for (size_t x = 0; x < sizeof in[y]; x++) in[y][x] = (uint8_t)(random_number() % 4 ? random_number() : random_number() % 2 * 255);
  for (int i = 0; i < SIDE; i++) {
    pairs[i] = (int32_t)(random_number() % (unsigned)(stride + 1));
    first[i] = 3 * (int32_t)(random_number() % (SIDE - TAPS));
  }
  for (int i = 0; i < SIDE * stride; i++) {
    for (int t = 0; t < 2; t++) {
      coef[4 * i + t] = (int16_t)((int)(random_number() % 5000) - 2000);
      coef[4 * i + 2 + t] = (int16_t)(random_number() % 2048);
    }
  }
}

static int compare(int round) {
  const int32_t stride = 1 + (int32_t)(random_number() % (TAPS / 2));
  const int32_t count = 4 * (1 + (int32_t)(random_number() % (SIDE / 4))), bytes = 1 + (int32_t)(random_number() % (3 * SIDE));
  const sa_axis axis = {count, stride, first, pairs, coef};
  const uint8_t *rows[TAPS];
  uint8_t *to_a[ROWS], *to_b[ROWS];
  fill(stride);
  for (int i = 0; i < TAPS; i++) rows[i] = in[i];
  for (int i = 0; i < ROWS; i++) {
    to_a[i] = a[i];
    to_b[i] = b[i];
  }
  sa_kernels_scalar.horizontal(to_a, rows, &axis);
  sa_kernels_neon.horizontal(to_b, rows, &axis);
  for (int i = 0; i < ROWS; i++)
    if (memcmp(a[i], b[i], (size_t)count * 3)) return printf("horizontal, round %d, row %d\n", round, i);
  memset(b[0], 7, sizeof b[0]);
  memset(a[0], 7, sizeof a[0]);
  sa_kernels_scalar.vertical(a[0], rows, coef, stride, bytes);
  sa_kernels_neon.vertical(b[0], rows, coef, stride, bytes);
  if (memcmp(a[0], b[0], sizeof a[0])) return printf("vertical, round %d\n", round);
  return 0;
}

int main(void) {
  for (int round = 0; round < 300; round++)
    if (compare(round)) return 1;
  puts("equal");
  return 0;
}
