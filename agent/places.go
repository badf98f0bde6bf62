package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/stepahead-io/stepahead/store"
)

// places knows which nodes hold the blocks of each bin. A bin is located once, when first asked for.
type places struct {
	locate func(ctx context.Context, bin int) ([]store.Replica, error)

	mu   sync.Mutex
	bins map[int]rows
}

// rows are the replicas of one file, sorted by offset, nearest first.
type rows []store.Replica

// of returns the replicas of a bin. Two callers at once may both locate it; a failure is not kept.
func (p *places) of(ctx context.Context, bin int) (rows, error) {
	p.mu.Lock()
	known, ok := p.bins[bin]
	p.mu.Unlock()
	if ok {
		return known, nil
	}
	found, err := p.locate(ctx, bin)
	if err != nil {
		return nil, fmt.Errorf("agent: locate bin %d: %w", bin, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bins == nil {
		p.bins = make(map[int]rows)
	}
	p.bins[bin] = found
	return found, nil
}

// has tells whether the node holds any block.
func (r rows) has(node string) bool {
	return slices.ContainsFunc(r, func(x store.Replica) bool { return x.Node == node })
}

// holders returns the nodes that hold the byte at off.
func (r rows) holders(off int64) []string {
	end, _ := slices.BinarySearchFunc(r, off, func(x store.Replica, off int64) int {
		if x.Off <= off {
			return -1
		}
		return 1
	})
	var nodes []string
	for i := end - 1; i >= 0 && off < r[i].Off+r[i].Len; i-- {
		nodes = append(nodes, r[i].Node)
	}
	slices.Reverse(nodes)
	return nodes
}
