package datanode

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Sequence numbers that are no packet's.
const (
	heartbeat = -1 // of a packet that says that we live, and of its answer
	outOfBand = -2 // of what a DataNode says unasked: it restarts
)

// ack is what a pipeline says to a packet.
type ack struct {
	seqno  int64
	bad    int // the node that failed; -1: none did
	status hproto.BlockOpResponse_Status
}

// parseAck reads the answer of a pipeline of so many nodes. Each node puts its status before those of the nodes behind it;
// where one failed these may be missing. The last that is bad counts: those before it can only say that it is.
func parseAck(b []byte, nodes int) (ack, error) {
	var m hproto.PipelineAck
	if err := proto.Unmarshal(b, &m); err != nil {
		return ack{}, violation("acknowledgement: %v", err)
	}
	a := ack{seqno: m.GetSeqno(), bad: -1}
	replies := m.GetReply()
	for i, s := range replies {
		if s != hproto.BlockOpResponse_SUCCESS {
			a.bad, a.status = i, s
		}
	}
	switch n := len(replies); {
	case n < 1 || n > nodes:
		return ack{}, violation("acknowledgement of %d nodes in a pipeline of %d", n, nodes)
	case a.bad < 0 && n < nodes && a.seqno >= 0:
		return ack{}, violation("packet %d is acknowledged by %d nodes of %d", a.seqno, n, nodes)
	case a.seqno < outOfBand:
		return ack{}, violation("acknowledgement of packet %d", a.seqno)
	}
	return a, nil
}

// failure is what the answer of a node that failed means.
func (a ack) failure() error {
	if a.status == hproto.BlockOpResponse_OOB_RESTART {
		return ErrRestarting
	}
	return fmt.Errorf("%w: %v to packet %d", ErrRefused, a.status, a.seqno)
}

// flow is what a pipeline was sent and what it has acknowledged.
type flow struct {
	ends  []int64 // where in the block each packet ends that is not acknowledged
	next  int64   // the sequence number of the next packet
	acked int64   // so many bytes of the block are with all nodes
}

// send notes a packet that ends at end, and returns its number.
func (f *flow) send(end int64) (seqno int64) {
	f.ends = append(f.ends, end)
	f.next++
	return f.next - 1
}

// take notes an answer that says that all is well.
func (f *flow) take(a ack) error {
	switch first := f.next - int64(len(f.ends)); {
	case a.seqno == heartbeat:
		return nil
	case len(f.ends) == 0 || a.seqno != first:
		return violation("packet %d is acknowledged where %d was due, of %d on their way", a.seqno, first, len(f.ends))
	}
	f.acked = f.ends[0]
	f.ends = append(f.ends[:0], f.ends[1:]...)
	return nil
}
