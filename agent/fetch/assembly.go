package fetch

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/stepahead-io/stepahead/agent/fetch/fetchpb"
	"github.com/stepahead-io/stepahead/transform"
)

// What ends a whole fetch, since nothing that follows could be trusted. [ReasonOf] gives
// [ReasonCorrupt] for these.
var (
	// ErrProtocol is an agent that breaks the rules of the stream.
	ErrProtocol = errors.New("agent broke the protocol")
	// ErrIncomplete is a stream that ended in good order before every want was answered.
	ErrIncomplete = errors.New("agent left wants unanswered")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maxDims bounds the dimensions of a tensor: video with channels has four.
const maxDims = 8

// assembly puts the chunks of one fetch together. It is pure: chunks go in, memory is asked for and
// answers come out. It trusts nothing it is told: sizes are checked before memory is taken, contents
// before they are handed out.
type assembly struct {
	req      *Request
	maxEntry int64
	alloc    Alloc
	got      func(want int, a Answer)
	entries  []entry
	left     int // wants not answered yet
}

// entry is one want's state.
type entry struct {
	head     *fetchpb.Head // nil before the first chunk
	total    uint64
	received uint64
	buf      []byte // nil if the payload is thrown away
	crc      uint32
	corrupt  bool
	done     bool
}

func newAssembly(req *Request, maxEntry int64, alloc Alloc, got func(int, Answer)) *assembly {
	return &assembly{req: req, maxEntry: maxEntry, alloc: alloc, got: got, entries: make([]entry, len(req.Wants)), left: len(req.Wants)}
}

// accept takes the next chunk. An error ends the fetch.
func (a *assembly) accept(in *inbound) error {
	want, e, err := a.place(in)
	if err != nil {
		return err
	}
	if in.header.Head != nil {
		if err := a.begin(want, e, in.header.Head); err != nil {
			return err
		}
	}
	if e.buf != nil {
		e.crc = copyOut(e.buf[e.received:], e.crc, in.message, in.skip)
	}
	e.received += uint64(in.size)
	if e.received == e.total {
		a.finishEntry(want, e)
	}
	return nil
}

// end returns nil if every want was answered.
func (a *assembly) end() error {
	if a.left > 0 {
		return fmt.Errorf("fetch: %d of %d wants: %w", a.left, len(a.entries), ErrIncomplete)
	}
	return nil
}

// place finds the entry that a chunk continues and checks that it does.
func (a *assembly) place(in *inbound) (int, *entry, error) {
	h := &in.header
	if uint64(h.Index) >= uint64(len(a.entries)) {
		return 0, nil, fmt.Errorf("fetch: chunk of entry %d, %d were asked for: %w", h.Index, len(a.entries), ErrProtocol)
	}
	want := int(h.Index)
	e := &a.entries[want]
	begins := e.head == nil
	switch {
	case e.done:
		return 0, nil, fmt.Errorf("fetch: entry %d is sent twice: %w", want, ErrProtocol)
	case begins != (h.Head != nil):
		return 0, nil, fmt.Errorf("fetch: entry %d, offset %d: the head must come with the first chunk and no other: %w", want, h.Offset, ErrProtocol)
	case h.Offset != e.received:
		return 0, nil, fmt.Errorf("fetch: entry %d: chunk at offset %d, expected %d: %w", want, h.Offset, e.received, ErrProtocol)
	case begins && h.Total > uint64(a.maxEntry):
		return 0, nil, fmt.Errorf("fetch: entry %d has %d bytes, the limit is %d: %w", want, h.Total, a.maxEntry, ErrProtocol)
	case !begins && h.Total != e.total:
		return 0, nil, fmt.Errorf("fetch: entry %d: total was %d and is now %d: %w", want, e.total, h.Total, ErrProtocol)
	case uint64(in.size) > h.Total-h.Offset:
		return 0, nil, fmt.Errorf("fetch: entry %d: %d bytes at offset %d of %d: %w", want, in.size, h.Offset, h.Total, ErrProtocol)
	case in.size == 0 && h.Total > 0:
		return 0, nil, fmt.Errorf("fetch: entry %d: empty chunk at offset %d of %d: %w", want, h.Offset, h.Total, ErrProtocol)
	}
	e.total = h.Total
	return want, e, nil
}

// begin takes an entry's head. An entry whose head contradicts the request or itself is answered with
// [ReasonCorrupt] once it has passed by; the others are not touched by it.
func (a *assembly) begin(want int, e *entry, head *fetchpb.Head) error {
	// The header is reused for the next chunk, but a new head is allocated for each that has one.
	e.head = head
	if !a.plausible(want, e) {
		e.corrupt = true
		return nil
	}
	if e.total == 0 {
		return nil
	}
	buf, err := a.alloc(want, head.Kind == fetchpb.Kind_KIND_PREPARED, int64(e.total))
	if err != nil {
		return fmt.Errorf("fetch: memory for entry %d, %d bytes: %w", want, e.total, err)
	}
	if uint64(len(buf)) != e.total {
		return fmt.Errorf("fetch: memory for entry %d: got %d bytes, asked for %d", want, len(buf), e.total)
	}
	e.buf = buf
	return nil
}

// plausible reports whether the head fits the request and the size.
func (a *assembly) plausible(want int, e *entry) bool {
	h := e.head
	if len(h.Node) > maxName || h.LeadUs < 0 || h.PrepareCpuUs < 0 {
		return false
	}
	switch h.Kind {
	case fetchpb.Kind_KIND_PREPARED:
		digest := a.req.PlanDigests[a.req.Wants[want].Field]
		size, ok := tensorSize(specOf(h))
		return h.Reason == "" && string(h.PlanDigest) == string(digest[:]) && ok && size == e.total
	case fetchpb.Kind_KIND_RAW:
		return h.Reason != ""
	case fetchpb.Kind_KIND_NONE:
		return h.Reason != "" && e.total == 0
	}
	return false
}

// finishEntry answers a want whose bytes have all come.
func (a *assembly) finishEntry(want int, e *entry) {
	answer := Answer{Reason: ReasonCorrupt}
	if !e.corrupt {
		answer = e.answer()
	}
	if len(e.head.Node) <= maxName {
		answer.Node = e.head.Node
	}
	*e = entry{done: true}
	a.left--
	a.got(want, answer)
}

func (e *entry) answer() Answer {
	h := e.head
	if e.crc != h.Crc32C {
		return Answer{Reason: ReasonCorrupt}
	}
	a := Answer{LeadTime: micros(h.LeadUs), PrepareCPU: micros(h.PrepareCpuUs)}
	if h.Kind == fetchpb.Kind_KIND_PREPARED {
		a.Prepared = &Tensor{Spec: specOf(h), Data: e.buf, CRC: e.crc}
		return a
	}
	a.Reason = Reason(h.Reason)
	if !a.Reason.fromAgent() {
		a.Reason = ReasonVersion // a newer agent's reason: its bytes are as good as any
	}
	if h.Kind == fetchpb.Kind_KIND_RAW {
		a.Raw = e.buf
		if a.Raw == nil {
			a.Raw = []byte{}
		}
	}
	return a
}

// copyOut copies a message from byte skip on to dst and continues a CRC over it, piece by piece, so that
// the CRC reads what the copy has just brought into the cache.
func copyOut(dst []byte, crc uint32, message mem.BufferSlice, skip int) uint32 {
	for _, b := range message {
		data := b.ReadOnlyData()
		if skip >= len(data) {
			skip -= len(data)
			continue
		}
		n := copy(dst, data[skip:])
		crc = crc32.Update(crc, castagnoli, dst[:n])
		dst, skip = dst[n:], 0
	}
	return crc
}

func specOf(h *fetchpb.Head) transform.TensorSpec {
	shape := make([]int, min(len(h.Shape), maxDims+1))
	for i := range shape {
		shape[i] = int(h.Shape[i])
	}
	return transform.TensorSpec{Dtype: transform.Dtype(h.Dtype), Shape: shape}
}

// tensorSize returns a tensor's bytes, or false if it has none, too many dimensions, or more bytes than
// can be counted.
func tensorSize(s transform.TensorSpec) (uint64, bool) {
	size := uint64(s.Dtype.Size())
	if len(s.Shape) == 0 || len(s.Shape) > maxDims {
		return 0, false
	}
	for _, d := range s.Shape {
		if d <= 0 || size > math.MaxInt64/uint64(d) {
			return 0, false
		}
		size *= uint64(d)
	}
	return size, size > 0
}

// micros converts without overflow: a lie about a time must not become a negative one.
func micros(us int64) time.Duration {
	return time.Duration(min(us, math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
}
