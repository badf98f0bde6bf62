package fakedn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Fault says what a node does wrong with one request. Bytes of the answer are counted from the first one it sends.
type Fault struct {
	// Hangup closes the connection instead of answering.
	Hangup bool
	// Status and Message refuse the request.
	Status  hproto.BlockOpResponse_Status
	Message string
	// After, for a write, lets so many packets pass: then comes Hangup, or Status as the answer to a packet (OOB_RESTART as one
	// to none, as DataNodes say it), or with Stall no answer any more. Without it these come at once.
	After int
	// Ack, if set, changes the answers to packets.
	Ack func(*hproto.PipelineAck)
	// Flip, if set, inverts these bytes of the block on their way, after the checksums were made.
	Flip []int64
	// Answer, if set, is sent as it is.
	Answer []byte
	// Rewrite, if set, changes the answer. What it gets has the answer's message, then all packets.
	Rewrite func(answer []byte) []byte
	// Header, if set, changes the header of each packet, and may change checksums and data.
	Header func(p *Packet)
	// Cut, if positive, ends the connection after so many bytes; Reset with a reset instead of an end.
	Cut   int
	Reset bool
	// Stall, if positive, sends so many bytes and then nothing, until the client or the node ends the connection.
	Stall int
	// Rate, if positive, sends at most so many bytes a second.
	Rate int
	// Write, if positive, sends so many bytes at a time.
	Write int
}

// Packet is one packet of an answer.
type Packet struct {
	Header *hproto.PacketHeader
	Sums   []byte
	Data   []byte
}

// Append appends the packet as it travels.
func (p *Packet) Append(b []byte) []byte {
	header, err := proto.MarshalOptions{AllowPartial: true}.Marshal(p.Header)
	if err != nil {
		panic(err) // it has no strings
	}
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(p.Sums)+len(p.Data)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(header)))
	return append(append(append(b, header...), p.Sums...), p.Data...)
}

var errEnd = errors.New("fakedn: the connection ends here")

// answer sends what a request asks for. An error ends the connection.
func (n *Node) answer(c net.Conn, r Request, data []byte, ok bool, f Fault) error {
	if f.Hangup {
		return errEnd
	}
	refuse := func(s hproto.BlockOpResponse_Status, text string) error {
		return errors.Join(n.send(c, delimited(&hproto.BlockOpResponse{Status: s.Enum(), Message: &text}), f), errEnd)
	}
	switch {
	case f.Answer != nil:
		return n.send(c, f.Answer, f)
	case f.Status != hproto.BlockOpResponse_SUCCESS:
		return refuse(f.Status, f.Message)
	case !ok:
		return refuse(hproto.BlockOpResponse_ERROR, fmt.Sprintf("opReadBlock %s:blk_%d_%d received exception org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException: Replica not found for it",
			r.Block.GetPoolId(), r.Block.GetBlockId(), r.Block.GetGenerationStamp()))
	case r.Off < 0 || r.Len < 0 || r.Off+r.Len > int64(len(data)):
		return refuse(hproto.BlockOpResponse_ERROR, fmt.Sprintf("opReadBlock received exception java.io.IOException:  Offset %d and length %d don't match block ( blockLen %d )", r.Off, r.Len, len(data)))
	}
	answer := n.read(r, data, f)
	if f.Rewrite != nil {
		answer = f.Rewrite(answer)
	}
	return n.send(c, answer, f)
}

// read makes the whole answer to a read.
func (n *Node) read(r Request, data []byte, f Fault) []byte {
	chunk := int64(n.o.Chunk)
	at := r.Off / chunk * chunk
	end := min((r.Off+r.Len+chunk-1)/chunk*chunk, int64(len(data)))
	b := delimited(&hproto.BlockOpResponse{
		Status: hproto.BlockOpResponse_SUCCESS.Enum(),
		ReadOpChecksumInfo: &hproto.ReadOpChecksumInfo{
			Checksum:    &hproto.Checksum{Type: n.o.Type.Enum(), BytesPerChecksum: proto.Uint32(uint32(chunk))},
			ChunkOffset: proto.Uint64(uint64(at)),
		},
	})
	seqno := int64(0)
	send := func(data []byte, last bool) {
		p := Packet{Header: &hproto.PacketHeader{
			OffsetInBlock: proto.Int64(at), Seqno: proto.Int64(seqno), LastPacketInBlock: &last, DataLen: proto.Int32(int32(len(data))),
		}, Sums: n.sums(data), Data: data}
		p.flip(at, f.Flip)
		if f.Header != nil {
			f.Header(&p)
		}
		b = p.Append(b)
		at += int64(len(data))
		seqno++
	}
	for at < end {
		send(data[at:min(at+int64(n.o.Packet), end)], false)
	}
	send(nil, true)
	return b
}

func (p *Packet) flip(at int64, where []int64) {
	for _, off := range where {
		if i := off - at; i >= 0 && i < int64(len(p.Data)) {
			p.Data = bytes.Clone(p.Data)
			p.Data[i] ^= 0xff
		}
	}
}

func (n *Node) sums(data []byte) (sums []byte) {
	if n.o.Null {
		return nil
	}
	for ; len(data) > 0; data = data[min(n.o.Chunk, len(data)):] {
		sums = binary.BigEndian.AppendUint32(sums, crc32.Checksum(data[:min(n.o.Chunk, len(data))], n.table()))
	}
	return sums
}

func (n *Node) table() *crc32.Table {
	if n.o.Type == hproto.Checksum_CRC32 {
		return crc32.IEEETable
	}
	return crc32.MakeTable(crc32.Castagnoli)
}

// send sends an answer with the faults of its transport.
func (n *Node) send(c net.Conn, b []byte, f Fault) error {
	stop := len(b)
	if f.Cut > 0 {
		stop = min(stop, f.Cut)
	}
	if f.Stall > 0 {
		stop = min(stop, f.Stall)
	}
	if err := n.write(c, b[:stop], f); err != nil {
		return err
	}
	switch {
	case f.Stall > 0:
		n.hold(c)
		return errEnd
	case f.Cut > 0 && f.Reset:
		return errors.Join(c.(*net.TCPConn).SetLinger(0), errEnd)
	case f.Cut > 0:
		return errEnd
	}
	return nil
}

// hold waits for the end of the connection.
func (n *Node) hold(c net.Conn) {
	var b [64]byte
	for {
		if _, err := c.Read(b[:]); err != nil {
			return
		}
	}
}

func (n *Node) write(c net.Conn, b []byte, f Fault) error {
	at := len(b)
	if f.Write > 0 {
		at = f.Write
	}
	var tick <-chan time.Time
	if f.Rate > 0 {
		const beats = 100 // a second
		at = max(1, f.Rate/beats)
		t := time.NewTicker(time.Second / beats)
		defer t.Stop()
		tick = t.C
	}
	for len(b) > 0 {
		if _, err := c.Write(b[:min(at, len(b))]); err != nil {
			return err
		}
		b = b[min(at, len(b)):]
		if tick != nil {
			select {
			case <-tick:
			case <-n.end:
				return errEnd
			}
		}
	}
	return nil
}
