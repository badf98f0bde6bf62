package datanode

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// The data transfer protocol's version and operations.
const (
	transferVersion = 28
	opWrite         = 80
	opRead          = 81
	opReplace       = 83
	opChecksum      = 85
)

// maxAnswer bounds the message that answers an operation: it holds numbers and an exception's text.
const maxAnswer = 64 << 10

// appendOp appends a request: version, operation, message.
func appendOp(b []byte, op byte, m proto.Message) ([]byte, error) {
	b = binary.BigEndian.AppendUint16(b, transferVersion)
	return appendDelimited(append(b, op), m)
}

func appendDelimited(b []byte, m proto.Message) ([]byte, error) {
	b = protowire.AppendVarint(b, uint64(proto.Size(m)))
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	return b, nil
}

func (b Block) header() *hproto.BaseHeader {
	token := b.Token
	if token == nil {
		token = &hproto.Token{Identifier: []byte{}, Password: []byte{}, Kind: new(string), Service: new(string)}
	}
	return &hproto.BaseHeader{Block: b.ExtendedBlock, Token: token}
}

func (b Block) readRequest(client string, off, n int64) *hproto.OpReadBlock {
	return &hproto.OpReadBlock{
		Header: &hproto.ClientOperationHeader{BaseHeader: b.header(), ClientName: &client},
		Offset: proto.Uint64(uint64(off)), Len: proto.Uint64(uint64(n)), SendChecksums: proto.Bool(true),
	}
}

// parseAnswer reads a BlockOpResponse and turns whatever is not SUCCESS into an error.
func parseAnswer(b []byte) (*hproto.BlockOpResponse, error) {
	var m hproto.BlockOpResponse
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, violation("answer: %v", err)
	}
	if m.GetStatus() != hproto.BlockOpResponse_SUCCESS {
		return nil, refusal(m.GetStatus(), m.GetMessage())
	}
	return &m, nil
}

// parseReadAnswer reads the answer to a read of [start, end).
func parseReadAnswer(b []byte, start, end int64) (course, error) {
	m, err := parseAnswer(b)
	if err != nil {
		return course{}, err
	}
	if m.GetReadOpChecksumInfo() == nil {
		return course{}, violation("the answer to a read says nothing about checksums")
	}
	return newCourse(m.GetReadOpChecksumInfo(), start, end)
}

// delimitedSize reads the varint in front of a message. n = 0: there are too few bytes to tell.
func delimitedSize(b []byte, most int) (size, n int, err error) {
	v, n := protowire.ConsumeVarint(b)
	if n < 0 {
		if len(b) < binary.MaxVarintLen64 {
			return 0, 0, nil
		}
		return 0, 0, violation("message length: %v", protowire.ParseError(n))
	}
	if v > math.MaxInt32 || int(v) > most {
		return 0, 0, violation("message of %d bytes: at most %d are allowed", v, most)
	}
	return int(v), n, nil
}
