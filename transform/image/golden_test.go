package image

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	goimage "image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/internal/encode"
)

var rewrite = flag.Bool("rewrite", false, "write the vectors anew; every golden digest of a decoder changes with them")

// testdata/golden.json is what this version promises, of pixels and of what plans draw: everything that two programs
// compare before they use each other's pixels. A change there makes agents and loaders of different versions refuse each
// other's: only together with a new operator version, or when a vector is added.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	got := transform.Golden()
	maps.Copy(got, Golden())
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if got[id] != want[id] {
			t.Errorf("%q: %q, golden.json has %q", id, got[id], want[id])
		}
		delete(want, id)
	}
	for id := range want {
		t.Errorf("golden.json has %q, which no operator of this build is", id)
	}
}

// Every identity that a plan may name has a golden digest.
func TestGoldenCoversPlans(t *testing.T) {
	var ops []string
	for _, filter := range []transform.Filter{transform.Nearest, transform.BoxFilter, transform.Bilinear, transform.Bicubic, transform.Lanczos} {
		for version := 1; version <= 2; version++ {
			ops = append(ops, fmt.Sprintf(`{"op":"Resize","size":[9,9],"interpolation":%q,"version":%d}`, filter, version))
		}
	}
	ops = append(ops, `{"op":"CenterCrop","size":[8,8]},{"op":"RandomResizedCrop","size":[224,224]},{"op":"RandomCrop","size":9,"padding":1},
		{"op":"Pad","padding":1},{"op":"RandomHorizontalFlip"},{"op":"RandomVerticalFlip"},{"op":"RandomGrayscale"},{"op":"Grayscale"},
		{"op":"ColorJitter","brightness":1,"hue":0.5},{"op":"GaussianBlur","kernel_size":3},{"op":"RandAugment"},
		{"op":"RandomApply","transforms":[{"op":"RandomVerticalFlip"}]},{"op":"RandomErasing","value":"random"}`)
	got := transform.Golden()
	maps.Copy(got, Golden())
	named := map[string]bool{}
	for _, jpeg := range []string{"exact", "dct-scaled"} {
		plan, err := transform.ParsePlan(fmt.Appendf(nil, `{"plan":1,"ops":[{"op":"DecodeImage","orientation":"apply","truncated":"fill","jpeg":%q},%s]}`, jpeg, strings.Join(ops, ",")))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range plan.Identities() {
			named[id] = true
			if got[id] == "" {
				t.Errorf("identity %q has no golden digest", id)
			}
		}
	}
	for id := range got {
		if !named[id] {
			t.Errorf("no plan can name %q", id)
		}
	}
}

// All kernels give the golden pixels.
func TestGoldenOfEveryVariant(t *testing.T) {
	want := kernelDigests(scalar)
	for _, v := range variants() {
		if got := kernelDigests(v); !maps.Equal(got, want) {
			t.Errorf("%v: %v, scalar: %v", v, got, want)
		}
	}
}

func TestVectors(t *testing.T) {
	if *rewrite {
		for name, data := range makeVectors(t) {
			if err := os.WriteFile(filepath.Join("vectors", name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := vectors.ReadDir("vectors")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		in, err := vectors.ReadFile("vectors/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		d := transform.DecodeImage{}
		if strings.HasPrefix(e.Name(), "fill-") {
			d.Truncated = "fill"
		}
		if _, w, h, err := decodeWith(d, in, Limits{}); err != nil || w < 22 || h < 12 || len(in) > 5<<10 {
			t.Errorf("%s: %d x %d pixels, %d bytes, %v: a vector is small, decodes, and holds the region that is hashed", e.Name(), w, h, len(in), err)
		}
	}
}

func makeVectors(t *testing.T) map[string][]byte {
	const w, h = 37, 29
	all := map[string][]byte{}
	for name, o := range map[string]encode.Options{
		"jpeg-420.jpg":             {Sampling: samplings["4:2:0"], Quality: 75},
		"jpeg-422-progressive.jpg": {Sampling: samplings["4:2:2"], Quality: 75, Progressive: true},
		"jpeg-444-restart.jpg":     {Quality: 75, Restart: 3},
		"jpeg-440.jpg":             {Sampling: samplings["4:4:0"], Quality: 75},
		"jpeg-411.jpg":             {Sampling: samplings["4:1:1"], Quality: 75},
		"jpeg-grey.jpg":            {Space: encode.Gray, Quality: 75},
		"jpeg-rgb.jpg":             {Space: encode.RGB, Quality: 75},
		"jpeg-ycck.jpg":            {Space: encode.YCCK, Quality: 75},
	} {
		depth := 3
		if o.Space == encode.YCCK {
			depth = 4
		}
		data, err := encode.JPEG(photo(uint32(len(name)), w, h, depth), w, h, o)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = data
	}
	all["png-interlaced.png"] = interlacedPNG(photo(4, w, h, 4), w, h)
	for name, im := range pngPictures(w, h) {
		var b bytes.Buffer
		if err := png.Encode(&b, im); err != nil {
			t.Fatal(err)
		}
		all["png-"+name+".png"] = b.Bytes()
	}
	for name, o := range map[string]encode.WebPOptions{
		"webp-lossy.webp":    {Quality: 75, Filter: 30, Segments: 2},
		"webp-alpha.webp":    {Quality: 40, Alpha: true, Filter: 60, SimpleFilter: true},
		"webp-lossless.webp": {Lossless: true, Alpha: true},
	} {
		data, err := encode.WebP(photo(uint32(len(name)), w, h, 4), w, h, o)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = data
	}
	all["webp-animated.webp"] = animated(all["webp-lossy.webp"], w+9, h+5, 4, 2, w, h)
	whole := transform.Box{W: w, H: h}
	for name, s := range map[string]gifShape{
		"gif-grey.gif":       {Width: w, Height: h, Frame: whole, Transparent: -1, Bits: 7, Frames: 1},
		"gif-interlaced.gif": {Width: w, Height: h, Frame: whole, Global: 6, Transparent: 9, Interlaced: true, Bits: 6, Frames: 2},
		"gif-beyond.gif":     {Width: 20, Height: 40, Frame: transform.Box{X: 5, Y: 4, W: w, H: h}, Global: 3, Local: 4, Transparent: 2, Bits: 5, Frames: 1},
	} {
		s.Seed = uint32(len(name))
		all[name] = s.bytes()
	}
	for _, name := range []string{"jpeg-420.jpg", "jpeg-422-progressive.jpg", "jpeg-ycck.jpg", "png-rgba.png", "png-interlaced.png", "gif-interlaced.gif"} {
		all["fill-"+name] = all[name][:len(all[name])*7/10]
	}
	for orientation, made := range map[int][]byte{
		2: jpegWithEXIF(all["jpeg-grey.jpg"], append([]byte(exifPrefix), exifOf(binary.LittleEndian, 2)...)),
		3: pngWithEXIF(all["png-palette.png"], exifOf(binary.BigEndian, 3)),
		4: webpWithEXIF(all["webp-lossy.webp"], exifOf(binary.LittleEndian, 4), w, h),
		5: webpWithEXIF(all["webp-lossy.webp"], append([]byte(exifPrefix), exifOf(binary.BigEndian, 5)...), w, h),
		6: jpegWithEXIF(all["jpeg-420.jpg"], append([]byte(exifPrefix), exifOf(binary.BigEndian, 6)...)),
		7: jpegWithEXIF(all["jpeg-411.jpg"], append([]byte(exifPrefix), exifOf(binary.LittleEndian, 7)...)),
		8: pngWithEXIF(all["png-palette.png"], exifOf(binary.LittleEndian, 8)),
	} {
		all[fmt.Sprintf("exif-%d", orientation)] = made
	}
	return all
}

func pngPictures(w, h int) map[string]goimage.Image {
	r := goimage.Rect(0, 0, w, h)
	grey, deep, alpha := goimage.NewGray(r), goimage.NewGray16(r), goimage.NewNRGBA(r)
	copy(grey.Pix, photo(1, w, h, 1))
	copy(deep.Pix, photo(2, w, h, 2))
	copy(alpha.Pix, photo(3, w, h, 4))
	palette := goimage.NewPaletted(r, color.Palette{color.NRGBA{1, 2, 3, 0}, color.NRGBA{250, 128, 4, 255}, color.NRGBA{9, 200, 77, 128}})
	for i := range palette.Pix {
		palette.Pix[i] = uint8((i*i/7 + i) % 3)
	}
	return map[string]goimage.Image{"grey": grey, "grey16": deep, "rgba": alpha, "palette": palette}
}

// interlacedPNG writes RGBA pixels in the seven passes of Adam7; no encoder at hand does.
func interlacedPNG(rgba []byte, w, h int) []byte {
	var raw bytes.Buffer
	z := zlib.NewWriter(&raw)
	for _, p := range [][4]int{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}} {
		for y := p[1]; y < h; y += p[3] {
			if p[0] < w {
				z.Write([]byte{0})
			}
			for x := p[0]; x < w; x += p[2] {
				z.Write(rgba[(y*w+x)*4 : (y*w+x)*4+4])
			}
		}
	}
	z.Close()
	out := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(name string, data []byte) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(data)))
		body := append([]byte(name), data...)
		out = binary.BigEndian.AppendUint32(append(out, body...), crc32.ChecksumIEEE(body))
	}
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(w)), uint32(h))
	chunk("IHDR", append(header, 8, 6, 0, 0, 1))
	chunk("IDAT", raw.Bytes())
	chunk("IEND", nil)
	return out
}

// kernelDigests are those of identities whose pixels the kernels make.
func kernelDigests(v variant) map[string]string {
	j := job{lim: Limits{}.withDefaults(), variant: v}
	digests := map[string]string{}
	for id, write := range j.operators() {
		if strings.HasPrefix(id, "resize/") || strings.HasPrefix(id, "placement/") {
			h := sha256.New()
			write(h)
			digests[id] = hex.EncodeToString(h.Sum(nil))
		}
	}
	return digests
}

// The vectors' pixels are Pillow's, grey of 16 bits apart.
func TestVectorsEqualPillow(t *testing.T) {
	names, err := filepath.Glob("vectors/*")
	if err != nil {
		t.Fatal(err)
	}
	var cases []pillowCase
	var got []string
	for _, name := range names {
		if base := filepath.Base(name); base == "png-grey16.png" || strings.HasPrefix(base, "fill-") {
			continue
		}
		in, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rgb, _, _, err := decodeAll(in, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, pillowCase{File: name, Steps: []pillowStep{}})
		got = append(got, digestOf(rgb))
	}
	for i, want := range pillowDigests(t, cases) {
		if got[i] != want {
			t.Errorf("%s: %s, Pillow has %s", cases[i].File, got[i], want)
		}
	}
}
