package image

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/internal/encode"
)

func mustJPEG(t testing.TB, w, h int, o encode.Options) []byte {
	t.Helper()
	in, err := encode.JPEG(photo(1, w, h, 3), w, h, o)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// pngHeader is a PNG that claims a size and has no pixels.
func pngHeader(w, h uint32) []byte {
	body := append([]byte("IHDR"), binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)...)
	body = append(body, 8, 2, 0, 0, 0)
	out := append([]byte("\x89PNG\r\n\x1a\n"), 0, 0, 0, 13)
	out = binary.BigEndian.AppendUint32(append(out, body...), crc32.ChecksumIEEE(body))
	return append(out, 0, 0, 1, 0, 'I', 'D', 'A', 'T')
}

func TestErrorsAreNamed(t *testing.T) {
	photo := mustJPEG(t, 64, 64, encode.Options{})
	progressive := mustJPEG(t, 640, 640, encode.Options{Progressive: true})
	crop := func(w, h int) []transform.Step {
		return []transform.Step{{Kind: transform.StepCrop, Box: transform.Box{W: w, H: h}}}
	}
	resize := func(w, h, version int) []transform.Step {
		return []transform.Step{{Kind: transform.StepResize, Width: w, Height: h, Version: version, Filter: transform.Bilinear}}
	}
	for _, c := range []struct {
		name  string
		in    []byte
		lim   Limits
		steps []transform.Step
		room  int
		kind  transform.ErrorKind
		says  string
	}{
		{"empty", nil, Limits{}, nil, 0, transform.KindTruncated, "0 bytes"},
		{"HTML", []byte("<html><body>404</body></html>"), Limits{}, nil, 0, transform.KindUnsupported, `begins with "<html><body>"`},
		{"stub", []byte("\x89PNG\r\n\x1a"), Limits{}, nil, 0, transform.KindUnsupported, "not an image"},
		{"magic alone", []byte("\xff\xd8\xff"), Limits{}, nil, 0, transform.KindTruncated, "jpeg"},
		{"PNG magic alone", []byte("\x89PNG\r\n\x1a\n"), Limits{}, nil, 0, transform.KindTruncated, "png"},
		{"WebP", []byte("RIFF\x40\x00\x00\x00WEBPVP8 \x30\x00\x00\x00"), Limits{}, nil, 0, transform.KindTruncated, "webp"},
		{"WebP of nothing", []byte("RIFF\x0c\x00\x00\x00WEBPVP8 \x00\x00\x00\x00"), Limits{}, nil, 0, transform.KindDecode, "webp"},
		{"GIF", []byte("GIF89a\x01\x00\x01\x00"), Limits{}, nil, 0, transform.KindTruncated, "gif"},
		{"cut JPEG", photo[:len(photo)/2], Limits{}, nil, 64 * 64 * 3, transform.KindTruncated, "row"},
		{"PNG without pixels", pngHeader(4, 4), Limits{}, nil, 48, transform.KindTruncated, "row 0 of 4"},
		{"PNG bomb", pngHeader(1<<31-1, 1<<31-1), Limits{}, nil, 0, transform.KindLimit, "2147483647 x 2147483647"},
		{"PNG of one long row", pngHeader(1<<30, 1), Limits{MaxPixels: 1 << 40}, nil, 0, transform.KindLimit, "1073741824 x 1"},
		{"pixels", photo, Limits{MaxPixels: 4095}, nil, 1 << 20, transform.KindLimit, "64 x 64 pixels, the limit is 4095"},
		{"input", photo, Limits{MaxInput: 10}, nil, 1 << 20, transform.KindLimit, "the limit is 10"},
		{"output", photo, Limits{MaxOutput: 100}, nil, 1 << 20, transform.KindLimit, "the limit is 100 bytes"},
		{"room", photo, Limits{}, nil, 64*64*3 - 1, transform.KindLimit, "the result has 12288 bytes, there is room for 12287"},
		{"scans", progressive, Limits{MaxScans: 3}, nil, 1 << 21, transform.KindLimit, "more than 3 scans"},
		{"memory of a decoder", progressive, Limits{MaxMemory: 1 << 18}, nil, 1 << 21, transform.KindLimit, "jpeg"},
		{"memory of tables", photo, Limits{MaxMemory: 1000}, resize(9, 9, 2), 1 << 20, transform.KindLimit, "memory limit is 1000"},
		{"memory of rows", photo, Limits{MaxMemory: 5000}, resize(64, 9, 2), 1 << 20, transform.KindLimit, "memory limit is 5000"},
		{"output of a resize", photo, Limits{MaxOutput: 1 << 20}, resize(1<<27, 1<<27, 2), 1 << 20, transform.KindLimit, "134217728"},
		{"resize to nothing", photo, Limits{}, resize(0, 5, 2), 1 << 20, transform.KindPlan, "0 x 5"},
		{"unknown version", photo, Limits{}, resize(5, 5, 3), 1 << 20, transform.KindPlan, "3"},
		{"box outside", photo, Limits{}, []transform.Step{{Kind: transform.StepCrop, Box: transform.Box{X: 64, W: 1, H: 1}, Pad: "odd"}}, 10, transform.KindPlan, "odd"},
		{"empty box", photo, Limits{}, crop(0, 4), 10, transform.KindPlan, "0 x 4"},
		{"unknown step", photo, Limits{}, []transform.Step{{Kind: "blur"}}, 1 << 20, transform.KindPlan, "blur"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := job{lim: c.lim.withDefaults(), variant: bestVariant()}
			_, err := j.one(c.in, make([]byte, c.room), func(int, int) (transform.Resolved, error) { return transform.Resolved{Steps: c.steps}, nil })
			if kindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want kind %s, saying %q", err, c.kind, c.says)
			}
		})
	}
}

func TestLimitsValidate(t *testing.T) {
	err := Limits{MaxPixels: -1, MaxScans: -2}.Validate()
	if err == nil || !strings.Contains(err.Error(), "MaxPixels") || !strings.Contains(err.Error(), "MaxScans") {
		t.Errorf("%v; want both fields named", err)
	}
	if _, err := Run(nil, transform.Key{}, nil, nil, Limits{MaxInput: -1}); err == nil {
		t.Error("Run takes negative limits")
	}
}

// A picture in another format under a wrong name is decoded by its content, and what no decoder reads is
// refused with its format's name, whatever the name says.
func TestFormatIsDecidedByContent(t *testing.T) {
	for name, kind := range map[string]transform.ErrorKind{
		"jpeg/dali-misnamed/bmp.jpeg": transform.KindUnsupported,
		"png/torchcodec/sigsegv.png":  transform.KindTruncated,
	} {
		if _, _, _, err := decodeAll(testdata.Read(t, name), Limits{}); kindOf(err) != kind {
			t.Errorf("%s: %v, want kind %s", name, err, kind)
		}
	}
}

// What a hostile header claims costs nothing: memory stays flat while it is refused.
func TestBombsTakeNoMemory(t *testing.T) {
	bomb := mustJPEG(t, 16, 16, encode.Options{})
	at := bytes.Index(bomb, []byte{0xFF, 0xC0})
	copy(bomb[at+5:], []byte{0xFF, 0xDC, 0xFF, 0xDC}) // 65,500 x 65,500
	for name, in := range map[string][]byte{"jpeg": bomb, "png": pngHeader(1<<20, 1<<20)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, _, err := decodeAll(in, Limits{})
		runtime.ReadMemStats(&after)
		if kindOf(err) != transform.KindLimit || after.TotalAlloc-before.TotalAlloc > 1<<20 {
			t.Errorf("%s: %v after %d bytes, want an error of kind limit without memory", name, err, after.TotalAlloc-before.TotalAlloc)
		}
	}
}
