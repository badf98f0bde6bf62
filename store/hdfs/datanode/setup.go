package datanode

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Target is a DataNode of a pipeline.
type Target struct {
	// Node is how the node is reached; only the first of a pipeline is dialled, each dials the next.
	Node Node
	// Info is the node as the NameNode described it.
	Info *hproto.DatanodeInfo
	// Storage is the number of the type of storage that the replica goes to, and StorageID which one it is.
	Storage   uint32
	StorageID string
}

// Setup says how a pipeline begins.
type Setup struct {
	// Block is the one to write, under the generation stamp that replicas have, with a token to write it. NumBytes is what
	// nodes make room for.
	Block   Block
	Targets []Target
	// Client is the name under which the NameNode knows who writes the file.
	Client string
	// Stage is SETUP_CREATE for a new block. The two recoveries take up one that has replicas on all targets: with Min bytes
	// that all have, and Max that some may have, under the generation stamp Stamp from now on.
	Stage    hproto.OpWriteBlock_Stage
	Min, Max int64
	Stamp    uint64
	// Patience is how long the pipeline may say nothing; it should be longer than nodes wait for each other. 0 takes a minute and
	// 5 s for each node.
	Patience time.Duration
	// Beat is how often nodes hear from us at least: they give up after a minute by default. 0 takes 20 s.
	Beat time.Duration
}

func (s Setup) withDefaults() Setup {
	if s.Patience <= 0 {
		s.Patience = time.Minute + time.Duration(len(s.Targets))*5*time.Second
	}
	if s.Beat <= 0 {
		s.Beat = 20 * time.Second
	}
	return s
}

func (s Setup) request() *hproto.OpWriteBlock {
	first := s.Targets[0]
	r := &hproto.OpWriteBlock{
		Header: &hproto.ClientOperationHeader{BaseHeader: s.Block.header(), ClientName: &s.Client},
		Stage:  s.Stage.Enum(), PipelineSize: proto.Uint32(uint32(len(s.Targets))),
		MinBytes: proto.Uint64(uint64(s.Min)), MaxBytes: proto.Uint64(uint64(s.Max)), Stamp: &s.Stamp, Checksum: written,
		StorageType: &first.Storage, StorageId: &first.StorageID,
	}
	for _, t := range s.Targets[1:] {
		r.Targets = append(r.Targets, t.Info)
		r.TargetStorageTypes = append(r.TargetStorageTypes, t.Storage)
		r.TargetStorageIds = append(r.TargetStorageIds, t.StorageID)
	}
	return r
}

// ask sends the request and waits until all nodes are ready. Where it fails, bad is the node to blame.
func (s Setup) ask(ctx context.Context, c *conn, in *inbox) (bad int, err error) {
	request, err := appendOp(nil, opWrite, s.request())
	if err != nil {
		return 0, err
	}
	if _, err := c.dst.Write(request); err != nil {
		return 0, broken(ctx, "sending the request", err)
	}
	answer, err := in.message(ctx, c.src, "waiting for the pipeline", len(in.buf))
	if err != nil {
		return 0, err
	}
	var m hproto.BlockOpResponse
	if err := proto.Unmarshal(answer, &m); err != nil {
		return 0, violation("answer: %v", err)
	}
	if m.GetStatus() == hproto.BlockOpResponse_SUCCESS {
		return 0, nil
	}
	err = refusal(m.GetStatus(), m.GetMessage())
	if at := m.GetFirstBadLink(); at != "" {
		err = fmt.Errorf("%w (at %.100q)", err, at)
		bad = s.at(at)
	}
	return bad, err
}

// at finds a node by how other nodes call it; the first, where none is called so.
func (s Setup) at(addr string) int {
	for i, t := range s.Targets {
		id := t.Info.GetId()
		port := strconv.FormatUint(uint64(id.GetXferPort()), 10)
		if addr == net.JoinHostPort(id.GetIpAddr(), port) || addr == net.JoinHostPort(id.GetHostName(), port) {
			return i
		}
	}
	return 0
}

// PipelineError says which node of a pipeline failed. It matches one of the kinds of this package.
type PipelineError struct {
	*NodeError
	// Bad is the node's place in the pipeline: the one that is most likely to blame, or -1 where none is. Of ErrToken and ErrKey
	// it is the one that refused, which may be right.
	Bad int
}

// nobody is the place in a pipeline of what is no node's fault.
const nobody = -1

// Unwrap returns the NodeError.
func (e *PipelineError) Unwrap() error { return e.NodeError }

func (s Setup) failed(bad int, err error) error {
	return &PipelineError{&NodeError{Node: s.Targets[max(bad, 0)].Node, Block: s.Block.Name(), Op: "Write", Err: err}, bad}
}
