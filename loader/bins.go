package loader

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/stepahead-io/stepahead/store"
)

// maxOpenBins bounds the data files open at once, whatever the number of bins.
const maxOpenBins = 64

// bins keeps the files of bins open, at most max of them; the longest unused is closed first. Safe for
// concurrent use.
type bins struct {
	open func(ctx context.Context, bin int) (store.File, error)
	max  int

	mu      sync.Mutex
	handles map[int]*handle
	idle    *list.List    // of *handle, the longest unused first
	room    chan struct{} // closed and replaced when a handle becomes idle or goes
}

// handle is the file of a bin, open or being opened.
type handle struct {
	store.File
	bin   int
	err   error
	ready chan struct{} // closed when File or err is set
	users int
	at    *list.Element // in idle, when there are no users
}

func newBins(limit int, open func(context.Context, int) (store.File, error)) *bins {
	return &bins{open: open, max: limit, handles: map[int]*handle{}, idle: list.New(), room: make(chan struct{})}
}

// acquire returns the open file of a bin, to be given back with release.
func (b *bins) acquire(ctx context.Context, bin int) (*handle, error) {
	for {
		h, first, room := b.claim(bin)
		switch {
		case h == nil:
			select {
			case <-room:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			continue
		case first:
			h.File, h.err = b.open(ctx, bin)
			close(h.ready)
		}
		select {
		case <-h.ready:
		case <-ctx.Done():
			b.release(h)
			return nil, ctx.Err()
		}
		if h.err == nil {
			return h, nil
		}
		err := h.err
		b.release(h)
		// Another's opening that was cancelled says nothing about ours.
		if !first && ctx.Err() == nil && errors.Is(err, context.Canceled) {
			continue
		}
		return nil, err
	}
}

// claim adds a user to the handle of a bin and tells whether it must be opened first. A nil handle
// means that there is no room before the channel is closed.
func (b *bins) claim(bin int) (h *handle, first bool, room <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h = b.handles[bin]; h != nil {
		if h.at != nil {
			b.idle.Remove(h.at)
			h.at = nil
		}
		h.users++
		return h, false, nil
	}
	if len(b.handles) >= b.max && !b.evict() {
		return nil, false, b.room
	}
	h = &handle{bin: bin, ready: make(chan struct{}), users: 1}
	b.handles[bin] = h
	return h, true, nil
}

// evict closes the longest unused file; false if all are in use.
func (b *bins) evict() bool {
	front := b.idle.Front()
	if front == nil {
		return false
	}
	h := b.idle.Remove(front).(*handle)
	delete(b.handles, h.bin)
	h.File.Close() // it was only read: nothing can be lost
	return true
}

// release gives a handle back. A failed one is forgotten with its last user.
func (b *bins) release(h *handle) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h.users--
	if h.users > 0 {
		return
	}
	if h.err != nil {
		delete(b.handles, h.bin)
	} else {
		h.at = b.idle.PushBack(h)
	}
	close(b.room)
	b.room = make(chan struct{})
}

// close closes every file. Nothing may be in use.
func (b *bins) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, h := range b.handles {
		errs = append(errs, h.File.Close())
	}
	b.handles = map[int]*handle{}
	b.idle.Init()
	return errors.Join(errs...)
}
