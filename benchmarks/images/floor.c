/* What the C libraries alone cost, on files held in memory: decoding to 8-bit RGB and nothing else.

     cc -O3 -o floor floor.c -ljpeg -lpng -lwebp
     ./floor LIST        LIST has one "x y w h path" a line

   Prints an empty line when the files are read, then answers each line "JOB FROM TO" on standard input: it does the job for those
   files and prints the CPU time of the process in milliseconds. Jobs:

     region   JPEG: from the box's first row to its last, the columns that hold the box (the library starts them at a block)
     full     JPEG: all of it
     png      PNG: all of it, the image API that reads row by row
     webp     WebP: all of it

   Every decoder is made for its file and freed after it. Nothing is done about damaged files: a failure ends the program. */
#include <stdio.h> /* before jpeglib.h, which needs it */

#include <jpeglib.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <webp/decode.h>

typedef struct {
  unsigned char *data;
  size_t size;
  int x, y, w, h;
} file;

static unsigned char *room; /* for one picture */

static void fail(const char *what) {
  fprintf(stderr, "floor: %s\n", what);
  exit(1);
}

static double cpu_ms(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return 1e3 * (r.ru_utime.tv_sec + r.ru_stime.tv_sec) + 1e-3 * (r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

/* Rows begin 16 bytes after a multiple of 32: on multiples of 32 the library's AVX2 colour conversion writes past the cache,
   which is slower. */
static size_t stride_of(size_t row) { return (row + 31) / 32 * 32; }

static void read_rows(struct jpeg_decompress_struct *d, JDIMENSION end) {
  size_t stride = stride_of((size_t)d->output_width * 3);
  unsigned char *at = room + 16;
  while (d->output_scanline < end) {
    JSAMPROW row = at;
    at += stride * jpeg_read_scanlines(d, &row, 1);
  }
}

static void jpeg(const file *f, int whole) {
  struct jpeg_error_mgr error;
  struct jpeg_decompress_struct d;
  d.err = jpeg_std_error(&error);
  jpeg_create_decompress(&d);
  jpeg_mem_src(&d, f->data, f->size);
  jpeg_read_header(&d, TRUE);
  d.out_color_space = JCS_RGB;
  jpeg_start_decompress(&d);
  if (whole) {
    read_rows(&d, d.output_height);
    jpeg_finish_decompress(&d);
  } else {
    JDIMENSION x = f->x, w = f->w;
    jpeg_crop_scanline(&d, &x, &w);
    if (f->y > 0) jpeg_skip_scanlines(&d, f->y);
    read_rows(&d, f->y + f->h);
    jpeg_abort_decompress(&d);
  }
  jpeg_destroy_decompress(&d);
}

typedef struct {
  const unsigned char *at, *end;
} rest;

static void png_bytes(png_structp p, png_bytep to, size_t n) {
  rest *r = png_get_io_ptr(p);
  if ((size_t)(r->end - r->at) < n) png_error(p, "the file ends early");
  memcpy(to, r->at, n);
  r->at += n;
}

static void png(const file *f) {
  png_structp p = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png_create_info_struct(p);
  if (setjmp(png_jmpbuf(p))) fail("a PNG cannot be decoded");
  rest r = {f->data, f->data + f->size};
  png_set_read_fn(p, &r, png_bytes);
  png_read_info(p, info);
  if (png_get_color_type(p, info) != PNG_COLOR_TYPE_RGB || png_get_bit_depth(p, info) != 8) fail("not an 8-bit RGB PNG");
  int passes = png_set_interlace_handling(p);
  png_read_update_info(p, info);
  size_t stride = png_get_rowbytes(p, info), height = png_get_image_height(p, info);
  while (passes-- > 0)
    for (size_t y = 0; y < height; y++) png_read_row(p, room + stride * y, NULL);
  png_destroy_read_struct(&p, &info, NULL);
}

static void webp(const file *f) {
  int w, h;
  if (!WebPGetInfo(f->data, f->size, &w, &h)) fail("not a WebP");
  if (!WebPDecodeRGBInto(f->data, f->size, room, (size_t)w * h * 3, w * 3)) fail("a WebP cannot be decoded");
}

static void one(const char *job, const file *f) {
  if (!strcmp(job, "region")) jpeg(f, 0);
  else if (!strcmp(job, "full")) jpeg(f, 1);
  else if (!strcmp(job, "png")) png(f);
  else if (!strcmp(job, "webp")) webp(f);
  else fail("no such job");
}

static file load(const char *path) {
  file f = {0};
  FILE *in = fopen(path, "rb");
  if (!in || fseek(in, 0, SEEK_END)) fail(path);
  f.size = ftell(in);
  rewind(in);
  f.data = malloc(f.size);
  if (!f.data || fread(f.data, 1, f.size, in) != f.size) fail(path);
  fclose(in);
  return f;
}

int main(int argc, char **argv) {
  FILE *list = argc == 2 ? fopen(argv[1], "r") : NULL;
  if (!list) fail("usage: floor LIST");
  static file files[10000];
  static char path[4096];
  int n = 0, x, y, w, h;
  while (n < 10000 && fscanf(list, "%d %d %d %d %4095[^\n]", &x, &y, &w, &h, path) == 5) {
    files[n] = load(path + strspn(path, " "));
    files[n].x = x, files[n].y = y, files[n].w = w, files[n].h = h;
    n++;
  }
  size_t size = 256u << 20;
  room = aligned_alloc(64, size);
  if (!room) fail("no memory");
  memset(room, 1, size);
  puts("");
  fflush(stdout);
  char job[32];
  int from, to;
  while (scanf("%31s %d %d", job, &from, &to) == 3) {
    double start = cpu_ms();
    for (int i = from; i < to && i < n; i++) one(job, &files[i]);
    printf("%.6f\n", cpu_ms() - start);
    fflush(stdout);
  }
  return 0;
}
