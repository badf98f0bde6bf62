package hdfs

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxKnownBlocks bounds the blocks whose locations are remembered: about 400 bytes each with three replicas.
	maxKnownBlocks = 1 << 17
	// maxKnownFiles bounds the files.
	maxKnownFiles = 1 << 15
	// locationsFor is how long after their first look locations serve who opens the file anew: replicas move, and hot
	// files get more of them.
	locationsFor = 10 * time.Minute
	// prefetchedFor is how long what Prefetch learned stands for asking the NameNode.
	prefetchedFor = 5 * time.Minute
)

// layouts remembers where files lie, those read last, so that a version that is opened again costs no question about its
// blocks. It is safe for concurrent use.
type layouts struct {
	mu     sync.Mutex
	byPath map[string]*list.Element // of entry
	recent *list.List               // the longest unused first
	blocks int
}

type entry struct {
	layout *layout
	blocks int       // as counted in layouts.blocks
	until  time.Time // when the version must be looked at again; zero: at each open
}

// get returns what is known of a path.
func (k *layouts) get(path string) (l *layout, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.byPath[path]
	if e == nil {
		return nil, time.Time{}
	}
	k.recent.MoveToBack(e)
	return e.Value.(*entry).layout, e.Value.(*entry).until
}

// put remembers a layout in place of what was known of its path.
func (k *layouts) put(l *layout, until time.Time) {
	l.mu.Lock()
	blocks := len(l.blocks)
	l.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byPath == nil {
		k.byPath, k.recent = map[string]*list.Element{}, list.New()
	}
	k.remove(l.path)
	k.byPath[l.path] = k.recent.PushBack(&entry{layout: l, blocks: blocks, until: until})
	k.blocks += blocks
	k.shrink()
}

// grew counts a layout's blocks again.
func (k *layouts) grew(l *layout) {
	l.mu.Lock()
	blocks := len(l.blocks)
	l.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.byPath[l.path]
	if e == nil || e.Value.(*entry).layout != l {
		return
	}
	k.blocks += blocks - e.Value.(*entry).blocks
	e.Value.(*entry).blocks = blocks
	k.recent.MoveToBack(e)
	k.shrink()
}

// forget drops what is known of paths and of what lies below them, after they were changed.
func (k *layouts) forget(paths ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for known := range k.byPath {
		if slices.ContainsFunc(paths, func(p string) bool { return known == p || strings.HasPrefix(known, p+"/") }) {
			k.remove(known)
		}
	}
}

func (k *layouts) remove(path string) {
	if e := k.byPath[path]; e != nil {
		k.blocks -= e.Value.(*entry).blocks
		k.recent.Remove(e)
		delete(k.byPath, path)
	}
}

func (k *layouts) shrink() {
	for len(k.byPath) > 1 && (k.blocks > maxKnownBlocks || len(k.byPath) > maxKnownFiles) {
		k.remove(k.recent.Front().Value.(*entry).layout.path)
	}
}
