package fetch

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that all other messages use
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/agent/fetch/fetchpb"
)

const (
	// dataField is the number of Chunk.data, the last field of the message.
	dataField = 15
	// maxHeader bounds what comes before the data, in bytes. The longest strings that a head may hold
	// add up to less than 700.
	maxHeader = 1 << 10
	// chunkSize is the data of one chunk that we send, in bytes. Measured best between 64 KiB and
	// 1 MiB (benchmarks/wire): small enough to stay in the cache until the receiver copies it.
	chunkSize = 256 << 10
	// maxChunk is the data of one chunk that we accept, in bytes.
	maxChunk = 1 << 20
)

// errHeader is a chunk that is not built as the protocol says.
var errHeader = errors.New("chunk is malformed")

// codec sends and receives chunks without a copy and leaves every other message to gRPC's own codec.
// It has that codec's name, because the bytes are the same.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// outbound is a chunk to be sent: its fields but the data, and the data. Marshal takes the reference to
// data over.
type outbound struct {
	header *fetchpb.Chunk
	data   mem.Buffer
}

// inbound is a chunk that was received: its fields but the data, and the message that holds the data.
// The receiver frees message.
type inbound struct {
	header  fetchpb.Chunk
	message mem.BufferSlice
	layout
	scratch [maxHeader]byte // reused from chunk to chunk
}

// layout says where the parts of an encoded chunk are: the other fields in bytes [0, header), the data
// in bytes [skip, skip+size).
type layout struct{ header, skip, size int }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	out, ok := v.(*outbound)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	header, err := appendHeader(nil, out.header, out.data.Len())
	if err != nil {
		out.data.Free()
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(header), out.data}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(message mem.BufferSlice, v any) error {
	in, ok := v.(*inbound)
	if !ok {
		return c.CodecV2.Unmarshal(message, v)
	}
	total := message.Len()
	head := in.scratch[:message.CopyTo(in.scratch[:])]
	at, err := scanHeader(head, total)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(head[:at.header], &in.header); err != nil {
		return fmt.Errorf("fetch: %w: %w", errHeader, err)
	}
	message.Ref()
	in.message, in.layout = message, at
	return nil
}

// appendHeader appends a chunk's encoding up to where its data begins.
func appendHeader(b []byte, header *fetchpb.Chunk, size int) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(b, header)
	if err != nil || size == 0 {
		return b, err
	}
	b = protowire.AppendTag(b, dataField, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(size)), nil
}

// scanHeader finds the parts of an encoded chunk of total bytes. b holds the first bytes of the chunk,
// all of them if there are no more than maxHeader. Data that is not the last field, that does not end
// where the message ends, or that is empty or written in more bytes than it needs, is an error: a
// chunk has one encoding.
func scanHeader(b []byte, total int) (layout, error) {
	at := 0
	for at < total {
		num, typ, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			return layout{}, fmt.Errorf("fetch: %w: tag at byte %d: %w", errHeader, at, protowire.ParseError(n))
		}
		if num == dataField {
			return scanData(b, total, at, n, typ)
		}
		m := protowire.ConsumeFieldValue(num, typ, b[at+n:])
		if m < 0 {
			return layout{}, fmt.Errorf("fetch: %w: field %d at byte %d: %w, or more than %d bytes before the data", errHeader, num, at, protowire.ParseError(m), maxHeader)
		}
		at += n + m
	}
	return layout{header: at, skip: at}, nil
}

// scanData reads the tag and length of the data, which begin at byte at.
func scanData(b []byte, total, at, tag int, typ protowire.Type) (layout, error) {
	if typ != protowire.BytesType || tag != protowire.SizeTag(dataField) {
		return layout{}, fmt.Errorf("fetch: %w: data at byte %d has wire type %d in %d bytes", errHeader, at, typ, tag)
	}
	length, n := protowire.ConsumeVarint(b[at+tag:])
	if n < 0 || n != protowire.SizeVarint(length) {
		return layout{}, fmt.Errorf("fetch: %w: length of the data at byte %d", errHeader, at)
	}
	skip := at + tag + n
	if length == 0 || length != uint64(total-skip) {
		return layout{}, fmt.Errorf("fetch: %w: data of %d bytes at byte %d, but %d follow: data must be the last field", errHeader, length, at, total-skip)
	}
	return layout{header: at, skip: skip, size: int(length)}, nil
}
