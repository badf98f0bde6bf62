#include "encode.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

typedef struct {
  struct jpeg_error_mgr err;
  jmp_buf fail;
  char *text;
} errors;

static void on_error(j_common_ptr c) {
  errors *e = (errors *)c->err;
  char text[JMSG_LENGTH_MAX];
  c->err->format_message(c, text);
  snprintf(e->text, EN_TEXT, "%s", text);
  longjmp(e->fail, 1);
}

static const J_COLOR_SPACE spaces[] = {JCS_YCbCr, JCS_GRAYSCALE, JCS_RGB, JCS_CMYK, JCS_YCCK};

static void configure(struct jpeg_compress_struct *c, const en_options *o) {
  c->input_components = o->space >= 3 ? 4 : 3;
  c->in_color_space = o->space >= 3 ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(c);
  jpeg_set_colorspace(c, spaces[o->space]);
  jpeg_set_quality(c, o->quality, TRUE);
  for (int i = 0; i < c->num_components; i++) {
    c->comp_info[i].h_samp_factor = o->h[i];
    c->comp_info[i].v_samp_factor = o->v[i];
  }
  c->restart_interval = (unsigned)o->restart;
  c->arith_code = o->arithmetic ? TRUE : FALSE;
  c->optimize_coding = o->arithmetic ? FALSE : TRUE;
  if (o->progressive) jpeg_simple_progression(c);
}

uint8_t *en_jpeg(const uint8_t *pixels, int width, int height, const en_options *o, size_t *size, char *text) {
  struct jpeg_compress_struct c = {0};
  errors e = {.text = text};
  unsigned char *data = NULL;
  unsigned long length = 0;
  c.err = jpeg_std_error(&e.err);
  e.err.error_exit = on_error;
  jpeg_create_compress(&c);
  jpeg_mem_dest(&c, &data, &length);
  if (setjmp(e.fail)) {
    jpeg_destroy_compress(&c);
    return NULL; /* what was written so far is the library's and is lost: only tests come here */
  }
  c.image_width = (JDIMENSION)width;
  c.image_height = (JDIMENSION)height;
  configure(&c, o);
  jpeg_start_compress(&c, TRUE);
  while (c.next_scanline < c.image_height) {
    JSAMPROW row = (JSAMPROW)(pixels + (size_t)c.next_scanline * (size_t)width * (size_t)c.input_components);
    jpeg_write_scanlines(&c, &row, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
  *size = length;
  return data;
}
