package media

import (
	"bytes"
	"errors"
	"io"

	"github.com/stepahead-io/stepahead/binfmt"
)

// Look reads a file to its end, and returns what an index says of it: its length, sum, type and, of a picture, its size. buf is memory to
// read into; it may be used again.
func Look(r io.Reader, buf []byte) (p binfmt.Part, err error) {
	sum := &summer{r: r}
	head := make([]byte, SniffLen)
	n, err := io.ReadFull(sum, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return p, err
	}
	p.Type = Type(head[:n])
	p.Width, p.Height = Size(p.Type, io.MultiReader(bytes.NewReader(head[:n]), sum))
	if _, err := io.CopyBuffer(io.Discard, onlyReader{sum}, buf); err != nil {
		return p, err
	}
	p.Len, p.CRC, p.HasCRC = sum.n, sum.crc, true
	return p, nil
}

// onlyReader hides what else the reader can do, so that the buffer is used.
type onlyReader struct{ io.Reader }

// summer sums what is read through it, whoever reads.
type summer struct {
	r   io.Reader
	n   int64
	crc uint32
}

func (s *summer) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	s.crc = binfmt.CRC32C(s.crc, p[:n])
	return n, err
}
