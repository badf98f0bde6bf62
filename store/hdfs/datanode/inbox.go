package datanode

import (
	"context"
	"io"
)

// bufferSize is what a read in flight holds for bytes that cannot be received in their place: the answer, whole small
// reads, packets of a wrapped connection.
const bufferSize = 128 << 10

// inbox is what was received and not yet looked at: buf[r:w].
type inbox struct {
	buf  []byte
	r, w int
}

func (i *inbox) len() int      { return i.w - i.r }
func (i *inbox) bytes() []byte { return i.buf[i.r:i.w] }

// replace makes b what was received and not yet looked at.
func (i *inbox) replace(b []byte) { i.r, i.w, i.buf = 0, len(b), b[:cap(b)] }

// need receives until n bytes are there, next to each other, and as much more as comes with them and fits below most.
func (i *inbox) need(src io.Reader, n, most int) error {
	for i.len() < n {
		i.room(n)
		to := i.buf[i.w:]
		to = to[:min(len(to), max(most, n)-i.len())]
		m, err := src.Read(to)
		i.w += m
		if err != nil && i.len() < n {
			return err
		}
	}
	return nil
}

// room makes space for n bytes from r on.
func (i *inbox) room(n int) {
	if i.r == i.w {
		i.r, i.w = 0, 0
	}
	if len(i.buf)-i.r >= n {
		return
	}
	to := i.buf
	if len(to) < n {
		to = make([]byte, max(n, bufferSize))
	}
	i.w = copy(to, i.bytes())
	i.r, i.buf = 0, to
}

// message receives a message with its length in front; it is valid until the next call. more is how many bytes may come
// with it.
func (i *inbox) message(ctx context.Context, src io.Reader, doing string, more int) ([]byte, error) {
	for have := 1; ; have = i.len() + 1 {
		if err := i.need(src, have, more); err != nil {
			return nil, broken(ctx, doing, err)
		}
		size, n, err := delimitedSize(i.bytes(), maxAnswer)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		if err := i.need(src, n+size, more); err != nil {
			return nil, broken(ctx, doing, err)
		}
		i.r += n + size
		return i.buf[i.r-size : i.r], nil
	}
}

// next receives one packet, whole, and says what it holds; both slices are valid until the next call.
func (i *inbox) next(ctx context.Context, src io.Reader, c *course) (p packet, sums, data []byte, err error) {
	if err := i.need(src, lengths, bufferSize); err != nil {
		return p, nil, nil, broken(ctx, "reading a packet's lengths", err)
	}
	if p, err = parseLengths(i.bytes()); err != nil {
		return p, nil, nil, err
	}
	if err := i.need(src, lengths+p.hlen, bufferSize); err != nil {
		return p, nil, nil, broken(ctx, "reading a packet's header", err)
	}
	if err := p.parseHeader(i.bytes()[lengths : lengths+p.hlen]); err != nil {
		return p, nil, nil, err
	}
	if err := c.check(p); err != nil { // before there is memory for it
		return p, nil, nil, err
	}
	if err := i.need(src, p.size(), bufferSize); err != nil {
		return p, nil, nil, broken(ctx, "reading a packet", err)
	}
	body := i.bytes()[lengths+p.hlen : p.size()]
	i.r += p.size()
	return p, body[:p.sums()], body[p.sums():], nil
}
