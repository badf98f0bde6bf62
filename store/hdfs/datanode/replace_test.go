package datanode

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// answers is the other end of one connection: it reads a request and says what it is told to, then nothing more.
func answers(t *testing.T, said chan<- *hproto.OpReplaceBlock, statuses ...hproto.BlockOpResponse_Status) Options {
	return Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			b := make([]byte, 64<<10)
			n, err := theirs.Read(b)
			if err != nil || n < 4 || b[2] != opReplace {
				t.Errorf("request of %d bytes, %v", n, err)
				return
			}
			var m hproto.OpReplaceBlock
			body, _ := protowire.ConsumeBytes(b[3:n])
			if err := proto.Unmarshal(body, &m); err != nil {
				t.Error(err)
			}
			said <- &m
			for _, s := range statuses {
				answer, err := appendDelimited(nil, &hproto.BlockOpResponse{Status: s.Enum(), Message: proto.String("text")})
				if err != nil {
					t.Error(err)
				}
				if _, err := theirs.Write(answer); err != nil {
					t.Error(err)
				}
			}
		}()
		return ours, nil
	}}
}

// TestReplace: a node says for as long as it copies that it does; what it says at the end counts.
func TestReplace(t *testing.T) {
	const ok, busy = hproto.BlockOpResponse_SUCCESS, hproto.BlockOpResponse_IN_PROGRESS
	for _, test := range []struct {
		statuses []hproto.BlockOpResponse_Status
		want     error
	}{
		{[]hproto.BlockOpResponse_Status{ok}, nil},
		{[]hproto.BlockOpResponse_Status{busy, busy, busy, ok}, nil},
		{[]hproto.BlockOpResponse_Status{hproto.BlockOpResponse_ERROR_ACCESS_TOKEN}, ErrToken},
		{[]hproto.BlockOpResponse_Status{busy, hproto.BlockOpResponse_ERROR_BLOCK_PINNED}, ErrRefused},
		{[]hproto.BlockOpResponse_Status{busy}, io.ErrUnexpectedEOF},
		{nil, io.ErrUnexpectedEOF},
	} {
		said := make(chan *hproto.OpReplaceBlock, 1)
		p := newPool(t, answers(t, said, test.statuses...))
		block := Block{ExtendedBlock: &hproto.ExtendedBlock{
			PoolId: proto.String("pool"), BlockId: proto.Uint64(7), GenerationStamp: proto.Uint64(1), NumBytes: proto.Uint64(5),
		}}
		source := &hproto.DatanodeInfo{Id: &hproto.DatanodeID{
			IpAddr: proto.String("127.0.0.1"), HostName: proto.String("a"), DatanodeUuid: proto.String("from"), XferPort: proto.Uint32(1), InfoPort: proto.Uint32(2), IpcPort: proto.Uint32(3),
		}}
		err := p.Replace(within(t), Node{Addr: "node:1"}, block, source, 3)
		var node *NodeError
		if test.want == nil && err != nil || test.want != nil && (!errors.Is(err, test.want) || !errors.As(err, &node)) {
			t.Errorf("%v: %v, want %v", test.statuses, err, test.want)
		}
		if m := <-said; m.GetDelHint() != "from" || m.GetStorageType() != 3 || m.GetHeader().GetBlock().GetBlockId() != 7 {
			t.Errorf("%v", m)
		}
	}
}
