// Package fakedn knows how to be a DataNode in tests: it serves blocks from memory over the data transfer protocol, byte
// for byte as Hadoop's does, takes part in pipelines that write blocks, and does wrong what a test asks it to.
package fakedn

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Options configure a Node. The zero value serves as Hadoop does by default.
type Options struct {
	// Type and Chunk say how blocks are protected. Default CRC32C over 512 bytes.
	Type  hproto.Checksum_Type
	Chunk int
	// Null serves without checksums; Type is then of no matter.
	Null bool
	// Packet is how much data a packet holds, rounded up to whole chunks. Default 64 KiB.
	Packet int
	// Script is asked what to do with each request. Nil, and the zero Fault: what is right. It may be called by several
	// goroutines at once.
	Script func(Request) Fault
}

// Request is what a client asked.
type Request struct {
	// Conn numbers the connections from 0 on, and Nth the requests of one connection.
	Conn, Nth int
	// Op is 80 for a write and 81 for a read.
	Op       byte
	Block    *hproto.ExtendedBlock
	Token    *hproto.Token
	Off, Len int64
	Client   string
	// Write is the whole request of a write.
	Write *hproto.OpWriteBlock
}

// Node is a DataNode. It is safe for concurrent use.
type Node struct {
	o   Options
	lis net.Listener
	wg  sync.WaitGroup
	end chan struct{} // closed by Close: nobody waits any longer

	mu       sync.Mutex
	blocks   map[uint64][]byte
	replicas map[uint64]*Replica
	conns    map[net.Conn]struct{}
	accepted int
	requests []Request
	statuses []hproto.BlockOpResponse_Status
}

// Start starts a Node on a port of the loopback interface. Close ends it.
func Start(o Options) (*Node, error) {
	if o.Chunk == 0 {
		o.Chunk = 512
	}
	if o.Type == hproto.Checksum_NULL {
		o.Type = hproto.Checksum_CRC32C
	}
	if o.Null {
		o.Type = hproto.Checksum_NULL
	}
	if o.Packet == 0 {
		o.Packet = 64 << 10
	}
	o.Packet = (o.Packet + o.Chunk - 1) / o.Chunk * o.Chunk
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fakedn: %w", err)
	}
	n := &Node{o: o, lis: lis, end: make(chan struct{}), blocks: map[uint64][]byte{}, replicas: map[uint64]*Replica{}, conns: map[net.Conn]struct{}{}}
	n.wg.Go(n.accept)
	return n, nil
}

// Addr is where the node listens.
func (n *Node) Addr() string { return n.lis.Addr().String() }

// Info is the node as a NameNode describes it. Its UUID is its address.
func (n *Node) Info() *hproto.DatanodeInfo {
	a := n.lis.Addr().(*net.TCPAddr)
	return &hproto.DatanodeInfo{Id: &hproto.DatanodeID{
		IpAddr: proto.String(a.IP.String()), HostName: proto.String("localhost"), DatanodeUuid: proto.String(a.String()),
		XferPort: proto.Uint32(uint32(a.Port)), InfoPort: new(uint32), IpcPort: new(uint32),
	}}
}

// Put gives the node a replica. The node does not change data, nor may the caller.
func (n *Node) Put(id uint64, data []byte) *hproto.ExtendedBlock {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocks[id] = data
	return &hproto.ExtendedBlock{
		PoolId: proto.String("BP-1"), BlockId: proto.Uint64(id), GenerationStamp: proto.Uint64(1001), NumBytes: proto.Uint64(uint64(len(data))),
	}
}

// Requests returns what was asked so far.
func (n *Node) Requests() []Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Request(nil), n.requests...)
}

// Statuses returns how clients said that they received what they had asked for.
func (n *Node) Statuses() []hproto.BlockOpResponse_Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]hproto.BlockOpResponse_Status(nil), n.statuses...)
}

// Conns returns how many connections there were, and how many there are.
func (n *Node) Conns() (accepted, open int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.accepted, len(n.conns)
}

// Drop closes the connections that there are, as a DataNode does with idle ones.
func (n *Node) Drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		c.Close()
	}
}

// Close ends the node and waits for its goroutines.
func (n *Node) Close() {
	close(n.end)
	n.lis.Close()
	n.Drop()
	n.wg.Wait()
}

func (n *Node) accept() {
	for {
		c, err := n.lis.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		number := n.accepted
		n.accepted++
		n.conns[c] = struct{}{}
		n.mu.Unlock()
		select {
		case <-n.end: // after Drop: it would not be closed
			c.Close()
		default:
		}
		n.wg.Go(func() { n.serve(c, number) })
	}
}

func (n *Node) serve(c net.Conn, number int) {
	defer n.forget(c)
	in := bufio.NewReader(c)
	for nth := 0; ; nth++ {
		r, err := readRequest(in)
		if err != nil {
			return
		}
		r.Conn, r.Nth = number, nth
		var f Fault
		if n.o.Script != nil {
			f = n.o.Script(r)
		}
		n.mu.Lock()
		n.requests = append(n.requests, r)
		data, ok := n.blocks[r.Block.GetBlockId()]
		n.mu.Unlock()
		if r.Op == opWrite {
			n.receive(c, in, r.Write, f)
			return
		}
		if err := n.answer(c, r, data, ok, f); err != nil {
			return
		}
		if err := n.farewell(in); err != nil {
			return
		}
	}
}

func (n *Node) forget(c net.Conn) {
	c.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// The operations that the node knows, and the version it speaks.
const (
	opWrite = 80
	opRead  = 81
	version = 28
)

var errVersion = errors.New("fakedn: not version 28 of the protocol")

func readRequest(in *bufio.Reader) (r Request, err error) {
	var head [3]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return r, err
	}
	if binary.BigEndian.Uint16(head[:]) != version {
		return r, errVersion
	}
	r.Op = head[2]
	switch r.Op {
	case opWrite:
		r.Write = new(hproto.OpWriteBlock)
		if err := readDelimited(in, r.Write); err != nil {
			return r, err
		}
		base := r.Write.GetHeader().GetBaseHeader()
		r.Block, r.Token, r.Client = base.GetBlock(), base.GetToken(), r.Write.GetHeader().GetClientName()
	case opRead:
		var m hproto.OpReadBlock
		if err := readDelimited(in, &m); err != nil {
			return r, err
		}
		base := m.GetHeader().GetBaseHeader()
		r.Block, r.Token, r.Client = base.GetBlock(), base.GetToken(), m.GetHeader().GetClientName()
		r.Off, r.Len = int64(m.GetOffset()), int64(m.GetLen())
	default:
		return r, fmt.Errorf("fakedn: operation %d", r.Op)
	}
	return r, nil
}

func readDelimited(in *bufio.Reader, m proto.Message) error {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return err
	}
	b := make([]byte, min(size, 1<<20))
	if _, err := io.ReadFull(in, b); err != nil {
		return err
	}
	return proto.Unmarshal(b, m)
}

func (n *Node) farewell(in *bufio.Reader) error {
	var m hproto.ClientReadStatus
	if err := readDelimited(in, &m); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.statuses = append(n.statuses, m.GetStatus())
	return nil
}

func delimited(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // only required fields that we forgot
	}
	return append(protowire.AppendVarint(nil, uint64(len(b))), b...)
}
