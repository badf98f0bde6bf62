package foreign

import (
	"fmt"

	"github.com/stepahead-io/stepahead/binfmt/media"
)

const (
	// hop is read after a jump over a large member: its header's block, and most often a small member behind it
	// with the next header, or enough of a picture to tell its size.
	hop = 8 << 10
	// scan is what is read at once of a file of small members.
	scan = 4 << 20
	// jump is the distance from which on bytes are jumped over: below it, reading them costs less than a
	// round trip to the store does.
	jump = 256 << 10
)

// Window gives pieces of a file, in ascending order, out of few reads: long ones where members are small, short
// ones with jumps between them where they are large.
type Window struct {
	f    File
	off  int64 // of data
	data []byte
	buf  []byte
	next int // length of the next read that follows on from the last
}

// NewWindow returns a window on a file. It reads nothing yet, and is used by one goroutine.
func NewWindow(f File) *Window { return &Window{f: f} }

// At returns the n bytes at off, which are in the file, and what the window has behind them. The result is good
// until the next call.
func (w *Window) At(off, n int64) (piece, behind []byte, err error) {
	if err := w.fill(off, n); err != nil {
		return nil, nil, err
	}
	d := w.data[off-w.off:]
	return d[:n], d[n:], nil
}

// Sniff sets the type of a part of the file, and a picture's size where the window holds enough of it.
func (w *Window) Sniff(p *Part) error {
	head, behind, err := w.At(p.Off, min(p.Len, media.SniffLen))
	if err != nil {
		return err
	}
	p.Sniff(head[:min(p.Len, int64(len(head)+len(behind)))])
	return nil
}

func (w *Window) fill(off, n int64) error {
	end := w.off + int64(len(w.data))
	if off >= w.off && off+n <= end {
		return nil
	}
	want := int64(hop)
	if len(w.data) > 0 && off-end < jump {
		w.next = min(8*w.next, scan)
		want = int64(w.next)
	} else {
		w.next = hop
	}
	want = min(max(want, n), w.f.Size()-off)
	if int64(cap(w.buf)) < want {
		w.buf = make([]byte, want)
	}
	w.data = nil
	if _, err := w.f.ReadAt(w.buf[:want], off); err != nil {
		return fmt.Errorf("at offset %d: %w", off, err)
	}
	w.off, w.data = off, w.buf[:want]
	return nil
}
