// Package datanode knows how to read the replica of a block from one HDFS DataNode: verified bytes, at exactly the
// offsets asked for, in the caller's memory, over connections that are used again. And how to write a block through a
// pipeline of DataNodes.
package datanode

import (
	"fmt"
	"net"
	"strconv"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Node is where a DataNode listens for data transfers.
type Node struct {
	// UUID is the DataNode's own; it only names the node in errors.
	UUID string
	// Addr is the host:port to dial: by IP address or by host name, as the caller chose.
	Addr string
	// Host is the DataNode's name for people.
	Host string
	// XferPort below 1024 proves a privileged process: a general handshake is then left out, as Hadoop does.
	// 0 takes the port of Addr.
	XferPort int
}

// String names the node for people.
func (n Node) String() string {
	if n.Host == "" {
		return n.Addr
	}
	return n.Host + " (" + n.Addr + ")"
}

// privileged tells whether only root could have opened the node's port.
func (n Node) privileged() bool {
	port := n.XferPort
	if port == 0 {
		if _, text, err := net.SplitHostPort(n.Addr); err == nil {
			port, _ = strconv.Atoi(text)
		}
	}
	return port > 0 && port < 1024
}

// Block is the replica to read or write, and what proves that we may.
type Block struct {
	*hproto.ExtendedBlock
	// Token is the block's token; nil sends an empty one, which a cluster without tokens accepts.
	Token *hproto.Token
	// AcceptUnverified lets Read take bytes from a DataNode that has no checksums for this replica. Set it only where the
	// bytes are checked by other means: they may be wrong. Otherwise such a replica is ErrUnverified.
	AcceptUnverified bool
}

// Name is how logs and errors call a block, as Hadoop does.
func (b Block) Name() string {
	return fmt.Sprintf("%s:blk_%d_%d", b.GetPoolId(), int64(b.GetBlockId()), b.GetGenerationStamp())
}

// Part asks for the bytes [Off, Off+len(Buf)) of a block.
type Part struct {
	Off int64
	Buf []byte
}
