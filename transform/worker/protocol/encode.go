package protocol

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/stepahead-io/stepahead/transform"
)

// The first byte of every packet.
const (
	tagHello   = 'H'
	tagWelcome = 'W'
	tagRequest = 'Q'
	tagReply   = 'R'
)

// Append appends the packet of m to b.
func (m Hello) Append(b []byte) []byte { return appendJSON(b, tagHello, m) }

// Append appends the packet of m to b.
func (m Welcome) Append(b []byte) []byte { return appendJSON(b, tagWelcome, m) }

func appendJSON(b []byte, tag byte, m any) []byte {
	text, err := json.Marshal(m)
	if err != nil {
		panic("protocol: numbers and strings have no JSON: " + err.Error())
	}
	return append(append(b, tag), text...)
}

// Append appends the packet of m to b.
func (m Request) Append(b []byte) []byte {
	b = append(b, tagRequest, m.Slot)
	for _, v := range [...]uint64{m.Key.Seed, m.Key.Epoch, m.Key.Sample, uint64(m.Input), uint64(m.Output)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Key.Source)))
	b = append(b, m.Key.Source...)
	return append(b, m.Plan...)
}

// Append appends the packet of m to b. The error's text is cut to a bounded length.
func (m Reply) Append(b []byte) []byte {
	b = append(b, tagReply, byte(m.Status))
	for _, v := range [...]int64{m.Shape[0], m.Shape[1], m.Shape[2], m.PeakRSS} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	if m.Status != Failed {
		return b
	}
	for _, s := range [...]string{string(m.Error.Kind), m.Error.Op, m.Error.Detail} {
		s = s[:min(len(s), maxDetail)]
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return b
}

// ParseHello reads a packet.
func ParseHello(b []byte) (m Hello, err error) { return m, parseJSON(b, tagHello, &m) }

// ParseWelcome reads a packet. The worker's version is left to the caller to compare.
func ParseWelcome(b []byte) (m Welcome, err error) { return m, parseJSON(b, tagWelcome, &m) }

func parseJSON(b []byte, tag byte, m any) error {
	if len(b) == 0 || b[0] != tag {
		return fmt.Errorf("protocol: %d bytes that are not a %q message", len(b), tag)
	}
	if err := json.Unmarshal(b[1:], m); err != nil {
		return fmt.Errorf("protocol: message %q: %w", tag, err)
	}
	return nil
}

// ParseRequest reads a packet. Plan shares b's memory.
func ParseRequest(b []byte) (Request, error) {
	r := reader{left: b}
	r.tag(tagRequest)
	m := Request{Slot: r.byte()}
	m.Key.Seed, m.Key.Epoch, m.Key.Sample = r.uint64(), r.uint64(), r.uint64()
	m.Input, m.Output = r.size(), r.size()
	m.Key.Source = r.text(MaxSource)
	m.Plan = r.left
	if m.Slot >= PlanSlots {
		r.fail("slot %d of %d", m.Slot, PlanSlots)
	}
	return m, r.err
}

// ParseReply reads a packet. A reply of status Done or Short has a shape of positive sides; one of status
// Failed has an error of a kind that a worker may report.
func ParseReply(b []byte) (Reply, error) {
	r := reader{left: b}
	r.tag(tagReply)
	m := Reply{Status: Status(r.byte())}
	m.Shape = [3]int64{r.size(), r.size(), r.size()}
	m.PeakRSS = r.size()
	switch m.Status {
	case Done, Short:
		r.shape(m.Shape)
	case Failed:
		m.Error = &transform.Error{Kind: transform.ErrorKind(r.text(maxDetail)), Op: r.text(maxDetail), Detail: r.text(maxDetail)}
		if !m.Error.Content() && m.Error.Kind != transform.KindPlan && m.Error.Kind != transform.KindCrash {
			r.fail("a worker cannot report kind %q", m.Error.Kind)
		}
	default:
		r.fail("status %d is unknown", m.Status)
	}
	if len(r.left) != 0 {
		r.fail("%d bytes too many", len(r.left))
	}
	if r.err != nil {
		return Reply{}, r.err
	}
	return m, nil
}

// Bytes returns the size of the tensor of a parsed reply.
func (m Reply) Bytes() int64 { return m.Shape[0] * m.Shape[1] * m.Shape[2] }

// reader takes fixed fields off the front of a packet; the first failure sticks and empties it.
type reader struct {
	left []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("protocol: "+format, args...)
	}
	r.left = nil
}

func (r *reader) take(n int) []byte {
	if len(r.left) < n {
		r.fail("the message ends %d bytes early", n-len(r.left))
		return make([]byte, min(n, 8))
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) tag(want byte) {
	if got := r.byte(); r.err == nil && got != want {
		r.fail("message %q where %q was due", got, want)
	}
}

func (r *reader) size() int64 {
	v := r.uint64()
	if v > math.MaxInt64 {
		r.fail("size %d is negative", int64(v))
	}
	return int64(v)
}

func (r *reader) text(most int) string {
	n := binary.LittleEndian.Uint32(r.take(4))
	if int64(n) > int64(most) || int(n) > len(r.left) {
		r.fail("a text of %d bytes, with %d left and %d allowed", n, len(r.left), most)
		return ""
	}
	return string(r.take(int(n)))
}

// shape refuses sides that are not positive or whose product could overflow.
func (r *reader) shape(s [3]int64) {
	const most = 1 << 40 // bytes; far above any limit
	if s[0] < 1 || s[1] < 1 || s[2] < 1 || s[0] > most || s[1] > most/s[0] || s[2] > most/s[0]/s[1] {
		r.fail("shape %v is impossible", s)
	}
}
