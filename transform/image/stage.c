#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "resample.h"

enum { BATCH = 16 }; /* rows asked of the decoder at once */

typedef struct {
  const sa_stage *s;
  sa_picture *p;
  const sa_kernels *k;
  sa_axis h, v;
  uint8_t *out;
  int ring_rows;                        /* rows of the first pass's result that are kept */
  size_t ring_stride, batch_stride, made_stride;
  uint8_t *ring, *batch, *tall, *made;  /* tall: vertical result that a horizontal pass follows */
  const uint8_t **taps;
  int32_t have, done;                   /* rows that entered the ring, rows that left the passes */
  int waiting;                          /* rows in tall */
  void *memory;
} run;

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Rows for a decoder lie 16 bytes off a multiple of 32: on a multiple of 32 libjpeg-turbo writes
   past the cache, and the next pass waits for memory. */
static size_t source_stride(const run *r) { return up(r->p->row_bytes + SA_SLACK + 16, 32); }

static int horizontal_first(const run *r) { return r->h.count > 0 && !r->s->vertical_first; }
static int horizontal_last(const run *r) { return r->h.count > 0 && r->s->vertical_first; }

static int32_t most_taps(const sa_axis *a) {
  int32_t most = 1;
  for (int32_t i = 0; i < a->count; i++)
    if (2 * a->pairs[i] > most) most = 2 * a->pairs[i];
  return most;
}

/* reserve lays out all scratch memory in one block, after checking it against the limit. */
static int reserve(run *r) {
  const size_t wide = up((size_t)r->h.count * 3 + SA_SLACK, 32), raw = source_stride(r);
  const size_t taps = (size_t)most_taps(&r->v);
  size_t ring, batch, tall, made, total;
  r->ring_rows = (int)taps + BATCH;
  r->batch_stride = raw;
  r->ring_stride = horizontal_first(r) ? wide : raw;
  r->made_stride = up((size_t)(r->h.count > r->s->made_w ? r->h.count : r->s->made_w) * 3 + SA_SLACK, 32);
  ring = r->ring_stride * (size_t)r->ring_rows;
  batch = horizontal_first(r) ? raw * BATCH : 0;
  tall = horizontal_last(r) ? raw * SA_ROWS : 0;
  made = r->made_stride * SA_ROWS;
  total = up(taps * sizeof *r->taps, 64) + ring + batch + tall + made + 64;
  if (total > (size_t)r->s->max_memory)
    return sa_fail(&r->p->error, SA_LIMIT, "resizing needs %zu bytes, the memory limit is %lld", total, (long long)r->s->max_memory);
  r->memory = aligned_alloc(64, up(total, 64));
  if (!r->memory) return sa_no_memory(&r->p->error, total);
  r->taps = r->memory;
  r->ring = (uint8_t *)r->memory + up(taps * sizeof *r->taps, 64) + 16;
  r->batch = r->ring + ring;
  r->tall = r->batch + batch;
  r->made = r->tall + tall;
  return 0;
}

static uint8_t *ring_row(const run *r, int32_t y) { return r->ring + (size_t)(y % r->ring_rows) * r->ring_stride; }

static uint8_t *out_row(const run *r, int32_t y) {
  return r->out + ((size_t)(r->s->at_y + y) * (size_t)r->s->out_w + (size_t)r->s->at_x) * 3;
}

static void emit(const run *r, int32_t y, const uint8_t *row) {
  uint8_t *to = out_row(r, y);
  const int32_t w = r->s->made_w;
  if (!r->s->mirror) {
    memcpy(to, row, (size_t)w * 3);
    return;
  }
  row += 3 * (size_t)w;
  for (int32_t x = 0; x < w; x++, to += 3) {
    row -= 3;
    to[0] = row[0];
    to[1] = row[1];
    to[2] = row[2];
  }
}

/* filter_rows runs the horizontal pass over up to SA_ROWS rows; missing ones repeat the last. */
static void filter_rows(const run *r, uint8_t *const *dst, const uint8_t *const *src, int count) {
  uint8_t *to[SA_ROWS];
  const uint8_t *from[SA_ROWS];
  for (int i = 0; i < SA_ROWS; i++) {
    to[i] = dst[i < count ? i : count - 1];
    from[i] = src[i < count ? i : count - 1];
  }
  r->k->horizontal(to, from, &r->h);
}

/* flush finishes the rows that wait in tall, which end at row end of the result. */
static void flush(run *r, int32_t end) {
  uint8_t *dst[SA_ROWS] = {0};
  const uint8_t *src[SA_ROWS] = {0};
  if (r->waiting < 1) return;
  for (int i = 0; i < r->waiting; i++) {
    dst[i] = r->made + (size_t)i * r->made_stride;
    src[i] = r->tall + (size_t)i * r->batch_stride;
  }
  filter_rows(r, dst, src, r->waiting);
  for (int i = 0; i < r->waiting; i++) emit(r, end - r->waiting + i, dst[i]);
  r->waiting = 0;
}

static void filter_column(const run *r, uint8_t *dst, int32_t y, size_t skip, int32_t bytes) {
  const int32_t pairs = r->v.pairs[y], first = r->v.first[y];
  for (int32_t t = 0; t < 2 * pairs; t++) {
    const int32_t row = first + t;
    r->taps[t] = ring_row(r, row < r->have ? row : r->have - 1) + skip; /* the tap that fills a pair weighs nothing */
  }
  r->k->vertical(dst, r->taps, r->v.coef + 4 * (size_t)y * (size_t)r->v.stride, pairs, bytes);
}

/* needed is the number of rows that must be in the ring before row y can leave it. */
static int32_t needed(const run *r, int32_t y) {
  int32_t end;
  if (!r->v.count) return y + 1;
  end = r->v.first[y] + 2 * r->v.pairs[y];
  return end < r->s->box.h ? end : r->s->box.h;
}

static void leave_ring(run *r, int32_t y) {
  const size_t skip = horizontal_first(r) ? 0 : r->p->lead;
  const int32_t bytes = (horizontal_first(r) ? r->s->made_w : r->s->box.w) * 3;
  if (!r->v.count) {
    emit(r, y, ring_row(r, y) + skip);
  } else if (horizontal_last(r)) {
    filter_column(r, r->tall + (size_t)r->waiting * r->batch_stride, y, skip, bytes);
    if (++r->waiting == SA_ROWS) flush(r, y + 1);
  } else if (r->s->mirror) {
    filter_column(r, r->made, y, skip, bytes);
    emit(r, y, r->made);
  } else {
    filter_column(r, out_row(r, y), y, skip, bytes);
  }
}

/* fetch moves the next rows from the decoder into the ring. */
static int fetch(run *r, const uint8_t *in, size_t n) {
  uint8_t *rows[BATCH], *dst[BATCH];
  const uint8_t *src[BATCH];
  int count = r->s->box.h - r->have < BATCH ? r->s->box.h - r->have : BATCH;
  for (int i = 0; i < count; i++) {
    dst[i] = ring_row(r, r->have + i);
    rows[i] = horizontal_first(r) ? r->batch + (size_t)i * r->batch_stride : dst[i];
    src[i] = rows[i] + r->p->lead;
  }
  count = r->p->next(r->p, in, n, rows, count);
  if (count <= 0) return sa_fail(&r->p->error, SA_DECODE, "no more rows after row %d of %d", r->have, r->s->box.h);
  for (int i = 0; horizontal_first(r) && i < count; i += SA_ROWS) filter_rows(r, dst + i, src + i, count - i);
  r->have += count;
  return 0;
}

static int stream(run *r, const uint8_t *in, size_t n) {
  while (r->have < r->s->box.h) {
    if (fetch(r, in, n) < 0) return -1;
    while (r->done < r->s->made_h && needed(r, r->done) <= r->have) leave_ring(r, r->done++);
  }
  flush(r, r->done);
  return 0;
}

/* place lets the decoder write the result, if the rows of the box are all of it. */
static int place(sa_picture *p, const sa_running *g) {
  const sa_stage *s = &g->stage;
  if (!p->place || s->horizontal_count > 0 || s->vertical_count > 0 || s->mirror) return 0;
  return p->place(p, g->in, g->n, g->out + ((size_t)s->at_y * (size_t)s->out_w + (size_t)s->at_x) * 3, (size_t)s->out_w * 3);
}

static int execute(sa_picture *p, const sa_running *g) {
  const sa_stage *s = &g->stage;
  run r = {.s = s, .p = p, .k = sa_kernels_of(s->variant), .out = g->out};
  const int32_t *index = g->index + 2 * (size_t)s->horizontal_count;
  const int16_t *coef = g->coef + 4 * (size_t)s->horizontal_count * (size_t)s->horizontal_stride;
  int result;
  r.h = (sa_axis){s->horizontal_count, s->horizontal_stride, g->index, g->index + s->horizontal_count, g->coef};
  r.v = (sa_axis){s->vertical_count, s->vertical_stride, index, index + s->vertical_count, coef};
  if (!r.k) return sa_fail(&p->error, SA_UNSUPPORTED, "this processor has no kernels of variant %d", s->variant);
  p->denominator = s->denominator;
  if (p->begin(p, g->in, g->n, s->box) < 0) return -1;
  if (s->made_w != s->out_w || s->made_h != s->out_h) memset(g->out, 0, (size_t)s->out_w * 3 * (size_t)s->out_h);
  result = place(p, g);
  if (result != 0) return result < 0 ? -1 : 0;
  if (reserve(&r) < 0) return -1;
  result = stream(&r, g->in, g->n);
  free(r.memory);
  return result;
}

void sa_run_all(sa_running *all, int32_t count) {
  for (sa_running *g = all; g < all + count; g++) {
    sa_picture *p = g->picture ? g->picture : sa_raw_open(g->width, g->height, &g->error);
    if (!p) continue;
    if (execute(p, g) < 0) g->error = p->error;
    p->close(p);
  }
}

static sa_picture *open_one(sa_opening *o) {
  switch (o->format) {
  case SA_JPEG:
    return sa_jpeg_open(o->in, o->n, &o->limits, &o->error);
  case SA_PNG:
    return sa_png_open(o->in, o->n, &o->limits, &o->error);
  case SA_WEBP:
    return sa_webp_open(o->in, o->n, &o->limits, &o->error);
  }
  sa_fail(&o->error, SA_UNSUPPORTED, "format %d", o->format);
  return NULL;
}

void sa_open_all(sa_opening *all, int32_t count) {
  for (sa_opening *o = all; o < all + count; o++) o->picture = open_one(o);
}

void sa_close(sa_picture *p) { p->close(p); }
