package datanode

import (
	"fmt"
	"math"
)

// landing is where the bytes of a read go: into the parts, and nowhere between them.
type landing struct {
	parts      []Part
	start, end int64
	at         int // the part that the last question was about
}

func newLanding(parts []Part) (landing, error) {
	l := landing{parts: parts}
	for i, p := range parts {
		if p.Off < 0 || p.Off > math.MaxInt64-int64(len(p.Buf)) {
			return l, fmt.Errorf("part %d at %d, %d bytes: offsets are from 0 to 2^63-1", i, p.Off, len(p.Buf))
		}
		if i > 0 && p.Off < l.end {
			return l, fmt.Errorf("part %d begins at %d, before the end of the one before it, %d", i, p.Off, l.end)
		}
		l.end = p.Off + int64(len(p.Buf))
	}
	if len(parts) > 0 {
		l.start = parts[0].Off
	}
	return l, nil
}

func (p Part) stop() int64 { return p.Off + int64(len(p.Buf)) }

// next says where the bytes [off, off+n) of the block go, n > 0: dst is the caller's memory for the first m of them, or
// nil if nobody wants these. m is at least 1. Rising offsets are found fast.
func (l *landing) next(off int64, n int) (dst []byte, m int) {
	for l.at > 0 && off < l.parts[l.at-1].stop() {
		l.at--
	}
	for l.at < len(l.parts) && off >= l.parts[l.at].stop() {
		l.at++
	}
	if l.at == len(l.parts) {
		return nil, n
	}
	p := l.parts[l.at]
	if off < p.Off {
		return nil, int(min(int64(n), p.Off-off))
	}
	dst = p.Buf[off-p.Off:]
	dst = dst[:min(n, len(dst)):len(dst)]
	return dst, len(dst)
}

// put copies the bytes of the block at off to where they are wanted.
func (l *landing) put(off int64, data []byte) {
	for len(data) > 0 {
		dst, n := l.next(off, len(data))
		copy(dst, data[:n])
		data, off = data[n:], off+int64(n)
	}
}
