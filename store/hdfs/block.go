package hdfs

import (
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// service is whether a DataNode is to be read from.
type service int

const (
	inService service = iota
	leaving           // being decommissioned or taken into maintenance: its disks are busy with copying
	left              // decommissioned, in maintenance, or silent
	serviceLevels
)

// node is a DataNode as the NameNode describes it. Nodes are shared and never change: one that comes back at another
// address, on another rack or with another state is another node.
type node struct {
	id       string // UUID
	host, ip string
	addr     string // host:port to read from
	port     uint32 // of addr
	infoPort uint32
	ipcPort  uint32
	rack     string
	service  service
}

// String names the node for people.
func (n *node) String() string { return fmt.Sprintf("node %s (%s, %s)", n.id, n.host, n.addr) }

// transfer is the node as package datanode calls it.
func (n *node) transfer() datanode.Node {
	return datanode.Node{UUID: n.id, Addr: n.addr, Host: n.host, XferPort: int(n.port)}
}

// describe is the node as the protocol names it.
func (n *node) describe() *hproto.DatanodeInfo {
	return &hproto.DatanodeInfo{Id: &hproto.DatanodeID{
		IpAddr: &n.ip, HostName: &n.host, DatanodeUuid: &n.id, XferPort: &n.port, InfoPort: &n.infoPort, IpcPort: &n.ipcPort,
	}}
}

// place is one replica of a block. Of a striped block group it is one unit.
type place struct {
	node    *node
	storage string        // DISK, SSD ...
	sid     string        // the storage's id
	unit    int           // striped only
	token   *hproto.Token // striped only: the unit's
}

// blockID names one version of a block.
type blockID struct {
	pool  string
	id    int64
	stamp uint64 // generation stamp: raised when the block is appended to or recovered
}

func (b blockID) String() string { return fmt.Sprintf("blk_%d_%d", b.id, b.stamp) }

// block is a block of a file, or a striped block group, as the NameNode described it at some time. It never changes.
type block struct {
	id       blockID
	off, len int64 // in the file
	open     bool  // it was being written: len is what all its replicas had then
	ext      *hproto.ExtendedBlock
	token    *hproto.Token
	places   []place // in the NameNode's order
}

func (b *block) end() int64 { return b.off + b.len }

// nodeTable makes one node of all descriptions that are equal.
type nodeTable struct {
	byHost bool // read from host names, not from IP addresses
	mu     sync.Mutex
	nodes  map[node]*node
}

// maxNodes bounds the table: descriptions change when nodes come, go and move.
const maxNodes = 1 << 16

func (t *nodeTable) of(d *hproto.DatanodeInfo, silent bool) *node {
	id := d.GetId()
	host := id.GetIpAddr()
	if t.byHost {
		host = id.GetHostName()
	}
	n := node{
		id: id.GetDatanodeUuid(), host: id.GetHostName(), ip: id.GetIpAddr(), port: id.GetXferPort(), infoPort: id.GetInfoPort(), ipcPort: id.GetIpcPort(),
		addr: net.JoinHostPort(host, strconv.FormatUint(uint64(id.GetXferPort()), 10)), rack: d.GetLocation(), service: serviceOf(d, silent),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.nodes[n]; known != nil {
		return known
	}
	if t.nodes == nil || len(t.nodes) >= maxNodes {
		t.nodes = map[node]*node{}
	}
	t.nodes[n] = &n
	return &n
}

func serviceOf(d *hproto.DatanodeInfo, silent bool) service {
	switch d.GetAdminState() {
	case hproto.DatanodeInfo_DECOMMISSIONED, hproto.DatanodeInfo_IN_MAINTENANCE:
		return left
	case hproto.DatanodeInfo_DECOMMISSION_INPROGRESS, hproto.DatanodeInfo_ENTERING_MAINTENANCE:
		return leaving
	}
	if silent {
		return left
	}
	return inService
}

// silentAfter is how much longer than the last of a block's nodes another must have been silent to be read last, in
// milliseconds. HDFS's own rule for a stale node has the same length.
const silentAfter = 30_000

// blockOf converts what the NameNode says of a block.
func (t *nodeTable) blockOf(l *hproto.LocatedBlock) *block {
	e := l.GetB()
	b := &block{
		id:  blockID{pool: e.GetPoolId(), id: int64(e.GetBlockId()), stamp: e.GetGenerationStamp()},
		ext: e, off: int64(l.GetOffset()), len: int64(e.GetNumBytes()), places: make([]place, 0, len(l.GetLocs())),
	}
	if tok := l.GetBlockToken(); len(tok.GetIdentifier()) > 0 {
		b.token = tok
	}
	var last uint64 // the NameNode's clock, whichever node
	for _, d := range l.GetLocs() {
		last = max(last, d.GetLastUpdate())
	}
	for i, d := range l.GetLocs() {
		p := place{node: t.of(d, d.GetLastUpdate()+silentAfter < last), storage: at(storageNames(l), i), sid: at(l.GetStorageIds(), i)}
		if cells := l.GetBlockIndices(); i < len(cells) {
			p.unit, p.token = int(cells[i]), at(l.GetBlockTokens(), i)
		}
		b.places = append(b.places, p)
	}
	return b
}

func storageNames(l *hproto.LocatedBlock) []string {
	names := make([]string, len(l.GetStorageTypes()))
	for i, t := range l.GetStorageTypes() {
		if name, ok := hproto.StorageType_name[int32(t)]; ok && t != 0 {
			names[i] = name
		}
	}
	return names
}

// at is s[i], or nothing: the lists beside a block's locations may be shorter than these.
func at[E any](s []E, i int) (e E) {
	if i < len(s) {
		return s[i]
	}
	return e
}
