package worker

import (
	"bytes"
	"compress/flate"
	"compress/lzw"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// bomb is a small file that asks for much.
type bomb struct {
	name   string
	in     []byte
	says   string // what the error must say; "": it is an image all the same
	memory int64  // bytes by which the worker may grow
}

const little = 24 << 20

func bombs() []bomb {
	return []bomb{
		{"PNG of 2^31-1 x 2^31-1", pngHead(1<<31-1, 1<<31-1, 0), "limit", little},
		{"PNG of 2^31-1 x 1", pngHead(1<<31-1, 1, 0), "limit", little},
		{"PNG of 60000 x 60000", pngHead(60000, 60000, 0), "limit", little},
		{"PNG of 13000 x 13000 without pixels", pngHead(13000, 13000, 0), "end", little},
		{"interlaced PNG of 13000 x 13000 without pixels", pngHead(13000, 13000, 1), "end", little},
		{"PNG with pixels for a hundred million pictures", pngPacked(8, 8, 0, zeros(20_000)), "", little},
		{"interlaced PNG with pixels for a hundred million pictures", pngPacked(8, 8, 1, zeros(20_000)), "", little},
		{"PNG with a text of 200 MB", pngWith(chunk("zTXt", append([]byte("k\x00\x00"), zeros(200)...))), "", little},
		{"PNG with a profile of 200 MB", pngWith(chunk("iCCP", append([]byte("k\x00\x00"), zeros(200)...))), "", little},
		{"PNG with 100,000 texts", pngWith(bytes.Repeat(chunk("tEXt", []byte("k\x00v")), 100_000)), "", little},
		{"PNG of 178,956,970 x 1, of 64 bits", append(append([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", append(be32(178_956_970, 1), 16, 6, 0, 0, 0))...), chunk("IDAT", deflate(make([]byte, 1<<20)))...), "limit", little},
		{"JPEG of 65500 x 65500", jpegOf(0xC0, 65500, 65500, scan(0, 63, 0)), "limit", little},
		{"progressive JPEG of 65500 x 65500", jpegOf(0xC2, 65500, 65500, scan(0, 0, 0)), "limit", little},
		{"progressive JPEG of 13000 x 13000 without pixels", jpegOf(0xC2, 13000, 13000, scan(0, 0, 0)), "end", 400 << 20},
		{"JPEG of 13000 x 13000 without pixels", jpegOf(0xC0, 13000, 13000, scan(0, 63, 0)), "end", little},
		{"JPEG of 5,000 scans", jpegOf(0xC2, 640, 640, scan(0, 0, 1), bytes.Repeat(scan(0, 0, 0x10), 5000)), "more than 100 scans", little},
		{"JPEG of a million restart markers", jpegOf(0xC0, 64, 64, restart(1), scan(0, 63, 0), bytes.Repeat([]byte("\xff\xd0\xff\xd1"), 1<<20), []byte("\xff\xd9")), "", little},
		{"JPEG of 60 MB of comments", jpegOf(0xC0, 64, 64, bytes.Repeat(segment(0xFE, make([]byte, 60000)), 1000), scan(0, 63, 0), []byte("\xff\xd9")), "", little},
		{"JPEG of filling bytes", append([]byte("\xff\xd8"), bytes.Repeat([]byte{0xff}, 60<<20)...), "end", little},
		{"WebP of 16384 x 16384, lossy", riff(vp8(16383, 16383)), "limit", little},
		{"WebP of 16384 x 16384, lossless", riff(vp8l(16384, 16384)), "limit", little},
		{"WebP on a canvas of 2^24 x 2^24", riff(vp8x(0, 1<<24, 1<<24), vp8(8, 8)), "webp", little},
		{"WebP of 13000 x 13000 without pixels", riff(vp8l(13000, 13000)), "webp", little},
		{"animated WebP of 100,000 frames", riff(vp8x(2, 8, 8), riffChunk("ANIM", make([]byte, 6)), bytes.Repeat(riffChunk("ANMF", append([]byte{0, 0, 0, 0, 0, 0, 7, 0, 0, 7, 0, 0, 0, 0, 0, 0}, vp8l(8, 8)...)), 100_000)), "webp", little},
		{"GIF screen of 65535 x 65535", gif(65535, 65535, gifFrame(8, 8, lzwOf(64))), "limit", little},
		{"GIF frame of 65535 x 65535 on a small screen", gif(8, 8, gifFrame(65535, 65535, nil)), "limit", little},
		{"GIF of 100,000 frames", gif(8, 8, bytes.Repeat(gifFrame(8, 8, lzwOf(64)), 100_000)), "", little},
		{"60 MB of zeros", make([]byte, 60<<20), "not an image", little},
		// Honest headers; these come last, because a peak hides what comes after it.
		{"progressive JPEG of 8000 x 8000, all of one scan", jpegOf(0xC2, 8000, 8000, scan(0, 0, 0), []byte("\xff\xd9")), "", 160 << 20},
		{"GIF screen of 13000 x 13000 without pixels", gif(13000, 13000, gifFrame(13000, 13000, nil)), "end", 256 << 20},
	}
}

func be32(v ...uint32) (b []byte) {
	for _, x := range v {
		b = binary.BigEndian.AppendUint32(b, x)
	}
	return b
}

func chunk(kind string, body []byte) []byte {
	b := append(be32(uint32(len(body))), kind...)
	b = append(b, body...)
	return append(b, be32(crc32.ChecksumIEEE(b[4:]))...)
}

func deflate(in []byte) []byte {
	var b bytes.Buffer
	w, _ := zlib.NewWriterLevel(&b, zlib.BestSpeed)
	_, _ = w.Write(in)
	_ = w.Close()
	return b.Bytes()
}

// zeros is so many million zeros, deflated: one million of them again and again.
func zeros(millions int) []byte {
	const million = 1_000_000
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestSpeed)
	_, _ = w.Write(make([]byte, million))
	_ = w.Flush()
	const prime = 65521 // of Adler's checksum, whose first half stays 1
	packed := append([]byte{0x78, 0x01}, bytes.Repeat(b.Bytes(), millions)...)
	return append(append(packed, 3, 0), be32(uint32(millions*million%prime)<<16|1)...)
}

// pngHead is a PNG whose pixels are cut off.
func pngHead(w, h uint32, interlace byte) []byte {
	return append(append([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", append(be32(w, h), 8, 2, 0, 0, interlace))...), 0, 1, 0, 0, 'I', 'D', 'A', 'T')
}

func pngOf(w, h uint32, interlace byte, rows []byte) []byte {
	return pngPacked(w, h, interlace, deflate(rows))
}

func pngPacked(w, h uint32, interlace byte, packed []byte) []byte {
	b := append([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", append(be32(w, h), 8, 2, 0, 0, interlace))...)
	return append(append(b, chunk("IDAT", packed)...), chunk("IEND", nil)...)
}

// pngWith is a small PNG with something between its header and its pixels.
func pngWith(extra []byte) []byte {
	b := pngOf(8, 8, 0, make([]byte, 8*25))
	const head = 8 + 25
	return append(append(bytes.Clone(b[:head]), extra...), b[head:]...)
}

func segment(marker byte, body []byte) []byte {
	return append([]byte{0xFF, marker, byte((len(body) + 2) >> 8), byte(len(body) + 2)}, body...)
}

// jpegOf is a grey JPEG: tables, a frame, and what follows.
func jpegOf(frame byte, w, h uint16, rest ...[]byte) []byte {
	b := append([]byte("\xff\xd8"), segment(0xDB, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...))...)
	b = append(b, segment(frame, []byte{8, byte(h >> 8), byte(h), byte(w >> 8), byte(w), 1, 1, 0x11, 0})...)
	for _, class := range []byte{0x00, 0x10} {
		b = append(b, segment(0xC4, append([]byte{class, 1}, make([]byte, 16)...))...) // one code, of one bit: nothing follows
	}
	return append(b, bytes.Join(rest, nil)...)
}

func scan(from, to, approximation byte) []byte {
	return append(segment(0xDA, []byte{1, 1, 0, from, to, approximation}), 0)
}

func restart(every uint16) []byte { return segment(0xDD, []byte{byte(every >> 8), byte(every)}) }

func le32(v int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) }

func riffChunk(kind string, body []byte) []byte {
	return append(append([]byte(kind), le32(len(body))...), append(body, make([]byte, len(body)%2)...)...)
}

func riff(chunks ...[]byte) []byte {
	body := bytes.Join(chunks, nil)
	return append(append([]byte("RIFF"), le32(len(body)+4)...), append([]byte("WEBP"), body...)...)
}

func vp8(w, h int) []byte {
	return riffChunk("VP8 ", append([]byte{0x10, 0x02, 0, 0x9D, 0x01, 0x2A, byte(w), byte(w >> 8), byte(h), byte(h >> 8)}, make([]byte, 64)...))
}

func vp8l(w, h int) []byte {
	bits := uint32(w-1) | uint32(h-1)<<14
	return riffChunk("VP8L", append(append([]byte{0x2F}, le32(int(bits))...), make([]byte, 15)...))
}

func vp8x(flags byte, w, h int) []byte {
	return riffChunk("VP8X", append([]byte{flags, 0, 0, 0}, append(le32(w - 1)[:3], le32(h - 1)[:3]...)...))
}

func gif(w, h int, blocks []byte) []byte {
	b := append([]byte("GIF89a"), byte(w), byte(w>>8), byte(h), byte(h>>8), 0x80, 0, 0)
	return append(append(append(b, strings.Repeat("\x00\xff", 3)...), blocks...), ';')
}

func gifFrame(w, h int, data []byte) []byte {
	b := append([]byte{0x2C, 0, 0, 0, 0}, byte(w), byte(w>>8), byte(h), byte(h>>8), 0, 2)
	if len(data) > 0 {
		b = append(append(b, byte(len(data))), data...)
	}
	return append(b, 0)
}

// lzwOf is so many pixels of the first colour.
func lzwOf(pixels int) []byte {
	var b bytes.Buffer
	w := lzw.NewWriter(&b, lzw.LSB, 2)
	_, _ = w.Write(make([]byte, pixels))
	_ = w.Close()
	return b.Bytes()
}
