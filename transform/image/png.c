/* PNG through libpng, converted to RGB as Pillow's convert("RGB") does: alpha is dropped and the
   colour under it kept, grey is repeated, palettes are looked up; gamma and profiles are ignored.
   16-bit samples: plain grey is scaled, (v*255 + 32895) >> 16; colour, and grey with alpha, keep
   their high byte, as Pillow does. Every row is decompressed, so that a fault below the wanted
   region is found as well. */
#include "picture.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

typedef struct {
  sa_picture head;
  png_structp p;
  png_infop info;
  const uint8_t *in; /* during a call */
  size_t n, at;
  sa_box box;
  int32_t row;      /* rows taken from the decoder */
  uint8_t *line;    /* one whole row */
  uint8_t *picture; /* all rows, when interlaced */
  int64_t max_memory;
} png;

static void on_error(png_structp p, png_const_charp text) {
  png *g = png_get_error_ptr(p);
  sa_fail(&g->head.error, SA_DECODE, "%s", text);
  png_longjmp(p, 1);
}

static void on_warning(png_structp p, png_const_charp text) {
  (void)p;
  (void)text;
}

/* on_malloc keeps a machine without memory apart from a bad file; libpng's own error comes later and is dropped. */
static png_voidp on_malloc(png_structp p, png_alloc_size_t n) {
  void *m = malloc(n);
  png *g = png_get_mem_ptr(p);
  if (!m) sa_no_memory(&g->head.error, n);
  return m;
}

static void on_free(png_structp p, png_voidp m) {
  (void)p;
  free(m);
}

static void on_read(png_structp p, png_bytep to, size_t count) {
  png *g = png_get_io_ptr(p);
  if (count > g->n - g->at) {
    sa_fail(&g->head.error, SA_TRUNCATED, "the data end at row %d of %d", g->row, g->head.header.height);
    png_longjmp(p, 1);
  }
  memcpy(to, g->in + g->at, count);
  g->at += count;
}

static void enter(png *g, const uint8_t *in, size_t n) {
  g->in = in;
  g->n = n;
}

/* to_rgb sets up the conversion to three 8-bit channels. */
static void to_rgb(png *g) {
  const int type = png_get_color_type(g->p, g->info), depth = png_get_bit_depth(g->p, g->info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(g->p);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(g->p);
  if (depth == 16 && type == PNG_COLOR_TYPE_GRAY) png_set_scale_16(g->p);
  if (depth == 16 && type != PNG_COLOR_TYPE_GRAY) png_set_strip_16(g->p);
  if (!(type & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(g->p);
  png_set_strip_alpha(g->p);
}

/* read_interlaced decodes all passes into one picture, since none of them has whole rows. */
static int read_interlaced(png *g, int passes, size_t row_bytes) {
  const int32_t height = g->head.header.height;
  if ((int64_t)row_bytes * height > g->max_memory)
    return sa_fail(&g->head.error, SA_LIMIT, "an interlaced picture needs %zu bytes a row at once, the memory limit is %lld", row_bytes,
                   (long long)g->max_memory);
  g->picture = malloc(row_bytes * (size_t)height);
  if (!g->picture) return sa_no_memory(&g->head.error, row_bytes * (size_t)height);
  for (int pass = 0; pass < passes; pass++)
    for (int32_t y = 0; y < height; y++) png_read_row(g->p, g->picture + row_bytes * (size_t)y, NULL);
  return 0;
}

static int begin(sa_picture *p, const uint8_t *in, size_t n, sa_box box) {
  png *g = (png *)p;
  size_t row_bytes = (size_t)p->header.width * 3;
  int passes;
  enter(g, in, n);
  if (setjmp(png_jmpbuf(g->p))) return -1;
  g->box = box;
  p->row_bytes = (size_t)box.w * 3;
  p->lead = 0;
  to_rgb(g);
  passes = png_set_interlace_handling(g->p);
  png_read_update_info(g->p, g->info);
  if (png_get_rowbytes(g->p, g->info) != row_bytes) return sa_fail(&p->error, SA_UNSUPPORTED, "no conversion to 8-bit RGB");
  if (passes > 1) return read_interlaced(g, passes, row_bytes);
  g->line = malloc(row_bytes);
  if (!g->line) return sa_no_memory(&p->error, row_bytes);
  for (; g->row < box.y; g->row++) png_read_row(g->p, g->line, NULL);
  return 0;
}

static const uint8_t *row_at(png *g, int32_t y) {
  if (g->picture) return g->picture + (size_t)g->head.header.width * 3 * (size_t)y;
  png_read_row(g->p, g->line, NULL);
  return g->line;
}

static int next(sa_picture *p, const uint8_t *in, size_t n, uint8_t *const *rows, int count) {
  png *g = (png *)p;
  enter(g, in, n);
  if (setjmp(png_jmpbuf(g->p))) return -1;
  if (g->picture && g->row < g->box.y) g->row = g->box.y;
  if (count > g->box.y + g->box.h - g->row) count = g->box.y + g->box.h - g->row;
  for (int i = 0; i < count; i++) {
    const int32_t y = g->row;
    memcpy(rows[i], row_at(g, y) + (size_t)g->box.x * 3, p->row_bytes);
    g->row = y + 1;
  }
  if (g->row == g->box.y + g->box.h && !g->picture)
    for (int32_t y = g->row; y < p->header.height; y++) png_read_row(g->p, g->line, NULL);
  return count;
}

static void close_(sa_picture *p) {
  png *g = (png *)p;
  png_destroy_read_struct(&g->p, &g->info, NULL);
  free(g->line);
  free(g->picture);
  free(g);
}

static int open_(png *g, const sa_limits *l) {
  if (setjmp(png_jmpbuf(g->p))) return -1;
  png_set_read_fn(g->p, g, on_read);
  png_set_user_limits(g->p, 0x7fffffff, 0x7fffffff); /* dimensions are checked against our own limits, by the caller */
  png_set_chunk_cache_max(g->p, 1000);
  png_set_chunk_malloc_max(g->p, (png_alloc_size_t)(l->max_memory < (8 << 20) ? l->max_memory : 8 << 20));
  png_set_benign_errors(g->p, 1);
  png_set_keep_unknown_chunks(g->p, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* text, profiles and times do not reach the pixels */
  png_read_info(g->p, g->info);
  png_set_crc_action(g->p, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE); /* of the pixels; Pillow does not look at it either */
  g->head.header = (sa_header){(int32_t)png_get_image_width(g->p, g->info), (int32_t)png_get_image_height(g->p, g->info)};
  return 0;
}

sa_picture *sa_png_open(const uint8_t *in, size_t n, const sa_limits *l, sa_error *e) {
  png *g = calloc(1, sizeof *g);
  if (!g) {
    sa_no_memory(e, sizeof *g);
    return NULL;
  }
  g->head.begin = begin;
  g->head.next = next;
  g->head.close = close_;
  g->max_memory = l->max_memory;
  enter(g, in, n);
  g->p = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, g, on_error, on_warning, g, on_malloc, on_free);
  g->info = g->p ? png_create_info_struct(g->p) : NULL;
  if (!g->info) sa_no_memory(&g->head.error, 1);
  if (!g->info || open_(g, l) < 0) {
    *e = g->head.error;
    close_(&g->head);
    return NULL;
  }
  return &g->head;
}
