/* PNG through libpng, converted to RGB as Pillow's convert("RGB") does: alpha is dropped and the
   colour under it kept, grey is repeated, palettes are looked up; gamma and profiles are ignored.
   16-bit samples: plain grey is scaled, (v*255 + 32895) >> 16; colour, and grey with alpha, keep
   their high byte, as Pillow does. Every row is decompressed, so that a fault below the wanted
   region is found as well; what lies behind the last row only as far as it is small, because it holds
   no pixels and may inflate to anything. */
#include "picture.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

/* slack is how much of the stored data behind the last row is read. It inflates to a thousand times as much at most. */
enum { slack = 64 << 10 };

typedef struct {
  sa_picture head;
  png_structp p;
  png_infop info;
  const uint8_t *in; /* during a call */
  size_t n, at;
  sa_box box;
  int32_t row;      /* rows taken from the decoder */
  int64_t due;      /* rows, of all passes, that the library has not made yet */
  size_t beyond;    /* bytes that it has read since */
  uint8_t *line;    /* one whole row */
  uint8_t *picture; /* all rows, when interlaced */
  int64_t max_memory;
  int indexed;       /* has a palette */
  int fill;          /* rows that are missing or broken are no failure */
  int empty;         /* nothing more can be decoded: the rows that are left are empty */
  size_t next_chunk; /* where it begins */
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

static size_t big_endian(const uint8_t *b) { return (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3]; }

/* shorten corrects the length of a chunk that reaches beyond the data, so that the library takes what there is before it
   finds that the rest is missing. */
static void shorten(png *g, uint8_t *header) {
  const size_t left = g->n - g->at, length = big_endian(header);
  g->next_chunk = g->at + length + 4;
  if (!g->fill || length <= left) return;
  for (int i = 0; i < 4; i++) header[i] = (uint8_t)(left >> (24 - 8 * i));
}

static void on_read(png_structp p, png_bytep to, size_t count) {
  png *g = png_get_io_ptr(p);
  const size_t begin = g->at;
  if (count > g->n - g->at) {
    sa_fail(&g->head.error, SA_TRUNCATED, "the data end at row %d of %d", g->row, g->head.header.height);
    png_longjmp(p, 1);
  }
  if (g->due == 0 && (g->beyond += count) > slack) png_longjmp(p, 1); /* without an error: there is the picture */
  memcpy(to, g->in + g->at, count);
  g->at += count;
  if (begin == g->next_chunk && count == 8) shorten(g, to);
}

static void on_row(png_structp p, png_row_infop info, png_bytep row) {
  png *g = png_get_io_ptr(p);
  (void)info;
  (void)row;
  g->due--;
}

/* count_rows sets how many rows the library will make. */
static void count_rows(png *g, int passes) {
  const png_uint_32 width = (png_uint_32)g->head.header.width, height = (png_uint_32)g->head.header.height;
  g->due = passes > 1 ? 0 : height;
  for (int pass = 0; passes > 1 && pass < passes; pass++)
    if (PNG_PASS_COLS(width, pass) > 0) g->due += PNG_PASS_ROWS(height, pass);
}

static void enter(png *g, const uint8_t *in, size_t n) {
  g->in = in;
  g->n = n;
}

/* to_rgb sets up the conversion to three 8-bit channels. */
static void to_rgb(png *g) {
  const int type = png_get_color_type(g->p, g->info), depth = png_get_bit_depth(g->p, g->info);
  g->indexed = type == PNG_COLOR_TYPE_PALETTE;
  if (g->indexed) png_set_palette_to_rgb(g->p);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(g->p);
  if (depth == 16 && type == PNG_COLOR_TYPE_GRAY) png_set_scale_16(g->p);
  if (depth == 16 && type != PNG_COLOR_TYPE_GRAY) png_set_strip_16(g->p);
  if (!(type & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(g->p);
  png_set_strip_alpha(g->p);
}

/* blank makes pixels what Pillow has where there are no data: black, or the first colour of a palette. */
static void blank(const png *g, uint8_t *pixels, size_t count) {
  png_colorp palette;
  int colours = 0;
  memset(pixels, 0, count * 3);
  if (!g->indexed || !png_get_PLTE(g->p, g->info, &palette, &colours) || colours == 0) return;
  for (; count > 0; count--, pixels += 3) memcpy(pixels, palette, 3);
}

/* within_limit compares with the memory limit what the library takes for two rows, one as it is stored and one with room for
   every conversion, and what is taken here. It comes before the library takes its own. */
static int within_limit(png *g, int passes) {
  const size_t width = (size_t)g->head.header.width, stored = png_get_rowbytes(g->p, g->info);
  const size_t widest = width * (png_get_bit_depth(g->p, g->info) == 16 ? 8 : 4), rows = passes > 1 ? (size_t)g->head.header.height : 1;
  const size_t need = stored + widest + width * 3 * rows;
  if (need <= (size_t)g->max_memory) return 0;
  return sa_fail(&g->head.error, SA_LIMIT, "decoding needs %zu bytes at once, the memory limit is %lld", need, (long long)g->max_memory);
}

/* reserve takes memory for one row, or for all if the picture is interlaced and no pass has whole rows. */
static int reserve(png *g, int passes, size_t row_bytes) {
  const size_t rows = passes > 1 ? (size_t)g->head.header.height : 1;
  uint8_t **to = passes > 1 ? &g->picture : &g->line;
  *to = malloc(row_bytes * rows);
  if (!*to) return sa_no_memory(&g->head.error, row_bytes * rows);
  if (passes > 1 && g->fill) blank(g, *to, row_bytes / 3 * rows);
  return 0;
}

/* prepare sets up the conversion, and returns the number of passes. */
static int prepare(png *g) {
  const size_t row_bytes = (size_t)g->head.header.width * 3;
  int passes;
  if (setjmp(png_jmpbuf(g->p))) return -1;
  to_rgb(g);
  png_set_read_user_transform_fn(g->p, on_row);
  passes = png_set_interlace_handling(g->p);
  count_rows(g, passes);
  if (within_limit(g, passes) < 0) return -1;
  png_read_update_info(g->p, g->info);
  if (png_get_rowbytes(g->p, g->info) != row_bytes) return sa_fail(&g->head.error, SA_UNSUPPORTED, "no conversion to 8-bit RGB");
  return reserve(g, passes, row_bytes) < 0 ? -1 : passes;
}

/* broken decides how to go on after a jump: as a failure, or with empty rows. A jump without an error comes after the last
   row. */
static int broken(png *g) {
  if (g->head.error.kind != SA_OK && !sa_forgive(&g->head.error, g->fill)) return -1;
  g->empty = 1;
  return 0;
}

static int read_passes(png *g, int passes) {
  const size_t row_bytes = (size_t)g->head.header.width * 3;
  if (setjmp(png_jmpbuf(g->p))) return broken(g);
  for (int pass = 0; pass < passes; pass++)
    for (int32_t y = 0; y < g->head.header.height; y++) png_read_row(g->p, g->picture + row_bytes * (size_t)y, NULL);
  return 0;
}

/* place_rows decodes the rows of the box straight into out. */
static int place_rows(png *g, uint8_t *out, size_t stride) {
  const int32_t end = g->box.y + g->box.h;
  if (setjmp(png_jmpbuf(g->p))) {
    g->row = end;
    return g->head.error.kind == SA_OK ? 0 : -1;
  }
  for (; g->row < end; g->row++) png_read_row(g->p, out + stride * (size_t)(g->row - g->box.y), NULL);
  return 0;
}

/* decode_rows decodes down to row end. Of each row the box goes to the next of rows, if there are any. To be filled, a row
   is blank before it is read: the library may fail before it, or after it in what follows the last one. */
static int decode_rows(png *g, uint8_t *const *rows, int32_t end) {
  const int32_t first = g->row;
  if (setjmp(png_jmpbuf(g->p))) return broken(g);
  for (; g->row < end; g->row++) {
    if (g->fill) blank(g, g->line, (size_t)g->head.header.width);
    png_read_row(g->p, g->line, NULL);
    if (rows) memcpy(rows[g->row - first], g->line + (size_t)g->box.x * 3, g->head.row_bytes);
  }
  return 0;
}

/* read_rows is the same, with empty rows after a failure that is forgiven. */
static int read_rows(png *g, uint8_t *const *rows, int32_t end) {
  const int32_t first = g->row;
  if (!g->empty && decode_rows(g, rows, end) < 0) return -1;
  for (; g->row < end; g->row++) {
    if (rows) memcpy(rows[g->row - first], g->line + (size_t)g->box.x * 3, g->head.row_bytes);
    blank(g, g->line, (size_t)g->head.header.width);
  }
  return 0;
}

static int begin(sa_picture *p, const uint8_t *in, size_t n, sa_box box) {
  png *g = (png *)p;
  int passes;
  enter(g, in, n);
  g->box = box;
  p->row_bytes = (size_t)box.w * 3;
  p->lead = 0;
  passes = prepare(g);
  if (passes < 0) return -1;
  if (passes == 1) return read_rows(g, NULL, box.y);
  g->row = box.y;
  return read_passes(g, passes);
}

static void copy_row(png *g, uint8_t *to) {
  memcpy(to, g->picture + ((size_t)g->head.header.width * (size_t)g->row + (size_t)g->box.x) * 3, g->head.row_bytes);
  g->row++;
}

static int next(sa_picture *p, const uint8_t *in, size_t n, uint8_t *const *rows, int count) {
  png *g = (png *)p;
  const int32_t first = g->row, end = g->box.y + g->box.h;
  const int32_t stop = end - first < count ? end : first + count;
  enter(g, in, n);
  while (g->picture && g->row < stop) copy_row(g, rows[g->row - first]);
  if (read_rows(g, rows, stop) < 0) return -1;
  if (stop == end && !g->picture && !g->fill && read_rows(g, NULL, p->header.height) < 0) return -1;
  return stop - first;
}

static int place(sa_picture *p, const uint8_t *in, size_t n, uint8_t *out, size_t stride) {
  png *g = (png *)p;
  if (g->picture || g->fill || g->box.w != p->header.width) return 0;
  enter(g, in, n);
  if (place_rows(g, out, stride) < 0 || read_rows(g, NULL, p->header.height) < 0) return -1;
  return 1;
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
  g->head.place = place;
  g->head.close = close_;
  g->max_memory = l->max_memory;
  g->fill = l->fill;
  g->due = 1; /* or more: it is not known before the header is read */
  g->next_chunk = 8; /* after the signature */
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
