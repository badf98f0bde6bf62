#include "picture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sa_fail(sa_error *e, int kind, const char *format, ...) {
  if (e->kind == SA_OK) {
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    e->kind = kind;
  }
  return -1;
}

int sa_forgive(sa_error *e, int fill) {
  if (!fill || (e->kind != SA_DECODE && e->kind != SA_TRUNCATED)) return 0;
  e->kind = SA_OK;
  return 1;
}

int sa_no_memory(sa_error *e, size_t n) { return sa_fail(e, SA_MEMORY, "out of memory for %zu bytes", n); }

typedef struct {
  sa_picture head;
  sa_box box;
  int32_t row;
} raw;

static int raw_begin(sa_picture *p, const uint8_t *in, size_t n, sa_box box) {
  raw *r = (raw *)p;
  (void)in;
  if (n < (size_t)p->header.width * 3 * (size_t)p->header.height)
    return sa_fail(&p->error, SA_TRUNCATED, "%zu bytes for %d x %d pixels", n, p->header.width, p->header.height);
  r->box = box;
  p->row_bytes = (size_t)box.w * 3;
  return 0;
}

static int raw_next(sa_picture *p, const uint8_t *in, size_t n, uint8_t *const *rows, int count) {
  raw *r = (raw *)p;
  int i = 0;
  (void)n;
  for (; i < count && r->row < r->box.h; i++, r->row++) {
    size_t at = (size_t)(r->box.y + r->row) * (size_t)p->header.width + (size_t)r->box.x;
    memcpy(rows[i], in + at * 3, p->row_bytes);
  }
  return i;
}

static void raw_close(sa_picture *p) { free(p); }

sa_picture *sa_raw_open(int32_t width, int32_t height, sa_error *e) {
  raw *r = calloc(1, sizeof *r);
  if (!r) {
    sa_no_memory(e, sizeof *r);
    return NULL;
  }
  r->head.begin = raw_begin;
  r->head.next = raw_next;
  r->head.close = raw_close;
  r->head.header = (sa_header){width, height};
  return &r->head;
}
