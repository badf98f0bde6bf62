package hdfs

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// lakeBlock is a block as the NameNode knows it.
type lakeBlock struct {
	id, stamp uint64
	length    int // -1: it is open
	nodes     []int
}

func (e *inode) length() (n uint64) {
	for _, b := range e.blocks {
		n += uint64(max(b.length, 0))
	}
	return n
}

// held returns a file that somebody writes.
func (c *lake) held(name, holder string) (*inode, error) {
	e := c.entries[name]
	switch {
	case e == nil:
		return nil, missing(name)
	case e.holder != holder:
		return nil, &namenode.RemoteError{Class: "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException"}
	}
	return e, nil
}

// commit takes what a client says of a file's last block.
func (e *inode) commit(last *hproto.ExtendedBlock) error {
	if len(e.blocks) == 0 {
		if last != nil {
			return said("java.io.IOException", "there is no block")
		}
		return nil
	}
	b := e.blocks[len(e.blocks)-1]
	if last.GetBlockId() != b.id || last.GetGenerationStamp() != b.stamp {
		return said("java.io.IOException", fmt.Sprintf("the last block is %d under %d, not %v", b.id, b.stamp, last))
	}
	b.length = int(last.GetNumBytes())
	return nil
}

// reported tells whether a DataNode has closed the block.
func (c *lake) reported(b *lakeBlock) bool {
	if c.late > 0 {
		c.late--
		return false
	}
	return slices.ContainsFunc(b.nodes, func(i int) bool {
		r := c.nodes[i].Replica(b.id)
		return r != nil && r.Final && r.Stamp == b.stamp && len(r.Data) == b.length
	})
}

func (c *lake) Complete(_ context.Context, r *hproto.CompleteRequest) (bool, error) {
	done, err := c.begin("complete", r.GetSrc())
	if err != nil {
		return false, err
	}
	defer done()
	e, err := c.held(r.GetSrc(), r.GetClientName())
	if err == nil {
		err = e.commit(r.GetLast())
	}
	if err != nil {
		return false, err
	}
	for _, b := range e.blocks {
		if !c.reported(b) {
			return false, nil
		}
	}
	e.holder = ""
	return true, nil
}

func (c *lake) AddBlock(_ context.Context, r *hproto.AddBlockRequest) (*hproto.LocatedBlock, error) {
	done, err := c.begin("addBlock", r.GetSrc())
	if err != nil {
		return nil, err
	}
	defer done()
	e, err := c.held(r.GetSrc(), r.GetClientName())
	if err == nil {
		err = e.commit(r.GetPrevious())
	}
	if err != nil {
		return nil, err
	}
	if n := len(e.blocks); n > 1 && !c.reported(e.blocks[n-2]) {
		return nil, exception("hdfs.server.namenode.NotReplicatedYetException")
	}
	b := &lakeBlock{id: c.ids + 1, stamp: c.ids + 2, length: -1}
	c.ids += 2
	replicas := c.replicas
	if e.factor > 0 {
		replicas = min(replicas, e.factor)
	}
	for k := range c.nodes {
		i := (int(b.id) + k) % len(c.nodes)
		shunned := slices.ContainsFunc(r.GetExcludeNodes(), func(d *hproto.DatanodeInfo) bool {
			return d.GetId().GetDatanodeUuid() == c.nodes[i].Addr()
		})
		if !shunned && len(b.nodes) < replicas && (c.perRack == 0 || c.onRack(b, i%2) < c.perRack) {
			b.nodes = append(b.nodes, i)
		}
	}
	if len(b.nodes) == 0 {
		return nil, said("java.io.IOException", noNodes)
	}
	e.blocks = append(e.blocks, b)
	return c.located(b), nil
}

// onRack is how many replicas of a block are on a rack.
func (c *lake) onRack(b *lakeBlock, rack int) (n int) {
	for _, i := range b.nodes {
		if i%2 == rack {
			n++
		}
	}
	return n
}

const noNodes = "File /f could only be written to 0 of the 1 minReplication nodes. There are 5 datanode(s) running and 5 node(s) are excluded in this operation."

func (b *lakeBlock) proto() *hproto.ExtendedBlock {
	return &hproto.ExtendedBlock{PoolId: proto.String("BP-1"), BlockId: &b.id, GenerationStamp: &b.stamp}
}

func (c *lake) located(b *lakeBlock) *hproto.LocatedBlock {
	l := &hproto.LocatedBlock{B: proto.CloneOf(b.proto())}
	for _, i := range b.nodes {
		l.Locs = append(l.Locs, c.nodes[i].Info())
		l.StorageTypes, l.StorageIds = append(l.StorageTypes, 1), append(l.StorageIds, fmt.Sprint("DS-", i))
	}
	return l
}

func (c *lake) AbandonBlock(_ context.Context, r *hproto.AbandonBlockRequest) error {
	done, err := c.begin("abandonBlock", r.GetSrc())
	if err != nil {
		return err
	}
	defer done()
	e, err := c.held(r.GetSrc(), r.GetHolder())
	if err != nil {
		return err
	}
	last := len(e.blocks) - 1
	if last < 0 || e.blocks[last].id != r.GetB().GetBlockId() || e.blocks[last].length >= 0 {
		return said("java.io.IOException", "that is not the last block, or it is closed")
	}
	e.blocks = e.blocks[:last]
	return nil
}

// open returns a block that somebody writes.
func (c *lake) open(id uint64, holder string) *lakeBlock {
	for _, e := range c.entries {
		if n := len(e.blocks); e.holder == holder && n > 0 && e.blocks[n-1].id == id {
			return e.blocks[n-1]
		}
	}
	return nil
}

func (c *lake) UpdateBlockForPipeline(_ context.Context, block *hproto.ExtendedBlock, holder string) (*hproto.LocatedBlock, error) {
	done, err := c.begin("updateBlockForPipeline", "")
	if err != nil {
		return nil, err
	}
	defer done()
	if c.open(block.GetBlockId(), holder) == nil {
		return nil, missing("block")
	}
	c.ids++
	return &hproto.LocatedBlock{B: &hproto.ExtendedBlock{PoolId: block.PoolId, BlockId: block.BlockId, GenerationStamp: proto.Uint64(c.ids)}}, nil
}

func (c *lake) UpdatePipeline(_ context.Context, r *hproto.UpdatePipelineRequest) error {
	done, err := c.begin("updatePipeline", "")
	if err != nil {
		return err
	}
	defer done()
	b := c.open(r.GetNewBlock().GetBlockId(), r.GetClientName())
	if b == nil || b.stamp != r.GetOldBlock().GetGenerationStamp() || r.GetNewBlock().GetGenerationStamp() <= b.stamp || len(r.GetNewNodes()) == 0 || len(r.GetStorageIds()) != len(r.GetNewNodes()) {
		return said("java.io.IOException", fmt.Sprintf("not the block that is written: %v", r))
	}
	b.stamp, b.nodes = r.GetNewBlock().GetGenerationStamp(), nil
	for _, d := range r.GetNewNodes() {
		b.nodes = append(b.nodes, slices.IndexFunc(c.nodes, func(n *fakedn.Node) bool { return n.Addr() == d.GetDatanodeUuid() }))
	}
	return nil
}

// content is what a closed file holds: every replica that counts has the same bytes.
func (c *lake) content(name string) ([]byte, error) {
	e := c.entries[name]
	if e == nil || e.holder != "" {
		return nil, fmt.Errorf("%s is not there, or open", name)
	}
	all := []byte{}
	for _, b := range e.blocks {
		var data []byte
		for _, i := range b.nodes {
			r := c.nodes[i].Replica(b.id)
			if r == nil || !r.Final || r.Stamp != b.stamp {
				continue
			}
			if len(r.Data) != b.length || data != nil && !bytes.Equal(data, r.Data) {
				return nil, fmt.Errorf("block %d at node %d has %d bytes of %d, or others", b.id, i, len(r.Data), b.length)
			}
			data = r.Data
		}
		all = append(all, data...)
	}
	return all, nil
}

func (c *lake) wantContent(t interface{ Fatalf(string, ...any) }, name string, want []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got, err := c.content(name); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s holds %d bytes, not the %d that were written: %v", name, len(got), len(want), err)
	}
}
