package foreign

import (
	"errors"
	"fmt"
	"io"
)

const (
	// streamRead is what is read at once, in bytes.
	streamRead = 1 << 20
	// maxKept bounds what a stream keeps of a compressed file, in bytes: the largest sample, and what lies between two.
	maxKept = 1 << 30
	// maxKeptPlain bounds what it keeps of one that is not, of which what was passed can be read again.
	maxKeptPlain = 64 << 20
	// streamJump is how far a stream of one that is not jumps ahead rather than read what lies between.
	streamJump = 4 << 20
)

// stream is a File that is read once, from its start to its end. It keeps what was read since the last release, so that who goes through a
// file in order may look back to the start of the sample that he is at. It is used by one goroutine.
type stream struct {
	in    io.Reader
	size  int64
	plain File  // the file itself; nil where it is compressed
	base  int64 // offset of buf[start]
	buf   []byte
	start int
	most  int
}

// newStream returns a stream of what a compressed file of size bytes unpacks to.
func newStream(in io.Reader, size int64) *stream { return &stream{in: in, size: size, most: maxKept} }

// newPlainStream returns a stream of a file that is not compressed.
func newPlainStream(f File) *stream {
	s := &stream{size: f.Size(), plain: f, most: maxKeptPlain}
	s.seek(0)
	return s
}

// seek goes on from an offset of a file that is not compressed.
func (s *stream) seek(off int64) {
	s.in, s.base, s.buf, s.start = io.NewSectionReader(s.plain, off, s.size-off), off, s.buf[:0], 0
}

// Size implements File.
func (s *stream) Size() int64 { return s.size }

// ReadAt implements File.
func (s *stream) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || int64(len(p)) > s.size-off {
		return 0, fmt.Errorf("offset %d, %d bytes: outside the %d bytes of the file: %w", off, len(p), s.size, ErrContainer)
	}
	end := off + int64(len(p))
	switch kept := s.base + int64(len(s.buf)-s.start); {
	case off < s.base && s.plain != nil:
		return s.plain.ReadAt(p, off)
	case s.plain != nil && (off-kept > streamJump || end-s.base > int64(s.most)):
		s.seek(off)
	case off < s.base:
		return 0, fmt.Errorf("offset %d of a compressed file, which is at %d already: %w", off, s.base, ErrContainer)
	case end-s.base > int64(s.most):
		return 0, fmt.Errorf("offset %d: more than %d bytes from %d on, where the last sample ends: too much to keep of a compressed file: uncompress it: %w", off, s.most, s.base, ErrContainer)
	}
	if err := s.fill(int(end - s.base)); err != nil {
		return 0, err
	}
	return copy(p, s.buf[s.start+int(off-s.base):]), nil
}

// fill reads until n bytes are kept.
func (s *stream) fill(n int) error {
	for len(s.buf)-s.start < n {
		if s.start > len(s.buf)/2 { // what is moved is less than what it is moved over
			s.buf = s.buf[:copy(s.buf, s.buf[s.start:])]
			s.start = 0
		}
		at := len(s.buf)
		if cap(s.buf)-at < streamRead {
			s.buf = append(s.buf, make([]byte, streamRead)...)
		} else {
			s.buf = s.buf[:at+streamRead]
		}
		m, err := io.ReadAtLeast(s.in, s.buf[at:], 1)
		s.buf = s.buf[:at+m]
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the file ends at offset %d, before its %d bytes: it changed: %w", s.base+int64(len(s.buf)-s.start), s.size, ErrContainer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// release says that nothing before an offset will be read any more.
func (s *stream) release(off int64) {
	if n := min(off-s.base, int64(len(s.buf)-s.start)); n > 0 {
		s.start += int(n)
		s.base += n
	}
}
