package datanode

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Replace has node copy the replica of a block that source has, onto storage of a type, and returns when it has it. The NameNode then removes the replica of
// source, as when balancers move one. Its token must be for replacing and copying, which HDFS gives to superusers alone: with that of a reader, where blocks have
// tokens, the error matches ErrToken. Errors are *NodeError, as those of Read.
func (p *Pool) Replace(ctx context.Context, node Node, b Block, source *hproto.DatanodeInfo, storage uint32) error {
	request, err := appendOp(nil, opReplace, &hproto.OpReplaceBlock{
		Header: b.header(), DelHint: proto.String(source.GetId().GetDatanodeUuid()), Source: source, StorageType: &storage,
	})
	if err == nil {
		err = p.with(ctx, node, b, func(c *conn) (outcome, error) { return replace(ctx, c, request) })
	}
	if err != nil {
		return &NodeError{Node: node, Block: b.Name(), Op: "Replace", Err: err}
	}
	return nil
}

// replace sends the request and waits for the end of it: while it copies the node says so, now and then.
func replace(ctx context.Context, c *conn, request []byte) (outcome, error) {
	if _, err := c.dst.Write(request); err != nil {
		return outcome{}, broken(ctx, "sending the request", err)
	}
	in := inbox{buf: make([]byte, bufferSize)}
	for o := (outcome{}); ; o.answered = true {
		answer, err := in.message(ctx, c.src, "waiting for the copy", len(in.buf))
		if err != nil {
			return o, err
		}
		var m hproto.BlockOpResponse
		if err := proto.Unmarshal(answer, &m); err != nil {
			return outcome{answered: true}, violation("answer: %v", err)
		}
		switch m.GetStatus() {
		case hproto.BlockOpResponse_IN_PROGRESS:
		case hproto.BlockOpResponse_SUCCESS:
			return outcome{answered: true}, nil // the node closes the connection
		default:
			return outcome{answered: true}, refusal(m.GetStatus(), m.GetMessage())
		}
	}
}
