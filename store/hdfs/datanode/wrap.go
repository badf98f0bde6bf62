package datanode

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

// wrapped is a connection whose bytes travel as tokens of a SASL mechanism, each with its length in front.
type wrapped struct {
	c     *conn
	m     sasl.Mechanism
	in    inbox
	plain []byte // of the last token, not yet read
	out   []byte
}

// maxToken bounds a token: a peer may send 64 KiB of plain bytes in one, and the sum and padding with them.
const maxToken = 64<<10 + 1<<10

func (w *wrapped) Read(b []byte) (int, error) {
	for len(w.plain) == 0 {
		if err := w.token(); err != nil {
			return 0, err
		}
	}
	n := copy(b, w.plain)
	w.plain = w.plain[n:]
	return n, nil
}

func (w *wrapped) token() error {
	if err := w.in.need(w.c, 4, bufferSize); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(w.in.bytes())
	if size > maxToken {
		return violation("a token of %d bytes: at most %d are allowed", size, maxToken)
	}
	n := 4 + int(size)
	if err := w.in.need(w.c, n, bufferSize); err != nil {
		return err
	}
	var err error
	if w.plain, err = w.m.Unwrap(w.in.bytes()[4:n:n]); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	w.in.r += n
	return nil
}

func (w *wrapped) Write(b []byte) (int, error) {
	for chunk := range slices.Chunk(b, max(1, w.m.SendLimit())) {
		out, err := w.m.Wrap(append(w.out[:0], 0, 0, 0, 0), chunk)
		if err != nil {
			return 0, err
		}
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		w.out = out
		if _, err := w.c.Write(out); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// encrypted is a connection whose bytes are encrypted one by one.
type encrypted struct {
	c       *conn
	out, in cipher.Stream
	buf     []byte
}

func (e *encrypted) Read(b []byte) (int, error) {
	n, err := e.c.Read(b)
	e.in.XORKeyStream(b[:n], b[:n])
	return n, err
}

func (e *encrypted) Write(b []byte) (int, error) {
	e.buf = append(e.buf[:0], b...)
	e.out.XORKeyStream(e.buf, e.buf)
	return e.c.Write(e.buf)
}
