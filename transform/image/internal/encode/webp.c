#include "encode.h"

#include <stdio.h>

#include <webp/encode.h>

static int configure(WebPConfig *c, const en_webp_options *o) {
  if (!WebPConfigInit(c)) return 0;
  c->lossless = o->lossless;
  c->quality = (float)o->quality;
  c->method = 2;
  c->exact = 1;
  c->segments = o->segments;
  c->filter_type = o->filter_type;
  c->filter_strength = o->filter_strength;
  c->partitions = o->partitions;
  c->alpha_quality = o->alpha_quality;
  return WebPValidateConfig(c);
}

uint8_t *en_webp(const uint8_t *rgba, int width, int height, const en_webp_options *o, size_t *size, char *text) {
  WebPConfig c;
  WebPPicture p;
  WebPMemoryWriter w;
  int ok;
  if (!configure(&c, o) || !WebPPictureInit(&p)) {
    snprintf(text, EN_TEXT, "libwebp does not like the options");
    return NULL;
  }
  WebPMemoryWriterInit(&w);
  p.use_argb = o->lossless;
  p.width = width;
  p.height = height;
  p.writer = WebPMemoryWrite;
  p.custom_ptr = &w;
  ok = o->alpha ? WebPPictureImportRGBA(&p, rgba, 4 * width) : WebPPictureImportRGBX(&p, rgba, 4 * width);
  ok = ok && WebPEncode(&c, &p);
  if (!ok) snprintf(text, EN_TEXT, "libwebp error %d", (int)p.error_code);
  WebPPictureFree(&p);
  if (!ok) {
    WebPMemoryWriterClear(&w);
    return NULL;
  }
  *size = w.size;
  return w.mem;
}
