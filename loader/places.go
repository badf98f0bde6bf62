package loader

import (
	"context"
	"sort"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

const (
	// placesFor is how long locations are believed: replicas move rarely, and a wrong one costs a
	// fallback, never a byte.
	placesFor = 10 * time.Minute
	// placesRetry is how long after a failure the locations of a bin are asked for again.
	placesRetry = 5 * time.Second
	// maxPlaces bounds the bins whose locations are remembered.
	maxPlaces = 4096
)

// places knows which nodes hold the blocks of each bin. Safe for concurrent use.
type places struct {
	locate func(ctx context.Context, bin int) ([]store.Replica, error)
	now    func() time.Duration

	mu   sync.Mutex
	bins map[int]binPlaces
}

// binPlaces are the blocks of a bin, sorted by offset, and until when they are believed.
type binPlaces struct {
	blocks []blockPlaces
	until  time.Duration
}

type blockPlaces struct {
	off, end int64
	nodes    []string // nearest first
}

func newPlaces(now func() time.Duration, locate func(context.Context, int) ([]store.Replica, error)) *places {
	return &places{locate: locate, now: now, bins: map[int]binPlaces{}}
}

// nodes returns the nodes that hold byte off of a bin, nil when they are not known. The result must
// not be changed. An error is reported once per placesRetry.
func (p *places) nodes(ctx context.Context, bin int, off int64) ([]string, error) {
	p.mu.Lock()
	b, ok := p.bins[bin]
	p.mu.Unlock()
	var err error
	if !ok || p.now() >= b.until {
		b, err = p.ask(ctx, bin)
	}
	i := sort.Search(len(b.blocks), func(i int) bool { return b.blocks[i].end > off })
	if i == len(b.blocks) || b.blocks[i].off > off {
		return nil, err
	}
	return b.blocks[i].nodes, err
}

func (p *places) ask(ctx context.Context, bin int) (binPlaces, error) {
	rows, err := p.locate(ctx, bin)
	b := binPlaces{blocks: blocksOf(rows), until: p.now() + placesFor}
	if err != nil {
		b = binPlaces{until: p.now() + placesRetry}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.bins) >= maxPlaces {
		clear(p.bins)
	}
	p.bins[bin] = b
	return b, err
}

// blocksOf groups the rows of a file, which are sorted by offset, by block.
func blocksOf(rows []store.Replica) []blockPlaces {
	var blocks []blockPlaces
	for _, r := range rows {
		if n := len(blocks); n > 0 && blocks[n-1].off == r.Off {
			blocks[n-1].nodes = append(blocks[n-1].nodes, r.Node)
			continue
		}
		blocks = append(blocks, blockPlaces{off: r.Off, end: r.Off + r.Len, nodes: []string{r.Node}})
	}
	return blocks
}
