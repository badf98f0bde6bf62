/* What the C side of the package shares: one opened picture, whatever its format, delivers the rows
   of one rectangle as 8-bit RGB, from top to bottom. The encoded bytes are passed anew to every
   call and never kept, so they may live in Go memory. No function lets a longjmp out. */
#ifndef STEPAHEAD_PICTURE_H
#define STEPAHEAD_PICTURE_H

#include <stddef.h>
#include <stdint.h>

enum { /* kinds of failure; equal to the constants in cgo.go */
  SA_OK = 0,
  SA_DECODE = 1,
  SA_TRUNCATED = 2,
  SA_UNSUPPORTED = 3,
  SA_LIMIT = 4,
  SA_MEMORY = 5 /* the machine has no more: says nothing about the content */
};

typedef struct {
  int32_t kind;
  char text[236];
} sa_error;

typedef struct {
  int64_t max_memory; /* bytes the decoder may hold */
  int32_t max_scans;  /* JPEG only */
  int32_t fill;       /* rows that are missing or broken are no failure but empty */
} sa_limits;

typedef struct {
  int32_t width, height;
} sa_header;

typedef struct {
  int32_t x, y, w, h;
} sa_box;

typedef struct sa_picture sa_picture;

struct sa_picture {
  /* begin makes ready to deliver the rows of box, which lies inside the picture. It sets
     row_bytes, what a row given to next must hold, and lead, where in it the box begins. */
  int (*begin)(sa_picture *, const uint8_t *in, size_t n, sa_box box);
  /* next writes the following rows, at most count, and returns how many; negative on failure.
     After the last row of the box it also checks the rest of the stream as far as the format does. */
  int (*next)(sa_picture *, const uint8_t *in, size_t n, uint8_t *const *rows, int count);
  /* place, where there is one, may be called instead of next if the rows of the box are all that is wanted: it writes
     them to out, stride bytes apart, without a copy in between. It returns 1, or 0 to ask for next after all. */
  int (*place)(sa_picture *, const uint8_t *in, size_t n, uint8_t *out, size_t stride);
  void (*close)(sa_picture *);
  sa_header header;
  int32_t denominator; /* of the scale, set before begin, whose box is in the scaled picture; only a JPEG knows others than 1 */
  size_t row_bytes, lead;
  sa_error error;
};

sa_picture *sa_jpeg_open(const uint8_t *in, size_t n, const sa_limits *, sa_error *);
sa_picture *sa_png_open(const uint8_t *in, size_t n, const sa_limits *, sa_error *);
sa_picture *sa_webp_open(const uint8_t *in, size_t n, const sa_limits *, sa_error *);
/* sa_raw_open reads finished pixels, 3 bytes each, rows without gaps. */
sa_picture *sa_raw_open(int32_t width, int32_t height, sa_error *);

/* sa_forgive drops a failure of the pixels' data, if they are to be filled, and reports whether it did. */
int sa_forgive(sa_error *, int fill);

/* sa_no_memory records that n bytes could not be had, and returns -1. */
int sa_no_memory(sa_error *, size_t n);

/* sa_fail records a failure, keeping the first one, and returns -1. */
int sa_fail(sa_error *, int kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
