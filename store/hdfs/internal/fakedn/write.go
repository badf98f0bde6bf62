package fakedn

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Replica is what a node has of a block that is written to it.
type Replica struct {
	Data  []byte
	Stamp uint64
	// Final says that the block was closed.
	Final bool
	acked int // bytes that the nodes behind have too
}

// Replica returns a copy of what the node has of a block, or nil.
func (n *Node) Replica(id uint64) *Replica {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.replicas[id]
	if r == nil {
		return nil
	}
	return &Replica{bytes.Clone(r.Data), r.Stamp, r.Final, r.acked}
}

// receive takes part in a pipeline. Unlike Hadoop it sends no packet on before the one before is answered; who writes
// cannot tell.
func (n *Node) receive(c net.Conn, in *bufio.Reader, w *hproto.OpWriteBlock, f Fault) {
	if f.After == 0 && f.Hangup {
		return
	}
	if f.After == 0 && f.Stall > 0 {
		n.hold(c)
		return
	}
	next, bad, err := n.join(w)
	if f.After == 0 && f.Status != hproto.BlockOpResponse_SUCCESS {
		err = errors.New(f.Message)
	}
	if next != nil {
		defer n.forget(next)
	}
	answer := &hproto.BlockOpResponse{Status: hproto.BlockOpResponse_SUCCESS.Enum(), FirstBadLink: &bad}
	if err != nil {
		answer.Status, answer.Message = hproto.BlockOpResponse_ERROR.Enum(), proto.String(err.Error())
	}
	if _, sent := c.Write(delimited(answer)); sent != nil || err != nil || w.GetStage() == hproto.OpWriteBlock_CLOSE_RECOVERY {
		return
	}
	s := stream{n: n, c: c, in: in, id: w.GetHeader().GetBaseHeader().GetBlock().GetBlockId(), stamp: stampOf(w), f: f}
	if next != nil {
		s.next, s.nextIn = next, bufio.NewReader(next)
	}
	s.run()
}

func stampOf(w *hproto.OpWriteBlock) uint64 {
	if w.GetStage() == hproto.OpWriteBlock_SETUP_CREATE {
		return w.GetHeader().GetBaseHeader().GetBlock().GetGenerationStamp()
	}
	return w.GetStamp()
}

// join makes the replica ready, and the pipeline behind this node; bad is which of its nodes failed.
func (n *Node) join(w *hproto.OpWriteBlock) (next net.Conn, bad string, err error) {
	if err := n.prepare(w); err != nil {
		return nil, "", err
	}
	if len(w.GetTargets()) == 0 {
		return nil, "", nil
	}
	to := w.GetTargets()[0].GetId()
	addr := net.JoinHostPort(to.GetIpAddr(), strconv.FormatUint(uint64(to.GetXferPort()), 10))
	on := proto.CloneOf(w)
	on.Targets, on.TargetStorageTypes, on.TargetStorageIds = w.Targets[1:], w.TargetStorageTypes[1:], w.TargetStorageIds[1:]
	next, err = net.Dial("tcp", addr)
	if err != nil {
		return nil, addr, err
	}
	n.mu.Lock()
	n.conns[next] = struct{}{} // so that Close ends it
	n.mu.Unlock()
	var answer hproto.BlockOpResponse
	if _, err = next.Write(append([]byte{0, version, opWrite}, delimited(on)...)); err == nil {
		err = readDelimited(bufio.NewReaderSize(next, 16), &answer)
	}
	switch {
	case err != nil:
		return next, addr, err
	case answer.GetStatus() == hproto.BlockOpResponse_SUCCESS:
		return next, "", nil
	case answer.GetFirstBadLink() != "":
		addr = answer.GetFirstBadLink()
	}
	return next, addr, errors.New(answer.GetMessage())
}

// prepare checks what Hadoop's DataNodes check when a block begins or is taken up again.
func (n *Node) prepare(w *hproto.OpWriteBlock) error {
	b := w.GetHeader().GetBaseHeader().GetBlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.replicas[b.GetBlockId()]
	if w.GetStage() == hproto.OpWriteBlock_SETUP_CREATE {
		if r != nil {
			return fmt.Errorf("block %d exists", b.GetBlockId())
		}
		n.replicas[b.GetBlockId()] = &Replica{Stamp: b.GetGenerationStamp()}
		return nil
	}
	closing := w.GetStage() == hproto.OpWriteBlock_CLOSE_RECOVERY
	switch {
	case r == nil || r.Stamp < b.GetGenerationStamp() || r.Stamp > w.GetStamp():
		return errors.New("ReplicaNotFoundException: no replica of this stamp")
	case closing && len(r.Data) != int(w.GetMinBytes()):
		return fmt.Errorf("%d bytes where %d were expected", len(r.Data), w.GetMinBytes())
	case !closing && (r.Final || r.acked < int(w.GetMinBytes()) || len(r.Data) > int(w.GetMaxBytes())):
		return fmt.Errorf("%d bytes, %d acknowledged: %d to %d were expected", len(r.Data), r.acked, w.GetMinBytes(), w.GetMaxBytes())
	}
	r.Stamp, r.Final = w.GetStamp(), closing
	if !closing {
		r.Data = r.Data[:r.acked]
	}
	return nil
}

// stream is a node's part of a pipeline that is ready.
type stream struct {
	n      *Node
	c      net.Conn
	in     *bufio.Reader
	next   net.Conn // nil: this is the last node
	nextIn *bufio.Reader
	id     uint64
	stamp  uint64
	f      Fault
	taken  int // packets
}

func (s *stream) run() {
	for {
		p, raw, err := s.packet()
		if err != nil {
			return
		}
		if s.f.After > 0 && s.taken >= s.f.After {
			switch {
			case s.f.Hangup:
				return
			case s.f.Stall > 0:
				s.n.hold(s.c)
				return
			case s.f.Status == hproto.BlockOpResponse_OOB_RESTART:
				_ = s.ack(outOfBand, s.f.Status)
				return
			case s.f.Status != hproto.BlockOpResponse_SUCCESS:
				_ = s.ack(p.Header.GetSeqno(), s.f.Status)
				return
			}
		}
		s.taken++
		status := s.keep(p)
		seqno, behind, failed := s.pass(p, raw)
		if !failed && status == hproto.BlockOpResponse_SUCCESS {
			s.acked(p)
		}
		if err := s.ack(seqno, append([]hproto.BlockOpResponse_Status{status}, behind...)...); err != nil || failed {
			return
		}
		if status != hproto.BlockOpResponse_SUCCESS || p.Header.GetLastPacketInBlock() {
			return
		}
	}
}

// packet receives one, also as it travelled.
func (s *stream) packet() (p Packet, raw []byte, err error) {
	var head [6]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return p, nil, err
	}
	plen, hlen := int(binary.BigEndian.Uint32(head[:])), int(binary.BigEndian.Uint16(head[4:]))
	if plen < 4 || plen+hlen > 16<<20 {
		return p, nil, errors.New("fakedn: packet of a wrong size")
	}
	body := make([]byte, hlen+plen-4)
	if _, err := io.ReadFull(s.in, body); err != nil {
		return p, nil, err
	}
	p.Header = new(hproto.PacketHeader)
	if err := proto.Unmarshal(body[:hlen], p.Header); err != nil {
		return p, nil, err
	}
	data := int(p.Header.GetDataLen())
	if data < 0 || data > len(body)-hlen {
		return p, nil, errors.New("fakedn: packet with a wrong length")
	}
	p.Sums, p.Data = body[hlen:len(body)-data], body[len(body)-data:]
	return p, append(head[:], body...), nil
}

// keep checks a packet and puts its bytes into the replica.
func (s *stream) keep(p Packet) hproto.BlockOpResponse_Status {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	r := s.n.replicas[s.id]
	if r == nil || r.Stamp != s.stamp || r.Final {
		return hproto.BlockOpResponse_ERROR
	}
	if !bytes.Equal(p.Sums, castagnoli(p.Data)) {
		return hproto.BlockOpResponse_ERROR_CHECKSUM
	}
	if p.Header.GetSeqno() < 0 {
		return hproto.BlockOpResponse_SUCCESS
	}
	off := int(p.Header.GetOffsetInBlock())
	if off < 0 || off > len(r.Data) {
		return hproto.BlockOpResponse_ERROR
	}
	if end := off + len(p.Data); end > len(r.Data) {
		r.Data = append(r.Data[:off:off], p.Data...)
	}
	if p.Header.GetLastPacketInBlock() {
		r.Final = off == len(r.Data)
	}
	return hproto.BlockOpResponse_SUCCESS
}

func castagnoli(data []byte) (sums []byte) {
	for ; len(data) > 0; data = data[min(512, len(data)):] {
		sums = binary.BigEndian.AppendUint32(sums, crc32.Checksum(data[:min(512, len(data))], crc32.MakeTable(crc32.Castagnoli)))
	}
	return sums
}

// outOfBand is the sequence number of what a node says unasked.
const outOfBand = -2

// pass sends a packet on, and returns what the nodes behind say, and to what.
func (s *stream) pass(p Packet, raw []byte) (seqno int64, behind []hproto.BlockOpResponse_Status, failed bool) {
	seqno = p.Header.GetSeqno()
	if s.next == nil {
		return seqno, nil, false
	}
	var ack hproto.PipelineAck
	_, err := s.next.Write(raw)
	if err == nil {
		err = readDelimited(s.nextIn, &ack)
	}
	if err != nil || ack.GetSeqno() != seqno && ack.GetSeqno() != outOfBand {
		return seqno, []hproto.BlockOpResponse_Status{hproto.BlockOpResponse_ERROR}, true
	}
	for _, status := range ack.GetReply() {
		failed = failed || status != hproto.BlockOpResponse_SUCCESS
	}
	return ack.GetSeqno(), ack.GetReply(), failed
}

func (s *stream) acked(p Packet) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if r := s.n.replicas[s.id]; r != nil && r.Stamp == s.stamp {
		r.acked = max(r.acked, int(p.Header.GetOffsetInBlock())+len(p.Data))
	}
}

func (s *stream) ack(seqno int64, status ...hproto.BlockOpResponse_Status) error {
	a := &hproto.PipelineAck{Seqno: &seqno, Reply: status}
	if s.f.Ack != nil {
		s.f.Ack(a)
	}
	_, err := s.c.Write(delimited(a))
	return err
}
