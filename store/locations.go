package store

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"time"
)

const (
	// locationsFor is how long locations are believed: replicas move rarely, and a wrong one costs a
	// detour, never a byte.
	locationsFor = 10 * time.Minute
	// locationsRetry is how long after a failure the locations of a file are asked for again.
	locationsRetry = 5 * time.Second
	// maxLocations bounds the files whose locations are remembered: more than the bins of a large dataset, which
	// are read in a random order, so that any bound below their number would ask for most of them all the time.
	maxLocations = 16384
)

// Block is a stretch of a file and the nodes that hold it, the nearest first.
type Block struct {
	Off, End int64
	Nodes    []string
}

// Blocks are the blocks of a file, or of a range of it, in the order of their offsets.
type Blocks []Block

// BlocksOf groups the rows that Locate returned by block.
func BlocksOf(rows []Replica) Blocks {
	var blocks Blocks
	for _, r := range rows {
		if n := len(blocks); n > 0 && blocks[n-1].Off == r.Off {
			blocks[n-1].Nodes = append(blocks[n-1].Nodes, r.Node)
			continue
		}
		blocks = append(blocks, Block{Off: r.Off, End: r.Off + r.Len, Nodes: []string{r.Node}})
	}
	return blocks
}

// Holders returns the nodes that hold the byte at off, nil if that is not known. It must not be changed.
func (b Blocks) Holders(off int64) []string {
	i := sort.Search(len(b), func(i int) bool { return b[i].End > off })
	if i == len(b) || b[i].Off > off {
		return nil
	}
	return b[i].Nodes
}

// On tells whether a node holds any of the blocks.
func (b Blocks) On(node string) bool {
	return slices.ContainsFunc(b, func(x Block) bool { return slices.Contains(x.Nodes, node) })
}

// Locations remembers where the files of a numbered set lie, for a while. It is safe for concurrent use.
type Locations struct {
	locate func(ctx context.Context, n int) ([]Replica, error)
	now    func() time.Duration

	mu    sync.Mutex
	files map[int]located
}

// located are the blocks of a file, and until when they are believed.
type located struct {
	blocks Blocks
	until  time.Duration
}

// NewLocations returns a set whose file n is located, as a whole, by locate. now is a monotonic clock.
func NewLocations(now func() time.Duration, locate func(ctx context.Context, n int) ([]Replica, error)) *Locations {
	return &Locations{locate: locate, now: now, files: map[int]located{}}
}

// Of returns the blocks of file n, which must not be changed; none while they are not known. An error is
// returned once: after it, the file has no known blocks for 5 s, so that a store in trouble is not asked
// for every sample.
func (l *Locations) Of(ctx context.Context, n int) (Blocks, error) {
	l.mu.Lock()
	known, ok := l.files[n]
	l.mu.Unlock()
	if ok && l.now() < known.until {
		return known.blocks, nil
	}
	rows, err := l.locate(ctx, n)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil, err // the caller gave up, which says nothing about the store
	}
	found := located{blocks: BlocksOf(rows), until: l.now() + locationsFor}
	if err != nil {
		found = located{until: l.now() + locationsRetry}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.files) >= maxLocations {
		clear(l.files)
	}
	l.files[n] = found
	return found.blocks, err
}
