package relay

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// lines reads line by line, each of at most maxLine bytes.
type lines struct {
	r   *bufio.Reader
	buf bytes.Buffer
	off int64 // where the next line begins; whoever reads moves it on
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 1<<16)} }

// next returns the next whole line without its line feed, valid until the next call; io.EOF where no line feed follows.
func (l *lines) next() ([]byte, error) {
	l.buf.Reset()
	for {
		piece, err := l.r.ReadSlice('\n')
		l.buf.Write(piece)
		switch {
		case err == nil:
			return l.buf.Bytes()[:l.buf.Len()-1], nil
		case err != bufio.ErrBufferFull:
			return nil, err
		case l.buf.Len() > maxLine:
			return nil, fmt.Errorf("at byte %d: %w: a line of more than %d bytes", l.off, ErrDamaged, maxLine)
		}
	}
}
