package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/agent/fetch/fetchpb"
)

// TestAssemblyPutsTogether: entries of every kind, cut anywhere and interleaved in any way, come out as
// they were.
func TestAssemblyPutsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "wants")
		req := request(n)
		want := make([]Payload, n)
		queues := make([][]*inbound, n)
		for i := range want {
			want[i] = drawPayload(t)
			queues[i] = cut(t, i, want[i])
		}
		run := newTrial(req)
		for left := pending(queues); len(left) > 0; left = pending(queues) {
			i := rapid.SampledFrom(left).Draw(t, "next")
			if err := run.accept(queues[i][0]); err != nil {
				t.Fatal(err)
			}
			queues[i] = queues[i][1:]
		}
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
		for i, p := range want {
			if diff := differs(run.answers[i], p); diff != "" {
				t.Fatalf("entry %d: %s", i, diff)
			}
		}
	})
}

// TestLies: what a lying agent says costs at most its own entry, or ends the fetch; it never changes
// another entry and never takes memory.
func TestLies(t *testing.T) {
	tensor := prepared([]byte("abcdef"))
	for name, c := range map[string]struct {
		lie  func(m *fetchpb.Chunk)
		ends error // nil: the entry is corrupt and the fetch goes on
	}{
		"crc":             {func(m *fetchpb.Chunk) { m.Head.Crc32C++ }, nil},
		"flipped byte":    {func(m *fetchpb.Chunk) { m.Data[2] ^= 1 }, nil},
		"plan digest":     {func(m *fetchpb.Chunk) { m.Head.PlanDigest[0]++ }, nil},
		"no plan digest":  {func(m *fetchpb.Chunk) { m.Head.PlanDigest = nil }, nil},
		"shape":           {func(m *fetchpb.Chunk) { m.Head.Shape[0]++ }, nil},
		"shape of zero":   {func(m *fetchpb.Chunk) { m.Head.Shape = []uint32{0, 1, 6} }, nil},
		"no shape":        {func(m *fetchpb.Chunk) { m.Head.Shape = nil }, nil},
		"shape overflows": {func(m *fetchpb.Chunk) { m.Head.Shape = []uint32{1 << 31, 1 << 31, 1 << 31, 6} }, nil},
		"shape endless":   {func(m *fetchpb.Chunk) { m.Head.Shape = ones(9) }, nil},
		"dtype":           {func(m *fetchpb.Chunk) { m.Head.Dtype = "float32" }, nil},
		"unknown dtype":   {func(m *fetchpb.Chunk) { m.Head.Dtype = "complex" }, nil},
		"kind":            {func(m *fetchpb.Chunk) { m.Head.Kind = 7 }, nil},
		"reason too":      {func(m *fetchpb.Chunk) { m.Head.Reason = "cpu" }, nil},
		"raw, no reason":  {func(m *fetchpb.Chunk) { m.Head.Kind = fetchpb.Kind_KIND_RAW }, nil},
		"none with bytes": {func(m *fetchpb.Chunk) { m.Head.Kind = fetchpb.Kind_KIND_NONE; m.Head.Reason = "identity" }, nil},
		"lead time":       {func(m *fetchpb.Chunk) { m.Head.LeadUs = -1 }, nil},
		"cpu time":        {func(m *fetchpb.Chunk) { m.Head.PrepareCpuUs = -1 }, nil},
		"node":            {func(m *fetchpb.Chunk) { m.Head.Node = strings.Repeat("n", 256) }, nil},

		"index":          {func(m *fetchpb.Chunk) { m.Index = 2 }, ErrProtocol},
		"largest index":  {func(m *fetchpb.Chunk) { m.Index = math.MaxUint32 }, ErrProtocol},
		"no head":        {func(m *fetchpb.Chunk) { m.Head = nil }, ErrProtocol},
		"offset":         {func(m *fetchpb.Chunk) { m.Offset = 1 }, ErrProtocol},
		"largest offset": {func(m *fetchpb.Chunk) { m.Offset = math.MaxUint64 }, ErrProtocol},
		"total small":    {func(m *fetchpb.Chunk) { m.Total = 5 }, ErrProtocol},
		"total zero":     {func(m *fetchpb.Chunk) { m.Total = 0 }, ErrProtocol},
		"total over":     {func(m *fetchpb.Chunk) { m.Total = testMaxEntry + 1 }, ErrProtocol},
		"largest total":  {func(m *fetchpb.Chunk) { m.Total = math.MaxUint64 }, ErrProtocol},
		"empty chunk":    {func(m *fetchpb.Chunk) { m.Data = nil }, ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			run := newTrial(request(2))
			lie := chunk(0, tensor)
			c.lie(lie)
			err := run.accept(received(lie))
			if !errors.Is(err, c.ends) {
				t.Fatalf("accept: got %v, want %v", err, c.ends)
			}
			if c.ends != nil {
				if len(run.answers) > 0 || run.taken > 0 {
					t.Fatalf("%d answers, %d bytes taken, want none", len(run.answers), run.taken)
				}
				return
			}
			if got := run.answers[0]; got.Reason != ReasonCorrupt || got.Prepared != nil || got.Raw != nil {
				t.Fatalf("got %+v, want corrupt without bytes", got)
			}
			if err := run.accept(received(chunk(1, tensor))); err != nil || differs(run.answers[1], tensor) != "" {
				t.Fatalf("the entry after it: %v, %s", err, differs(run.answers[1], tensor))
			}
			if err := run.end(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestBadSequences: chunks that are right one by one and wrong together.
func TestBadSequences(t *testing.T) {
	first, second := chunk(0, prepared([]byte("abcdef"))), chunk(0, prepared([]byte("abcdef")))
	first.Data, second.Data, second.Head, second.Offset = first.Data[:2], second.Data[2:], nil, 2
	change := func(m *fetchpb.Chunk, f func(*fetchpb.Chunk)) *fetchpb.Chunk {
		m = proto.CloneOf(m)
		f(m)
		return m
	}
	for name, chunks := range map[string][]*fetchpb.Chunk{
		"head twice":        {first, change(second, func(m *fetchpb.Chunk) { m.Head = first.Head })},
		"total changes":     {first, change(second, func(m *fetchpb.Chunk) { m.Total = 7 })},
		"hole":              {first, change(second, func(m *fetchpb.Chunk) { m.Offset = 3; m.Data = m.Data[1:] })},
		"overlap":           {first, change(second, func(m *fetchpb.Chunk) { m.Offset = 1 })},
		"beyond the end":    {first, change(second, func(m *fetchpb.Chunk) { m.Data = append(m.Data, 'g') })},
		"entry twice":       {chunk(0, prepared([]byte("a"))), chunk(0, prepared([]byte("a")))},
		"begins in the mid": {second},
	} {
		run := newTrial(request(2))
		var err error
		for _, m := range chunks {
			if err = run.accept(received(m)); err != nil {
				break
			}
		}
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: got %v, want %v", name, err, ErrProtocol)
		}
	}
}

func TestStreamEndsEarly(t *testing.T) {
	run := newTrial(request(2))
	m := chunk(1, prepared([]byte("abcdef")))
	m.Data = m.Data[:3]
	if err := run.accept(received(m)); err != nil {
		t.Fatal(err)
	}
	if err := run.end(); !errors.Is(err, ErrIncomplete) || len(run.answers) > 0 {
		t.Fatalf("got %v and %d answers, want %v and none", err, len(run.answers), ErrIncomplete)
	}
}

// TestMemoryRefused: the caller's limit ends the fetch; an Alloc that gives another size is caught.
func TestMemoryRefused(t *testing.T) {
	full := errors.New("full")
	for name, alloc := range map[string]Alloc{
		"error": func(int, bool, int64) ([]byte, error) { return nil, full },
		"short": func(_ int, _ bool, size int64) ([]byte, error) { return make([]byte, size-1), nil },
	} {
		run := newTrial(request(1))
		run.alloc = alloc
		if err := run.accept(received(chunk(0, prepared([]byte("abc"))))); err == nil || name == "error" && !errors.Is(err, full) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestUnknownReason: a newer agent's reason does not cost the bytes that came with it.
func TestUnknownReason(t *testing.T) {
	run := newTrial(request(1))
	m := chunk(0, raw([]byte("jpeg"), ReasonCPU))
	m.Head.Reason = "moon-phase"
	if err := run.accept(received(m)); err != nil {
		t.Fatal(err)
	}
	if a := run.answers[0]; a.Reason != ReasonVersion || string(a.Raw) != "jpeg" {
		t.Fatalf("got %+v", a)
	}
}

// trial is an assembly whose calls are recorded.
type trial struct {
	*assembly
	answers map[int]Answer
	taken   int64
}

const testMaxEntry = 1 << 20

var testPlan = [32]byte{1, 2, 3}

func request(wants int) *Request {
	r := &Request{Job: "j", Run: "r", PlanDigests: map[string][32]byte{"image": testPlan}}
	for i := range wants {
		r.Wants = append(r.Wants, Want{Sample: uint64(i), Field: "image"})
	}
	return r
}

func newTrial(req *Request) *trial {
	r := &trial{answers: map[int]Answer{}}
	alloc := func(_ int, _ bool, size int64) ([]byte, error) {
		r.taken += size
		return make([]byte, size), nil
	}
	r.assembly = newAssembly(req, testMaxEntry, alloc, func(want int, a Answer) {
		if _, again := r.answers[want]; again {
			panic(fmt.Sprintf("entry %d answered twice", want))
		}
		r.answers[want] = a
	})
	return r
}

func prepared(data []byte) Payload {
	p := Payload{Data: data, CRC: crc32.Checksum(data, castagnoli), PlanDigest: testPlan, LeadTime: 3 * time.Second, PrepareCPU: time.Millisecond}
	p.Spec.Dtype, p.Spec.Shape = "uint8", []int{1, len(data), 1}
	return p
}

func raw(data []byte, r Reason) Payload {
	return Payload{Raw: true, Data: data, Reason: r, CRC: crc32.Checksum(data, castagnoli)}
}

func drawPayload(t *rapid.T) Payload {
	data := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "payload")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return Payload{Reason: ReasonUnknownJob}
	case 1:
		return raw(data, ReasonNotReady)
	case 2:
		return raw(nil, ReasonPoison)
	}
	return prepared(data)
}

// chunk is a payload as one chunk.
func chunk(want int, p Payload) *fetchpb.Chunk {
	head, err := headOf(p, "dn1")
	if err != nil {
		panic(err)
	}
	return &fetchpb.Chunk{Index: uint32(want), Total: uint64(len(p.Data)), Head: proto.CloneOf(head), Data: bytes.Clone(p.Data)}
}

// cut is a payload as several chunks.
func cut(t *rapid.T, want int, p Payload) []*inbound {
	m := chunk(want, p)
	var list []*inbound
	for data := m.Data; ; {
		n := min(rapid.IntRange(1, 80).Draw(t, "chunk"), len(data))
		list = append(list, received(&fetchpb.Chunk{Index: m.Index, Offset: m.Offset, Total: m.Total, Head: m.Head, Data: data[:n]}))
		data, m.Head, m.Offset = data[n:], nil, m.Offset+uint64(n)
		if len(data) == 0 {
			return list
		}
	}
}

func received(m *fetchpb.Chunk) *inbound {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	in := &inbound{}
	if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, in); err != nil {
		panic(err)
	}
	return in
}

// differs says how an answer is not what was sent, "" if it is.
func differs(a Answer, p Payload) string {
	switch {
	case a.Node != "dn1" || a.Reason != p.Reason || a.LeadTime != p.LeadTime || a.PrepareCPU != p.PrepareCPU:
		return fmt.Sprintf("got %+v, sent %+v", a, p)
	case p.Raw && (a.Prepared != nil || a.Raw == nil || !bytes.Equal(a.Raw, p.Data)):
		return fmt.Sprintf("raw bytes %q, sent %q", a.Raw, p.Data)
	case !p.Raw && p.Reason != ReasonNone && (a.Prepared != nil || a.Raw != nil):
		return "bytes where none were sent"
	case p.Raw || p.Reason != ReasonNone:
		return ""
	case a.Prepared == nil || !bytes.Equal(a.Prepared.Data, p.Data) || a.Prepared.CRC != p.CRC || a.Prepared.Spec.Dtype != p.Spec.Dtype:
		return fmt.Sprintf("tensor %+v, sent %+v", a.Prepared, p)
	}
	return ""
}

func pending(queues [][]*inbound) []int {
	var list []int
	for i, q := range queues {
		if len(q) > 0 {
			list = append(list, i)
		}
	}
	return list
}

func ones(n int) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		s[i] = 1
	}
	s[0] = 6
	return s
}
