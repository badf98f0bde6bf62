/* WebP through libwebp: lossy and lossless, fancy upsampling, no dithering, one thread. Of an
   animation it is the first frame on its canvas, which is black elsewhere; alpha is dropped and the
   colour under it kept, as Pillow's convert("RGB") does. The library hands out whole pictures only,
   so the part of the box that lies on the frame is decoded into a buffer; rows below it are not
   decoded. */
#include "picture.h"

#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

typedef struct {
  sa_picture head;
  size_t at, size; /* where the frame's bytes lie in the file */
  sa_box frame;    /* on the canvas */
  int lossless, alpha;
  int64_t max_memory;
  sa_box box;
  sa_box part;     /* of the frame, on the canvas: what is decoded */
  int32_t row;     /* of the box */
  size_t stride;   /* of pixels */
  uint8_t *pixels; /* of part */
} webp;

static int fail_status(sa_error *e, VP8StatusCode status, size_t bytes) {
  switch (status) {
  case VP8_STATUS_OUT_OF_MEMORY:
    return sa_no_memory(e, bytes);
  case VP8_STATUS_UNSUPPORTED_FEATURE:
    return sa_fail(e, SA_UNSUPPORTED, "a feature that the library does not know");
  case VP8_STATUS_NOT_ENOUGH_DATA:
  case VP8_STATUS_SUSPENDED:
    return sa_fail(e, SA_TRUNCATED, "the data of the frame end early");
  default:
    return sa_fail(e, SA_DECODE, "the data of the frame are broken");
  }
}

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* part_of is what must be decoded of the frame for the box. Upsampling looks at the next colour
   sample to every side, which stands for two pixels, and a crop of the library begins on even ones. */
static sa_box part_of(const webp *w, sa_box box) {
  const int32_t fx = w->frame.x, fy = w->frame.y;
  int32_t x0 = most(box.x - fx, 0), y0 = most(box.y - fy, 0);
  int32_t x1 = least(box.x + box.w - fx, w->frame.w), y1 = least(box.y + box.h - fy, w->frame.h);
  if (x0 >= x1 || y0 >= y1) { /* nothing of it; but that it is broken is found as far down as it always is */
    x0 = 0;
    x1 = 1;
    y1 = most(y1, 1);
    y0 = y1 - 1;
  }
  x0 = most(x0 - 1, 0) & ~1;
  y0 = most(y0 - 1, 0) & ~1;
  x1 = least(x1 + 1, w->frame.w);
  y1 = least(y1 + 1, w->frame.h);
  return (sa_box){fx + x0, fy + y0, x1 - x0, y1 - y0};
}

/* memory is what decoding takes at most: our pixels, those that a lossless frame is unpacked into, and
   the alpha plane, which may be coded as a lossless frame of its own. */
static int64_t memory(const webp *w) {
  const int64_t frame = (int64_t)w->frame.w * w->frame.h;
  return (int64_t)w->part.w * 3 * w->part.h + (w->lossless ? 4 * frame : w->alpha ? 5 * frame : 0);
}

/* decode writes part to out, rows stride bytes apart. */
static int decode(webp *w, const uint8_t *in, uint8_t *out, size_t stride) {
  WebPDecoderConfig c;
  VP8StatusCode status;
  if (!WebPInitDecoderConfig(&c)) return sa_fail(&w->head.error, SA_UNSUPPORTED, "libwebp is of another version than its header");
  c.options.use_cropping = w->part.w != w->frame.w || w->part.h != w->frame.h;
  c.options.crop_left = w->part.x - w->frame.x;
  c.options.crop_top = w->part.y - w->frame.y;
  c.options.crop_width = w->part.w;
  c.options.crop_height = w->part.h;
  c.output.colorspace = MODE_RGB;
  c.output.is_external_memory = 1;
  c.output.u.RGBA.rgba = out;
  c.output.u.RGBA.stride = (int)stride;
  c.output.u.RGBA.size = stride * (size_t)(w->part.h - 1) + (size_t)w->part.w * 3;
  status = WebPDecode(in + w->at, w->size, &c);
  WebPFreeDecBuffer(&c.output);
  return status == VP8_STATUS_OK ? 0 : fail_status(&w->head.error, status, c.output.u.RGBA.size);
}

static int begin(sa_picture *p, const uint8_t *in, size_t n, sa_box box) {
  webp *w = (webp *)p;
  (void)in;
  (void)n;
  w->box = box;
  w->part = part_of(w, box);
  w->stride = (size_t)w->part.w * 3;
  p->row_bytes = (size_t)box.w * 3;
  p->lead = 0;
  if (memory(w) > w->max_memory)
    return sa_fail(&p->error, SA_LIMIT, "decoding needs %lld bytes at once, the memory limit is %lld", (long long)memory(w), (long long)w->max_memory);
  return 0;
}

/* unpack decodes part into memory of our own, unless that is done. */
static int unpack(webp *w, const uint8_t *in) {
  const size_t size = w->stride * (size_t)w->part.h;
  if (w->pixels) return 0;
  w->pixels = malloc(size);
  if (!w->pixels) return sa_no_memory(&w->head.error, size);
  return decode(w, in, w->pixels, w->stride);
}

static int place(sa_picture *p, const uint8_t *in, size_t n, uint8_t *out, size_t stride) {
  webp *w = (webp *)p;
  (void)n;
  if (memcmp(&w->part, &w->box, sizeof w->box) != 0 || stride > INT32_MAX) return 0;
  return decode(w, in, out, stride) < 0 ? -1 : 1;
}

/* fill writes one row of the box: what the frame covers of it, and black. */
static void fill(const webp *w, uint8_t *to, int32_t y) {
  const int32_t x0 = most(w->box.x, w->part.x), x1 = least(w->box.x + w->box.w, w->part.x + w->part.w);
  if (x1 - x0 != w->box.w || y < w->part.y || y >= w->part.y + w->part.h) memset(to, 0, w->head.row_bytes);
  if (x0 >= x1 || y < w->part.y || y >= w->part.y + w->part.h) return;
  memcpy(to + (size_t)(x0 - w->box.x) * 3, w->pixels + w->stride * (size_t)(y - w->part.y) + (size_t)(x0 - w->part.x) * 3,
         (size_t)(x1 - x0) * 3);
}

static int next(sa_picture *p, const uint8_t *in, size_t n, uint8_t *const *rows, int count) {
  webp *w = (webp *)p;
  int i = 0;
  (void)n;
  if (unpack(w, in) < 0) return -1;
  for (; i < count && w->row < w->box.h; i++, w->row++) fill(w, rows[i], w->box.y + w->row);
  return i;
}

static void close_(sa_picture *p) {
  webp *w = (webp *)p;
  free(w->pixels);
  free(w);
}

/* read_header finds the first frame and what it needs. */
static int read_header(webp *w, const uint8_t *in, const WebPDemuxer *d) {
  WebPIterator frame;
  WebPBitstreamFeatures f;
  VP8StatusCode status;
  if (!WebPDemuxGetFrame(d, 1, &frame)) return sa_fail(&w->head.error, SA_DECODE, "there is no frame");
  w->at = (size_t)(frame.fragment.bytes - in);
  w->size = frame.fragment.size;
  w->frame = (sa_box){frame.x_offset, frame.y_offset, frame.width, frame.height};
  WebPDemuxReleaseIterator(&frame);
  w->head.header = (sa_header){(int32_t)WebPDemuxGetI(d, WEBP_FF_CANVAS_WIDTH), (int32_t)WebPDemuxGetI(d, WEBP_FF_CANVAS_HEIGHT)};
  status = WebPGetFeatures(in + w->at, w->size, &f);
  if (status != VP8_STATUS_OK) return fail_status(&w->head.error, status, 0);
  w->lossless = f.format == 2;
  w->alpha = f.has_alpha;
  return 0;
}

static int open_(webp *w, const uint8_t *in, size_t n) {
  const WebPData data = {in, n};
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  WebPDemuxer *d = WebPDemuxPartial(&data, &state);
  int result;
  if (state == WEBP_DEMUX_PARSE_ERROR)
    result = sa_fail(&w->head.error, SA_DECODE, "the chunks of the file make no sense");
  else if (state != WEBP_DEMUX_DONE)
    result = sa_fail(&w->head.error, SA_TRUNCATED, "the data end before the length that the file states");
  else if (!d)
    result = sa_no_memory(&w->head.error, 1);
  else
    result = read_header(w, in, d);
  WebPDemuxDelete(d);
  return result;
}

sa_picture *sa_webp_open(const uint8_t *in, size_t n, const sa_limits *l, sa_error *e) {
  webp *w = calloc(1, sizeof *w);
  if (!w) {
    sa_no_memory(e, sizeof *w);
    return NULL;
  }
  w->head.begin = begin;
  w->head.next = next;
  w->head.place = place;
  w->head.close = close_;
  w->max_memory = l->max_memory;
  if (open_(w, in, n) < 0) {
    *e = w->head.error;
    close_(&w->head);
    return NULL;
  }
  return &w->head;
}
