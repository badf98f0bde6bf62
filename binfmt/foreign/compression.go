package foreign

import (
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The compressions that are unpacked. Others are known by name only.
const (
	Gzip        = "gzip"
	Bzip2       = "bzip2"
	Zstandard   = "Zstandard"
	LZ4         = "LZ4"
	Snappy      = "Snappy" // its framed format
	SnappyBlock = "Snappy (one block)"
	Brotli      = "Brotli"
	// ByContent is the compression that the first bytes tell, or none.
	ByContent = "by content"
)

// CompressionLen is how many first bytes Compression looks at.
const CompressionLen = 10

// Compression names how a file is compressed, by its first bytes (at least CompressionLen, or all of a shorter file); "" if it is not, as
// far as they tell.
func Compression(head []byte) string {
	for _, s := range []struct{ magic, name string }{
		{"\x1f\x8b", Gzip}, {"\xfd7zXZ\x00", "xz"}, {"\x28\xb5\x2f\xfd", Zstandard}, {"\x04\x22\x4d\x18", LZ4},
		{"\x1f\x9d", "compress"}, {"\xff\x06\x00\x00sNaPpY", Snappy}, {"PK\x03\x04", "zip"}, {"7z\xbc\xaf\x27\x1c", "7-Zip"},
	} {
		if bytes.HasPrefix(head, []byte(s.magic)) {
			return s.name
		}
	}
	// A name may begin with BZh too.
	if len(head) >= CompressionLen && string(head[:3]) == "BZh" && head[3] >= '1' && head[3] <= '9' &&
		(string(head[4:10]) == "1AY&SY" || string(head[4:10]) == "\x17rE8P\x90") {
		return Bzip2
	}
	return ""
}

// Limits of what is unpacked.
const (
	// maxZstdWindow is the largest window of Zstandard; its command takes as much unless told otherwise (--long=27).
	maxZstdWindow = 128 << 20
	// maxBlock is the longest file that has to be unpacked in memory, in bytes.
	maxBlock = 1 << 30
	// A file that unpacks to more than bombRatio times its length, and to more than bombSize bytes, is refused.
	bombRatio = 250
	bombSize  = 64 << 20
)

// errPacked: a compressed file is damaged, or of a kind that is not unpacked.
func errPacked(how string, err error) error {
	return fmt.Errorf("unpacking it (%s): %w: %w", how, err, ErrContainer)
}

// unpacker returns what a compressed file of size bytes holds. Errors of in are given as they are.
func unpacker(how string, in io.Reader, size int64) (io.ReadCloser, error) {
	u := &unpacking{how: how, source: &noticing{r: in}, size: size}
	var err error
	switch how {
	case Gzip:
		var z *gzip.Reader
		z, err = gzip.NewReader(u.source)
		u.out = z
	case Zstandard:
		var z *zstd.Decoder
		z, err = zstd.NewReader(u.source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err == nil {
			u.out, u.close = z, z.Close
		}
	case Bzip2:
		u.out = bzip2.NewReader(u.source)
	case LZ4:
		u.out = lz4.NewReader(u.source)
	case Snappy:
		u.out = s2.NewReader(u.source)
	case SnappyBlock:
		u.out, err = snappyBlock(u.source, size)
	case Brotli:
		u.out = brotli.NewReader(u.source)
	default:
		err = errors.New("this program does not know how: uncompress it yourself")
	}
	if err != nil {
		return nil, u.said(err)
	}
	return u, nil
}

func snappyBlock(in io.Reader, size int64) (io.Reader, error) {
	if size > maxBlock {
		return nil, fmt.Errorf("%d bytes in one block, more than the limit of %d", size, maxBlock)
	}
	packed := make([]byte, size)
	if _, err := io.ReadFull(in, packed); err != nil {
		return nil, err
	}
	n, err := s2.DecodedLen(packed)
	if err != nil {
		return nil, err
	}
	if int64(n) > maxBlock || int64(n) > bombSize && int64(n) > bombRatio*size {
		return nil, fmt.Errorf("a block of %d bytes: more than the limit", n)
	}
	plain, err := s2.Decode(nil, packed)
	return bytes.NewReader(plain), err
}

// unpacking counts what comes out, against a bomb, and tells damage from errors of the store.
type unpacking struct {
	how    string
	source *noticing
	size   int64 // of the compressed file
	out    io.Reader
	close  func()
	n      int64
}

// Read implements io.Reader.
func (u *unpacking) Read(p []byte) (n int, err error) {
	n, err = u.out.Read(p)
	u.n += int64(n)
	if u.n > bombSize && u.n/bombRatio > u.size {
		return n, u.said(fmt.Errorf("more than %d times its %d bytes come out of it: a bomb, or a file that is best uncompressed before", bombRatio, u.size))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = u.said(err)
	}
	return n, err
}

// Close implements io.Closer.
func (u *unpacking) Close() error {
	if u.close != nil {
		u.close()
	}
	return nil
}

func (u *unpacking) said(err error) error {
	if u.source.err != nil {
		return u.source.err
	}
	return errPacked(u.how, err)
}

// noticing remembers an error of a reader, which libraries may replace by their own.
type noticing struct {
	r   io.Reader
	err error
}

func (n *noticing) Read(p []byte) (int, error) {
	m, err := n.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return m, err
}
