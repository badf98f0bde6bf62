/* One stage of a plan: a region of a picture, resampled and placed in a result. Rows flow from the
   decoder through the passes as they come, so that they are still in the cache. */
#ifndef STEPAHEAD_STAGE_H
#define STEPAHEAD_STAGE_H

#include "picture.h"

/* Sizes are in pixels. A pass with count 0 is left out. */
typedef struct {
  int32_t denominator;                          /* a JPEG is decoded at 1/1, 1/2, 1/4 or 1/8 of its size; others at 1/1 */
  sa_box box;                                   /* what is read of the picture */
  int32_t horizontal_count, horizontal_stride;  /* outputs (a multiple of 4), pairs each */
  int32_t vertical_count, vertical_stride;      /* outputs, pairs each */
  int32_t vertical_first;                       /* the order of the two passes */
  int32_t mirror;                               /* reverse the finished rows */
  int32_t made_w, made_h;                       /* what the passes make of box */
  int32_t at_x, at_y, out_w, out_h;             /* where it lies in the result; around it is zero */
  int32_t variant;                              /* of the kernels */
  int64_t max_memory;
} sa_stage;

/* A picture to open: its header is read, in the format (SA_JPEG, SA_PNG, SA_WEBP). */
enum { SA_PIXELS = 0, SA_JPEG = 1, SA_PNG = 2, SA_WEBP = 3 };
typedef struct {
  const uint8_t *in;
  size_t n;
  int32_t format;
  sa_limits limits;
  sa_picture *picture; /* the answer: NULL, and error, on failure */
  sa_error error;
} sa_opening;

/* A stage to run. index holds, for the horizontal pass and then for the vertical one, the first source byte
   or row of each output and then its number of pairs; coef holds the pairs in the same order. out has room
   for 3 * out_w * out_h bytes. */
typedef struct {
  sa_picture *picture; /* closed afterwards; NULL: in is width x height finished pixels, rows without gaps */
  int32_t width, height;
  const uint8_t *in;
  size_t n;
  sa_stage stage;
  const int32_t *index;
  const int16_t *coef;
  uint8_t *out;
  sa_error error; /* the answer: kind SA_OK when out is made */
} sa_running;

/* Both take any number, so that a batch costs two calls, and do them in order; one that fails leaves the others alone. */
void sa_open_all(sa_opening *, int32_t count);
void sa_run_all(sa_running *, int32_t count);
void sa_close(sa_picture *);

#endif
