package hdfs

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// section is the block of a file that is being written, and what is needed of its bytes to send them again.
type section struct {
	located *hproto.LocatedBlock // nil: the NameNode has given none yet
	members []datanode.Target    // the DataNodes that count as having it
	targets []datanode.Target    // those of them that did not fail
	pipe    *datanode.Pipeline   // through targets; nil: there is none
	closing bool                 // DataNodes may have closed the block
	release func()               // says that the block's nodes are no longer busy with it

	filling *datanode.Packet   // not full yet; nil: none is begun
	held    []*datanode.Packet // full ones, or the last: all of them, or after cut those not acknowledged
	sent    int                // how many of held went through pipe
	cut     bool               // packets were let go
	end     int64              // bytes in all packets there were
	acked   int64              // bytes that all members have
}

// fill takes bytes for the block, up to its size or the end of a packet.
func (s *section) fill(b []byte, size int64, packet func(off int64, bytes int) *datanode.Packet) int {
	if s.filling == nil {
		s.filling = packet(s.end, len(b))
	}
	n := s.filling.Fill(b[:min(int64(len(b)), size-s.end)])
	s.end += int64(n)
	return n
}

// seal makes the packet that is being filled one to be sent.
func (s *section) seal() {
	if s.filling != nil {
		s.held, s.filling = append(s.held, s.filling), nil
	}
}

// trim lets packets go that need not be sent again, of a block of more than keepWhole bytes, and returns them.
func (s *section) trim(keepWhole int64) []*datanode.Packet {
	if s.end <= keepWhole {
		return nil
	}
	n := 0
	for n < s.sent && s.held[n].End() <= s.acked {
		n++
	}
	gone := slices.Clone(s.held[:n])
	s.held, s.sent, s.cut = append(s.held[:0], s.held[n:]...), s.sent-n, s.cut || n > 0
	return gone
}

// given makes the section that of a block that the NameNode has just given.
func (s *section) given(b *hproto.LocatedBlock, table *nodeTable) {
	s.located, s.closing, s.sent, s.acked = b, false, 0, 0
	s.members = s.members[:0]
	for i, d := range b.GetLocs() {
		s.members = append(s.members, datanode.Target{
			Node: table.of(d, false).transfer(), Info: d, Storage: at(b.GetStorageTypes(), i), StorageID: at(b.GetStorageIds(), i),
		})
	}
	s.targets = slices.Clone(s.members)
}

// taken makes the nodes of a pipeline that took the block up again its members.
func (s *section) taken(b *hproto.LocatedBlock) {
	s.located, s.members = b, slices.Clone(s.targets)
}

// block is the block with some length.
func (s *section) block(bytes int64) *hproto.ExtendedBlock {
	b := s.located.GetB()
	return &hproto.ExtendedBlock{PoolId: b.PoolId, BlockId: b.BlockId, GenerationStamp: b.GenerationStamp, NumBytes: proto.Uint64(uint64(bytes))}
}

// drop frees the pipeline, and notes what it had come to.
func (s *section) drop() {
	if s.pipe == nil {
		return
	}
	s.acked, s.closing = max(s.acked, s.pipe.Acked()), s.closing || s.pipe.Closing()
	s.pipe.Close()
	s.pipe = nil
}

// without drops a node that failed from those that go on. When none is left all members are tried again: a network that
// was cut may be whole again.
func (s *section) without(bad int) {
	s.targets = slices.Delete(s.targets, bad, bad+1)
	if len(s.targets) == 0 {
		s.targets = slices.Clone(s.members)
	}
}
