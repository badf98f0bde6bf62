package catalogue

import (
	"context"
	"io/fs"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/store"
)

// sharesAtOnce is how many replicas one read of a hot file reads at a time.
const sharesAtOnce = 8

// hot is a hot file: each block is read from the replica, of the original or a sibling, that is this reader's turn.
type hot struct {
	s        *Store
	row      Row
	name     string
	original store.File

	turn   chan struct{} // who holds it may use what follows
	closed bool
	known  *whereabouts // nil before the first read

	mu  sync.Mutex
	bad map[spot]bool // failed, and left alone
}

// whereabouts are where the bytes of a hot file are. They never change.
type whereabouts struct {
	plan  []stretch
	files []store.File // by spot.file; nil where it is not what the row says
}

func newHot(s *Store, row Row, name string, original store.File) *file {
	h := &hot{s: s, row: row, name: name, original: original, turn: make(chan struct{}, 1), bad: map[spot]bool{}}
	h.turn <- struct{}{}
	f := &file{File: original, s: s, row: row, url: s.Address(name), elsewhere: h}
	if siblings := row.Sources.Siblings; len(siblings) > 0 {
		f.sum = newSum(original.Size(), siblings[0].CRC32C)
	}
	return f
}

// read implements source. A replica that cannot be read alone costs a detour over the ordinary way, once.
func (h *hot) read(ctx context.Context, r []store.Range, fallback func(context.Context, []store.Range) error) error {
	where, err := h.learn(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(sharesAtOnce)
	for _, part := range divide(r, where.plan, h.s.o.Index) {
		group.Go(func() error {
			if h.readShare(ctx, where, part) {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fallback(ctx, part.ranges); err != nil {
				return &originalError{err, true}
			}
			return nil
		})
	}
	return group.Wait()
}

// readShare reads from one replica, and tells whether it could.
func (h *hot) readShare(ctx context.Context, where *whereabouts, part share) bool {
	h.mu.Lock()
	skip := part.node == "" || h.bad[part.spot]
	h.mu.Unlock()
	if skip {
		return false
	}
	f, ok := where.files[part.file].(store.ReplicaReader)
	if !ok {
		return false
	}
	limited, stop := patiently(ctx, part.ranges)
	defer stop()
	err := f.ReadReplica(limited, part.node, part.ranges)
	if err == nil {
		if part.file == 0 {
			h.s.count(&h.s.stats.EvenBytes, part.ranges)
		} else {
			h.s.count(&h.s.stats.SiblingBytes, part.ranges)
		}
		return true
	}
	if ctx.Err() == nil {
		h.mu.Lock()
		h.bad[part.spot] = true
		h.mu.Unlock()
		h.s.fell(h.row, ReasonNode, h.s.Address(h.name), err)
	}
	return false
}

// learn finds out, at the first read, where the replicas are.
func (h *hot) learn(ctx context.Context) (*whereabouts, error) {
	select {
	case <-h.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { h.turn <- struct{}{} }()
	if h.closed {
		return nil, fs.ErrClosed
	}
	if h.known != nil {
		return h.known, nil
	}
	limited, stop := patiently(ctx, nil)
	defer stop()
	rows, err := h.s.Store.Locate(limited, h.name, 0, h.original.Size())
	if err != nil {
		return nil, &originalError{err, false}
	}
	located, files := [][]store.Replica{rows}, []store.File{h.original}
	h.prefetch(limited)
	for _, b := range h.row.Sources.Siblings {
		f, rows := h.sibling(limited, b)
		located, files = append(located, rows), append(files, f)
	}
	where := &whereabouts{planSources(located), files}
	if err := ctx.Err(); err != nil {
		where.close()
		return nil, err
	}
	h.known = where
	return where, nil
}

// prefetch learns of all siblings at once. The row says which version they have to be, so that old knowledge does no harm.
func (h *hot) prefetch(ctx context.Context) {
	p, ok := h.s.Store.(store.Prefetcher)
	if !ok || len(h.row.Sources.Siblings) < 2 {
		return
	}
	var names []string
	for _, b := range h.row.Sources.Siblings {
		names = append(names, b.Name)
	}
	_ = p.Prefetch(ctx, names) // opening one says what is wrong
}

// sibling opens one and says where it lies; nothing where it is not what the row says.
func (h *hot) sibling(ctx context.Context, b Sibling) (store.File, []store.Replica) {
	f, err := h.s.Store.Open(ctx, b.Name)
	if err == nil && (f.Identity() != b.Identity || f.Size() != h.original.Size()) {
		err = &store.IdentityError{Name: h.s.Address(b.Name), Pinned: b.Identity, Now: f.Identity()}
	}
	var rows []store.Replica
	if err == nil {
		rows, err = h.s.Store.Locate(ctx, b.Name, 0, f.Size())
	}
	if err == nil {
		return f, rows
	}
	if f != nil {
		f.Close()
	}
	reason := reasonOf(err)
	h.s.fell(h.row, reason, h.s.Address(b.Name), err)
	if reason != ReasonRead {
		h.s.damaged(ctx, h.s.Store, h.row, h.s.Address(b.Name), err)
	}
	return nil, nil
}

// close closes the siblings.
func (w *whereabouts) close() {
	for _, f := range w.files[1:] {
		if f != nil {
			f.Close()
		}
	}
}

func (h *hot) place() (store.Store, string) {
	if b := h.row.Sources.Siblings; len(b) > 0 {
		return h.s.Store, h.s.Address(b[0].Name)
	}
	return h.s.Store, h.s.Address(h.name)
}

func (h *hot) bridges() int64 { return store.BridgesOf(h.original) }

func (h *hot) close() error {
	<-h.turn
	defer func() { h.turn <- struct{}{} }()
	h.closed = true
	if h.known != nil {
		h.known.close()
	}
	return nil
}
