/* JPEG through libjpeg-turbo: accurate integer DCT, fancy upsampling, RGB out. What counts as an
   error is what Pillow raises for: a fatal error of the library, or data that end before the
   end-of-image marker. Damage that the library only warns about is decoded. */
#include "picture.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

/* Region decoding is exact from this version on; before it everything is decoded whole. */
#define REGION_VERSION 2001000

typedef struct {
  sa_picture head;
  struct jpeg_decompress_struct c;
  struct jpeg_error_mgr err;
  struct jpeg_source_mgr src;
  struct jpeg_progress_mgr progress;
  jmp_buf fail;
  size_t at; /* bytes consumed when no call is running */
  int max_scans;
  sa_box box;
  int32_t row;   /* rows of the box that are delivered */
  int fill;      /* pixels that are missing are no failure */
  int pretended; /* the data have ended, and an end-of-image marker stands in for the rest */
  int empty;     /* nothing more can be decoded: the rows that are left are empty */
  int whole;     /* rows pass through line: colours to convert, or a region that is not exact */
  int finishing; /* every row is out: data that end here are no error */
  uint8_t *line; /* one row as the library gives it */
} jpeg;

static int kind_of(int code) {
  switch (code) {
  case JERR_SOF_UNSUPPORTED:
  case JERR_BAD_PRECISION:
  case JERR_ARITH_NOTIMPL:
  case JERR_CONVERSION_NOTIMPL:
  case JERR_FRACT_SAMPLE_NOTIMPL:
  case JERR_CCIR601_NOTIMPL:
  case JERR_NOTIMPL:
  case JERR_NOT_COMPILED:
    return SA_UNSUPPORTED;
  case JERR_IMAGE_TOO_BIG:
  case JERR_NO_BACKING_STORE:
  case JERR_WIDTH_OVERFLOW:
    return SA_LIMIT;
  case JERR_OUT_OF_MEMORY:
    return SA_MEMORY;
  }
  return SA_DECODE;
}

static void on_error(j_common_ptr c) {
  jpeg *j = c->client_data;
  char text[JMSG_LENGTH_MAX];
  c->err->format_message(c, text);
  sa_fail(&j->head.error, kind_of(c->err->msg_code), "%s", text);
  longjmp(j->fail, 1);
}

/* Warnings are counted, as the library expects, and passed over, as Pillow does. */
static void on_message(j_common_ptr c, int level) {
  if (level < 0) c->err->num_warnings++;
}

static void on_output(j_common_ptr c) { (void)c; }

static void on_progress(j_common_ptr c) {
  jpeg *j = c->client_data;
  if (j->c.input_scan_number <= j->max_scans) return;
  sa_fail(&j->head.error, SA_LIMIT, "more than %d scans", j->max_scans);
  longjmp(j->fail, 1);
}

static const uint8_t end_of_image[] = {0xFF, JPEG_EOI};

static void cut_short(jpeg *j) {
  sa_fail(&j->head.error, SA_TRUNCATED, "the data end at row %u of %u, before the end-of-image marker", j->c.output_scanline,
          j->c.image_height);
  longjmp(j->fail, 1);
}

/* pretend puts an end-of-image marker in the place of the data that are missing, upon which the library makes grey of
   them. It does so once: data that end inside a marker stay incomplete. */
static void pretend(jpeg *j) {
  if (!j->fill || j->pretended) cut_short(j);
  j->pretended = 1;
  j->src.next_input_byte = end_of_image;
  j->src.bytes_in_buffer = sizeof end_of_image;
}

/* All the data are in memory, so a decoder that asks for more has met the end of a cut file. As in Pillow, arithmetic
   coding is not filled: told to wait, its decoder fails, while a marker reader returns to begin_library. */
static boolean on_empty(j_decompress_ptr c) {
  jpeg *j = c->client_data;
  if (j->finishing || (j->fill && !j->pretended && c->arith_code)) return FALSE;
  pretend(j);
  return TRUE;
}

static void begin_library(jpeg *j) {
  struct jpeg_decompress_struct *c = &j->c;
  c->out_color_space = c->num_components == 4 ? JCS_CMYK : JCS_RGB;
  c->dct_method = JDCT_ISLOW;
  c->do_fancy_upsampling = TRUE;
  c->scale_num = 1;
  c->scale_denom = (unsigned)j->head.denominator;
  while (!jpeg_start_decompress(c)) pretend(j);
}

static void on_skip(j_decompress_ptr c, long n) {
  if (n <= 0) return;
  while ((size_t)n > c->src->bytes_in_buffer) {
    n -= (long)c->src->bytes_in_buffer;
    if (!on_empty(c)) n = (long)c->src->bytes_in_buffer;
  }
  c->src->next_input_byte += n;
  c->src->bytes_in_buffer -= (size_t)n;
}

static void on_source(j_decompress_ptr c) { (void)c; }

static void enter(jpeg *j, const uint8_t *in, size_t n) {
  if (j->pretended) return;
  j->src.next_input_byte = in + j->at;
  j->src.bytes_in_buffer = n - j->at;
}

static void leave(jpeg *j, size_t n) {
  if (!j->pretended) j->at = n - j->src.bytes_in_buffer;
}

/* ended reports whether an end-of-image marker follows what has been read. Inside entropy-coded
   data 0xFF is always followed by a zero or a restart marker, so the two bytes are never chance. */
static int ended(const jpeg *j) {
  const uint8_t *p = j->src.next_input_byte, *end = p + j->src.bytes_in_buffer;
  if (j->c.unread_marker == JPEG_EOI) return 1;
  while (p + 1 < end && (p = memchr(p, 0xFF, (size_t)(end - p - 1))) != NULL)
    if (*++p == JPEG_EOI) return 1;
  return 0;
}

/* read_lines reads at least one row, or fails: the library gives none only if it waits for data. */
static int32_t read_lines(jpeg *j, JSAMPARRAY rows, int32_t count) {
  JDIMENSION got;
  while ((got = jpeg_read_scanlines(&j->c, rows, (JDIMENSION)count)) == 0) pretend(j);
  return (int32_t)got;
}

static void read_line(jpeg *j) {
  struct jpeg_decompress_struct *c = &j->c;
  if (!j->line) j->line = c->mem->alloc_large((j_common_ptr)c, JPOOL_IMAGE, (size_t)c->output_width * (size_t)c->output_components);
  read_lines(j, &j->line, 1);
}

/* finish looks for faults below the box, without decoding what lies there if an end-of-image marker
   promises that it is all there. */
static void finish(jpeg *j) {
  struct jpeg_decompress_struct *c = &j->c;
  if (j->whole || !(jpeg_has_multiple_scans(c) || ended(j)))
    while (c->output_scanline < c->output_height) read_line(j);
  if (c->output_scanline == c->output_height) {
    j->finishing = 1;
    jpeg_finish_decompress(c);
  }
  jpeg_abort_decompress(c);
}

/* The library smooths over coefficients that a progressive file never sent; near the edge of a
   region it would look at other neighbours. */
static int smooths(const struct jpeg_decompress_struct *c) {
  if (!c->progressive_mode || !c->coef_bits) return 0;
  for (int i = 0; i < c->num_components; i++)
    for (int k = 0; k < 10; k++)
      if (c->coef_bits[i][k] != 0) return 1;
  return 0;
}

/* At a smaller scale the inverse DCT makes up for subsampling as far as it can. Where upsampling has to do the rest, the
   library decodes other columns than those of a region. */
static int partly_upsampled(const struct jpeg_decompress_struct *c) {
  for (int i = 0; i < c->num_components; i++) {
    const jpeg_component_info *k = &c->comp_info[i];
#if JPEG_LIB_VERSION >= 70
    const int size = k->DCT_h_scaled_size, least = c->min_DCT_h_scaled_size;
#else
    const int size = k->DCT_scaled_size, least = c->min_DCT_scaled_size;
#endif
    if (size != least && (k->h_samp_factor * size != c->max_h_samp_factor * least || k->v_samp_factor * size != c->max_v_samp_factor * least))
      return 1;
  }
  return 0;
}

static int subsampled(const struct jpeg_decompress_struct *c) {
  for (int i = 0; i < c->num_components; i++)
    if (c->comp_info[i].h_samp_factor < c->max_h_samp_factor) return 1;
  return 0;
}

/* crop narrows the columns that are decoded. Upsampling looks one column to either side, and turns
   into plain repetition when a region is very narrow, so a little more is asked for. */
static void crop(jpeg *j) {
  JDIMENSION width = j->c.output_width, x0 = (JDIMENSION)j->box.x, x1 = x0 + (JDIMENSION)j->box.w, w;
  if (subsampled(&j->c)) {
    if (x0 > 0) x0--;
    if (x1 < width) x1++;
  }
  if (x1 - x0 < 16) x1 = width - x0 < 16 ? width : x0 + 16;
  if (x1 - x0 < 16) x0 = x1 < 16 ? 0 : x1 - 16;
  if (x0 == 0 && x1 == width) {
    j->head.lead = (size_t)j->box.x * 3;
    return;
  }
  w = x1 - x0;
  jpeg_crop_scanline(&j->c, &x0, &w);
  j->head.lead = ((size_t)j->box.x - x0) * 3;
}

static void begin_whole(jpeg *j) {
  struct jpeg_decompress_struct *c = &j->c;
  j->whole = 1;
  while (c->output_scanline < (JDIMENSION)(j->box.y + j->row)) read_line(j);
}

static int start(jpeg *j, const uint8_t *in, size_t n) {
  struct jpeg_decompress_struct *c = &j->c;
  enter(j, in, n);
  if (setjmp(j->fail)) return -1;
  begin_library(j);
  if (c->out_color_space != JCS_RGB || smooths(c) || partly_upsampled(c) || LIBJPEG_TURBO_VERSION_NUMBER < REGION_VERSION) {
    begin_whole(j);
  } else {
    crop(j);
    j->head.row_bytes = (size_t)c->output_width * 3;
    /* One skip only, and from row 0: a later one may give stale rows (libjpeg-turbo issue 915). */
    if (j->box.y > 0) jpeg_skip_scanlines(c, (JDIMENSION)j->box.y);
  }
  leave(j, n);
  return 0;
}

/* restart decodes everything anew and row by row, up to the row that is wanted next: a region may meet a
   failure some rows early. */
static int restart(jpeg *j, const uint8_t *in, size_t n) {
  struct jpeg_decompress_struct *c = &j->c;
  jpeg_abort_decompress(c);
  j->at = 0;
  j->pretended = 0;
  j->line = NULL;
  enter(j, in, n);
  if (setjmp(j->fail)) return -1;
  jpeg_read_header(c, TRUE);
  begin_library(j);
  begin_whole(j);
  leave(j, n);
  return 0;
}

/* recover decides how to go on after a failure: as a failure, decoding anew, or with empty rows. */
static int recover(jpeg *j, const uint8_t *in, size_t n) {
  if (!sa_forgive(&j->head.error, j->fill)) return -1;
  if (j->whole || restart(j, in, n) < 0) {
    j->empty = 1;
    return j->head.error.kind == SA_OK || sa_forgive(&j->head.error, j->fill) ? 0 : -1;
  }
  return 0;
}

static int begin(sa_picture *p, const uint8_t *in, size_t n, sa_box box) {
  jpeg *j = (jpeg *)p;
  j->box = box;
  p->lead = 0;
  p->row_bytes = (size_t)box.w * 3;
  return start(j, in, n) < 0 ? recover(j, in, n) : 0;
}

static uint8_t div255(unsigned t) { return (uint8_t)((t + 128 + ((t + 128) >> 8)) >> 8); }

/* Files carry CMYK inverted (Adobe's habit), and Pillow assumes so of all of them. */
static void cmyk_to_rgb(uint8_t *dst, const uint8_t *src, int w) {
  for (int i = 0; i < w; i++, src += 4, dst += 3) {
    unsigned white = src[3];
    for (int k = 0; k < 3; k++) {
      unsigned ink = 255 - src[k];
      dst[k] = (uint8_t)(white - div255(ink * white));
    }
  }
}

static void next_whole(jpeg *j, uint8_t *row) {
  const int components = j->c.output_components;
  const uint8_t *from;
  read_line(j);
  from = j->line + (size_t)j->box.x * (size_t)components;
  if (components == 4)
    cmyk_to_rgb(row, from, j->box.w);
  else
    memcpy(row, from, (size_t)j->box.w * 3);
}

/* read_rows decodes the next count rows of the box. */
static int read_rows(jpeg *j, const uint8_t *in, size_t n, uint8_t *const *rows, int count) {
  const int32_t first = j->row, end = first + count;
  enter(j, in, n);
  if (setjmp(j->fail)) return -1;
  while (j->row < end) {
    uint8_t *const *to = rows + (j->row - first);
    if (j->whole) {
      next_whole(j, *to + j->head.lead);
      j->row++;
    } else {
      j->row += read_lines(j, (JSAMPARRAY)to, end - j->row);
    }
  }
  if (end == j->box.h && !j->fill) finish(j);
  leave(j, n);
  return 0;
}

/* leave_empty delivers a row of which there are no data. Ink that is missing leaves white. */
static void leave_empty(jpeg *j, uint8_t *row) {
  memset(row + j->head.lead, j->c.num_components == 4 ? 255 : 0, (size_t)j->box.w * 3);
  j->row++;
}

static int next(sa_picture *p, const uint8_t *in, size_t n, uint8_t *const *rows, int count) {
  jpeg *j = (jpeg *)p;
  const int32_t first = j->row, end = first + count < j->box.h ? first + count : j->box.h;
  while (j->row < end) {
    uint8_t *const *to = rows + (j->row - first);
    if (j->empty)
      leave_empty(j, *to);
    else if (read_rows(j, in, n, to, end - j->row) < 0 && recover(j, in, n) < 0)
      return -1;
  }
  return end - first;
}

static void close_(sa_picture *p) {
  jpeg *j = (jpeg *)p;
  jpeg_destroy_decompress(&j->c);
  free(j);
}

static int open_(jpeg *j, const uint8_t *in, size_t n, const sa_limits *l) {
  struct jpeg_decompress_struct *c = &j->c;
  if (setjmp(j->fail)) return -1;
  jpeg_create_decompress(c);
  c->client_data = j;
  c->src = &j->src;
  c->progress = &j->progress;
  c->mem->max_memory_to_use = (long)l->max_memory;
  enter(j, in, n);
  jpeg_read_header(c, TRUE);
  if (c->num_components != 1 && c->num_components != 3 && c->num_components != 4)
    return sa_fail(&j->head.error, SA_UNSUPPORTED, "%d colour components", c->num_components);
  j->head.header = (sa_header){(int32_t)c->image_width, (int32_t)c->image_height};
  leave(j, n);
  j->fill = l->fill; /* not earlier: a header that ends early is a failure */
  return 0;
}

sa_picture *sa_jpeg_open(const uint8_t *in, size_t n, const sa_limits *l, sa_error *e) {
  jpeg *j = calloc(1, sizeof *j);
  if (!j) {
    sa_no_memory(e, sizeof *j);
    return NULL;
  }
  j->head.begin = begin;
  j->head.next = next;
  j->head.close = close_;
  j->max_scans = l->max_scans;
  j->c.err = jpeg_std_error(&j->err);
  j->c.client_data = j;
  j->err.error_exit = on_error;
  j->err.emit_message = on_message;
  j->err.output_message = on_output;
  j->src.init_source = on_source;
  j->src.fill_input_buffer = on_empty;
  j->src.skip_input_data = on_skip;
  j->src.resync_to_restart = jpeg_resync_to_restart;
  j->src.term_source = on_source;
  j->progress.progress_monitor = on_progress;
  if (open_(j, in, n, l) < 0) {
    *e = j->head.error;
    close_(&j->head);
    return NULL;
  }
  return &j->head;
}
