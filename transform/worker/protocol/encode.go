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

// Append appends the packet of m, of 1 to MaxBatch jobs, to b.
func (m Request) Append(b []byte) []byte {
	b = append(b, tagRequest, byte(len(m)))
	for _, j := range m {
		b = j.append(b)
	}
	return b
}

func (j Job) append(b []byte) []byte {
	b = append(b, j.Slot)
	for _, v := range [...]uint64{j.Key.Seed, j.Key.Epoch, j.Key.Sample, uint64(j.Input), uint64(j.Output)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(j.Key.Source)))
	b = append(b, j.Key.Source...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(j.Plan)))
	return append(b, j.Plan...)
}

// JobBytes returns how much of a request's packet a job takes, given the bytes of its source's name and of its plan.
func JobBytes(source, plan int) int { return 1 + 5*8 + 4 + source + 4 + plan }

// RequestBytes is how much of a request's packet its head takes.
const RequestBytes = 2

// Append appends the packet of m, of 1 to MaxBatch outcomes, to b. The texts of errors are cut to a bounded length.
func (m Reply) Append(b []byte) []byte {
	b = append(b, tagReply, byte(len(m)))
	for _, o := range m {
		b = o.append(b)
	}
	return b
}

func (o Outcome) append(b []byte) []byte {
	b = append(b, byte(o.Status))
	if o.Status != Failed {
		for _, v := range o.Shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
		return b
	}
	b = appendText(b, string(o.Error.Kind), maxKind)
	b = appendText(b, o.Error.Op, maxDetail)
	return appendText(b, o.Error.Detail, maxDetail)
}

func appendText(b []byte, s string, most int) []byte {
	s = s[:min(len(s), most)]
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
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

// ParseRequest reads a packet. Plans share b's memory.
func ParseRequest(b []byte) (Request, error) {
	r := reader{left: b}
	r.tag(tagRequest)
	m := make(Request, r.count())
	for i := range m {
		m[i] = r.job()
	}
	return m, r.end()
}

func (r *reader) job() Job {
	j := Job{Slot: r.byte()}
	j.Key.Seed, j.Key.Epoch, j.Key.Sample = r.uint64(), r.uint64(), r.uint64()
	j.Input, j.Output = r.size(), r.size()
	j.Key.Source = string(r.bytes(MaxSource))
	j.Plan = r.bytes(MaxPacket)
	if j.Slot >= PlanSlots {
		r.fail("slot %d of %d", j.Slot, PlanSlots)
	}
	return j
}

// ParseReply reads a packet. An outcome of status Done or Short has a shape of positive sides; one of status
// Failed has an error of a kind that a worker may report.
func ParseReply(b []byte) (Reply, error) {
	r := reader{left: b}
	r.tag(tagReply)
	m := make(Reply, r.count())
	for i := range m {
		m[i] = r.outcome()
	}
	return m, r.end()
}

func (r *reader) outcome() Outcome {
	o := Outcome{Status: Status(r.byte())}
	switch o.Status {
	case Done, Short:
		o.Shape = [3]int64{r.size(), r.size(), r.size()}
		r.shape(o.Shape)
	case Failed:
		o.Error = &transform.Error{Kind: transform.ErrorKind(r.bytes(maxKind)), Op: string(r.bytes(maxDetail)), Detail: string(r.bytes(maxDetail))}
		if !o.Error.Content() && o.Error.Kind != transform.KindPlan && o.Error.Kind != transform.KindCrash {
			r.fail("a worker cannot report kind %q", o.Error.Kind)
		}
	default:
		r.fail("status %d is unknown", o.Status)
	}
	return o
}

// Bytes returns the size of the tensor of a parsed outcome.
func (o Outcome) Bytes() int64 { return o.Shape[0] * o.Shape[1] * o.Shape[2] }

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

// bytes reads a length and as many bytes, which share the packet's memory.
func (r *reader) bytes(most int) []byte {
	n := binary.LittleEndian.Uint32(r.take(4))
	if int64(n) > int64(most) || int64(n) > int64(len(r.left)) {
		r.fail("a text of %d bytes, with %d left and %d allowed", n, len(r.left), most)
		return nil
	}
	return r.take(int(n))
}

// count reads how many jobs a message is about.
func (r *reader) count() int {
	n := r.byte()
	if r.err == nil && (n < 1 || n > MaxBatch) {
		r.fail("%d jobs in a message, allowed are 1 to %d", n, MaxBatch)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// end returns the first failure, or that there is more than should be.
func (r *reader) end() error {
	if len(r.left) != 0 {
		r.fail("%d bytes too many", len(r.left))
	}
	return r.err
}

// shape refuses sides that are not positive or whose product could overflow.
func (r *reader) shape(s [3]int64) {
	const most = 1 << 40 // bytes; far above any limit
	if s[0] < 1 || s[1] < 1 || s[2] < 1 || s[0] > most || s[1] > most/s[0] || s[2] > most/s[0]/s[1] {
		r.fail("shape %v is impossible", s)
	}
}
