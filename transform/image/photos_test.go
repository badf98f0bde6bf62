package image

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

// decodeAll decodes a whole image.
func decodeAll(in []byte, lim Limits) (pixels []byte, width, height int, err error) {
	return decodeWith(transform.DecodeImage{}, in, lim)
}

func decodeWith(d transform.DecodeImage, in []byte, lim Limits) (pixels []byte, width, height int, err error) {
	j := job{lim: lim.withDefaults(), variant: bestVariant()}
	e := []errand{{in: in, decoding: d}}
	j.open(e)
	p := e[0].picture
	defer p.close()
	if j.judge(p); p.err != nil {
		return nil, 0, 0, p.err
	}
	s := newStage(p.width, p.height)
	pixels = make([]byte, s.bytes())
	j.decode(p, s, pixels)
	return pixels, p.width, p.height, p.err
}

// expected is one row of the table of what Pillow 13 makes of a file.
type expected struct {
	path, format, orientation, pillow, sha256 string
	width, height                             int
}

func expectations(t testing.TB) []expected {
	f, err := os.Open(testdata.Path(t, "expect-images.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes = '\t', true
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var all []expected
	for _, row := range rows[1:] {
		e := expected{path: row[0], format: row[1], orientation: row[5], pillow: row[7], sha256: row[8]}
		e.width, _ = strconv.Atoi(row[2])
		e.height, _ = strconv.Atoi(row[3])
		all = append(all, e)
	}
	return all
}

func kindOf(err error) transform.ErrorKind {
	var e *transform.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// exceptions are the files on which this package and Pillow 13.0.0 disagree, and why. "unsupported" formats
// are not among them: undecoded() names those.
var exceptions = map[string]string{
	"jpeg/dali/cat-3449999_640_grayscale_8bit.jpg": "lossless JPEG: Pillow's libjpeg-turbo 3 decodes it, 2.1 does not",

	"fuzz/afl-jpeg-full/id_005024_sync_jpeg_turbo_src_003798.jpg":        hostileVersions,
	"fuzz/afl-jpeg_turbo-full/id_003805_src_003737_op_flip4_pos_299.jpg": hostileVersions,
	"fuzz/afl-jpeg-edges-only/id_000903_src_000177_op_havoc_rep_2.jpg":   hostileVersions,

	"png/pillow/i_trns.png":              grey16,
	"png/pngsuite/basi0g16.png":          grey16,
	"png/pngsuite/basn0g16.png":          grey16,
	"png/pngsuite/g04n0g16.png":          grey16,
	"png/pngsuite/g10n0g16.png":          grey16,
	"png/pngsuite/g25n0g16.png":          grey16,
	"png/pngsuite/oi2n0g16.png":          grey16,
	"png/pngsuite/oi4n0g16.png":          grey16,
	"png/torchcodec/grayscale_16bit.png": grey16,

	"png/pillow/png_decompression_dos.png":      "Pillow refuses a text chunk, which never reaches the pixels; it is skipped here",
	"png/pillow/unknown_compression_method.png": "Pillow refuses a colour profile, which never reaches the pixels; it is skipped here",
	"png/pillow/broken_data_stream.png":         unknownFilter,

	"fuzz/zune-png/3a9ee46ab00357dac854d2c61076767844ee6996":               unknownFilter,
	"fuzz/zune-png/1cd603479c91735e4f73e106e05333216f5d7db9":               noPalette,
	"fuzz/zune-png/1d4bc48b035d7ca5dfad017baabdf2b21ce05e65":               noPalette,
	"fuzz/zune-png/7bcb1eb2baa3eb553ada02549d0bd924c054c3b9":               noPalette,
	"fuzz/zune-png/8988a7517498f3fa1f534a0608c82a06cf6717ea":               noPalette,
	"fuzz/zune-png/9e41d73e3a01f8af5aff30257f7b43a014c6cdcd":               noPalette,
	"fuzz/zune-png/b169e49b95794c91caf535ca7a54ba743893a949":               noPalette,
	"fuzz/afl-gif_im-full/id_001804_src_001003+001801_op_splice_rep_1.gif": "the table counts frames and meets a broken extension behind the first one, which both decode",

	"fuzz/libpng-crashers/huge_IDAT.png": "a pixel chunk claims more bytes than the file has",
}

const (
	hostileVersions = "machine-made damage that versions of libjpeg-turbo decode differently"
	grey16          = "16-bit grey: scaled here, (v*255 + 32895) >> 16; Pillow turns all above 255 white"
	unknownFilter   = "an unknown row filter: Pillow raises too; the table has the half picture that it hands out when asked again"
	noPalette       = "palette pixels without a palette: refused by libpng; Pillow raises on most, and calls the rest grey"
)

// raising is a PNG cut behind its pixels. Pillow raises at first and hands out all pixels, those of the table, when asked
// again; here it decodes.
const raising = "png/pillow/truncated_end_chunk.png"

// agrees says what is wrong with a result, "" if it is what Pillow makes of the file.
func (e expected) agrees(width, height int, sum string, err error) string {
	switch {
	case e.pillow != "ok" && err == nil:
		return "decoded, but Pillow answers " + e.pillow
	case e.pillow == "ok" && err != nil:
		return "Pillow decodes it"
	case err == nil && (width != e.width || height != e.height):
		return fmt.Sprintf("%d x %d pixels, Pillow has %d x %d", width, height, e.width, e.height)
	case err == nil && sum != e.sha256:
		return "other pixels than Pillow"
	}
	return ""
}

func TestDecodeEqualsPillow(t *testing.T) {
	decoded := 0
	for _, e := range expectations(t) {
		rgb, w, h, err := decodeAll(testdata.Read(t, e.path), Limits{})
		if kind := kindOf(err); err != nil && kind == "" {
			t.Errorf("%s: %v: the error has no kind", e.path, err)
		} else if kind == transform.KindUnsupported && !slices.Contains([]string{"JPEG", "MPO", "PNG", "WEBP", "GIF"}, e.format) {
			continue
		}
		why := e.agrees(w, h, digestOf(rgb), err)
		if excuse := exceptions[e.path]; (why == "") != (excuse == "") {
			t.Errorf("%s (%s): %q, error %v; listed exception: %q", e.path, e.format, why, err, excuse)
		}
		if err == nil {
			decoded++
		}
	}
	if decoded < 430 {
		t.Errorf("%d files decoded, there should be at least 430", decoded)
	}
}
