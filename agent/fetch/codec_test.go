package fetch

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/agent/fetch/fetchpb"
)

// TestWireIsProtobuf: what the codec writes is what protobuf reads, and the reverse.
func TestWireIsProtobuf(t *testing.T) {
	c := newCodec()
	rapid.Check(t, func(t *rapid.T) {
		want := drawChunk(t)
		header := proto.CloneOf(want)
		header.Data = nil

		sent, err := c.Marshal(&outbound{header: header, data: mem.SliceBuffer(want.Data)})
		if err != nil {
			t.Fatal(err)
		}
		var read fetchpb.Chunk
		if err := proto.Unmarshal(sent.Materialize(), &read); err != nil {
			t.Fatalf("protobuf cannot read it: %v", err)
		}
		if !proto.Equal(&read, want) {
			t.Fatalf("protobuf reads %v, sent was %v", &read, want)
		}

		plain, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var in inbound
		if err := c.Unmarshal(split(t, plain), &in); err != nil {
			t.Fatalf("cannot read protobuf: %v", err)
		}
		if got := in.whole(); !proto.Equal(got, want) {
			t.Fatalf("read %v, sent was %v", got, want)
		}
	})
}

// TestOtherMessagesAreLeftAlone: hints are served by the same server.
func TestOtherMessagesAreLeftAlone(t *testing.T) {
	c := newCodec()
	want := &fetchpb.FetchRequest{Job: "j", Dataset: make([]byte, 32)}
	b, err := c.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got fetchpb.FetchRequest
	if err := c.Unmarshal(b, &got); err != nil || !proto.Equal(&got, want) {
		t.Fatalf("got %v, %v", &got, err)
	}
	if c.Name() != "proto" {
		t.Errorf("codec is named %q: peers would take the bytes for something else", c.Name())
	}
}

// TestLargestHeaderFits: whatever the checks of the sender let through, the receiver can read.
func TestLargestHeaderFits(t *testing.T) {
	name := strings.Repeat("n", maxName)
	b, err := appendHeader(nil, &fetchpb.Chunk{
		Index: math.MaxUint32, Total: math.MaxInt64,
		Head: &fetchpb.Head{
			Kind: fetchpb.Kind_KIND_PREPARED, Reason: name, Node: name, PlanDigest: make([]byte, 32), Dtype: "bfloat16",
			Shape:  []uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32},
			Crc32C: math.MaxUint32, LeadUs: math.MaxInt64, PrepareCpuUs: math.MaxInt64,
		},
	}, maxChunk)
	if err != nil || len(b) > maxHeader {
		t.Fatalf("header of %d bytes, at most %d: %v", len(b), maxHeader, err)
	}
}

func TestMalformedChunks(t *testing.T) {
	data := func(b ...byte) []byte { return append([]byte{dataField<<3 | 2}, b...) }
	for name, b := range map[string][]byte{
		"data not last":            append(data(1, 'x'), 8, 1),
		"data twice":               append(data(1, 'x'), data(1, 'y')...),
		"data cut":                 data(5, 'x'),
		"data empty":               data(0),
		"data too long":            data(1, 'x', 'y'),
		"length overflows":         data(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 'x'),
		"length has no end":        data(0x80),
		"length padded":            data(0x81, 0, 'x'),
		"data is a varint":         {dataField << 3, 1},
		"tag padded":               append([]byte{0x80 | dataField<<3 | 2, 0}, 1, 'x'),
		"tag cut":                  {0x80},
		"field zero":               {0, 1},
		"head is not a message":    {4<<3 | 2, 1, 0xff},
		"head is not UTF-8":        {4<<3 | 2, 3, 2<<3 | 2, 1, 0xff},
		"header without an end":    append([]byte{100<<3&0x7f | 2 | 0x80, 100 << 3 >> 7, 0xff, 0x7f}, make([]byte, 1<<14-1)...),
		"header longer than known": append(append([]byte{4<<3 | 2, 0x80, 0x10}, make([]byte, 2048)...), data(1, 'x')...),
	} {
		var in inbound
		if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, &in); !errors.Is(err, errHeader) {
			t.Errorf("%s: got %v, want an error that says the chunk is malformed", name, err)
		}
	}
}

// FuzzChunk: the codec's reader agrees with protobuf on everything that it accepts.
func FuzzChunk(f *testing.F) {
	for _, m := range []*fetchpb.Chunk{
		{},
		{Index: 3, Offset: 1 << 20, Total: 1 << 30, Data: []byte("tensor")},
		{Total: 6, Data: []byte("tensor"), Head: &fetchpb.Head{Kind: fetchpb.Kind_KIND_PREPARED, Node: "dn1", Dtype: "uint8", Shape: []uint32{1, 2, 3}, PlanDigest: make([]byte, 32), Crc32C: 7}},
		{Index: 9, Head: &fetchpb.Head{Reason: "not-ready", Node: "dn1"}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, 0x78))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in inbound
		if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, &in); err != nil {
			return
		}
		if in.size > 0 && in.skip+in.size != len(b) {
			t.Fatalf("data in [%d, %d) of %d bytes", in.skip, in.skip+in.size, len(b))
		}
		var want fetchpb.Chunk
		if err := proto.Unmarshal(b, &want); err != nil {
			t.Fatalf("accepted what protobuf refuses: %v", err)
		}
		if got := in.whole(); !proto.Equal(got, &want) {
			t.Fatalf("read %v, protobuf reads %v", got, &want)
		}
	})
}

// whole is the chunk with its data.
func (in *inbound) whole() *fetchpb.Chunk {
	m := proto.CloneOf(&in.header)
	if in.size > 0 {
		m.Data = in.message.Materialize()[in.skip:]
	}
	return m
}

// split cuts a message into buffers, as a network does.
func split(t *rapid.T, b []byte) mem.BufferSlice {
	var s mem.BufferSlice
	for len(b) > 0 {
		n := rapid.IntRange(1, len(b)).Draw(t, "piece")
		s = append(s, mem.SliceBuffer(bytes.Clone(b[:n])))
		b = b[n:]
	}
	return s
}

func drawChunk(t *rapid.T) *fetchpb.Chunk {
	m := &fetchpb.Chunk{
		Index:  rapid.Uint32().Draw(t, "index"),
		Offset: rapid.Uint64().Draw(t, "offset"),
		Total:  rapid.Uint64().Draw(t, "total"),
	}
	if data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data"); len(data) > 0 {
		m.Data = data
	}
	if rapid.Bool().Draw(t, "has head") {
		m.Head = &fetchpb.Head{
			Kind:   fetchpb.Kind(rapid.Int32Range(0, 2).Draw(t, "kind")),
			Reason: rapid.StringN(0, 10, 20).Draw(t, "reason"),
			Node:   rapid.StringN(0, 60, 120).Draw(t, "node"),
			Crc32C: rapid.Uint32().Draw(t, "crc"),
			LeadUs: rapid.Int64().Draw(t, "lead"),
			Shape:  rapid.SliceOfN(rapid.Uint32(), 0, 8).Draw(t, "shape"),
		}
		if len(m.Head.Shape) == 0 {
			m.Head.Shape = nil
		}
	}
	return m
}
