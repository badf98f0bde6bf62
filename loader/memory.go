package loader

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// fieldAlign is the alignment of every field inside a batch: a cache line, and what vector loads of
// the frameworks that read it ask for.
const fieldAlign = 64

// keptBytes bounds the free slabs kept for reuse where fewer bytes are in use: enough for the batches of small pictures.
const keptBytes = 64 << 20

// slabUnit rounds the size of slabs, so that batches of nearly equal size share them.
const slabUnit = 64 << 10

// slab is one anonymous mapping. Its memory never moves and is not known to the garbage collector,
// so that its address may be given away.
type slab struct {
	mem []byte
}

// slabs hands out mappings and takes them back. A slab belongs to one user from get until put.
// Safe for concurrent use.
type slabs struct {
	mu     sync.Mutex
	keep   int // most free slabs kept for reuse
	free   []*slab
	live   int   // slabs handed out
	bytes  int64 // mapped bytes, free ones included
	closed bool
}

// get returns a slab of at least size bytes with undefined content.
func (p *slabs) get(size int64) (*slab, error) {
	size = max(alignUp(size, slabUnit), slabUnit)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range slices.Backward(p.free) { // the last used is the warmest
		if n := int64(len(s.mem)); n >= size && n <= 2*size {
			p.free = slices.Delete(p.free, i, i+1)
			p.live++
			return s, nil
		}
	}
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("loader: cannot map %d bytes for a batch: %w: lower the batch size or prefetch", size, err)
	}
	p.live++
	p.bytes += int64(len(mem))
	return &slab{mem: mem}, nil
}

// put takes a slab back. Once the pool is closed it is unmapped at once.
func (p *slabs) put(s *slab) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live--
	if p.closed {
		p.unmap(s)
		return
	}
	p.free = append(p.free, s)
	for p.tooMany() {
		s, p.free = p.free[0], p.free[1:] // the oldest: sizes in use now are at the end
		p.unmap(s)
	}
}

// tooMany tells whether more slabs are free than are kept: more of them, or more bytes than are in use.
func (p *slabs) tooMany() bool {
	var free int64
	for _, s := range p.free {
		free += int64(len(s.mem))
	}
	return len(p.free) > p.keep || free > max(p.bytes-free, keptBytes)
}

// close unmaps what is free; slabs still in use are unmapped as they come back.
func (p *slabs) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.free {
		p.unmap(s)
	}
	p.free = nil
}

// usage returns the number of slabs in use and the bytes mapped.
func (p *slabs) usage() (live int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live, p.bytes
}

func (p *slabs) unmap(s *slab) {
	p.bytes -= int64(len(s.mem))
	if err := unix.Munmap(s.mem); err != nil {
		panic(fmt.Sprintf("loader: unmap a batch: %v", err)) // only a wrong address can fail
	}
	s.mem = nil
}

func alignUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
