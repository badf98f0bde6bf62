package copies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

const (
	// Pauses before a store is asked again that did not answer.
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second
	// rewrites is how often a file is written anew that is read back as something else.
	rewrites = 3
)

// send sends what is missing until nothing is. What the site failed to take is sent again, in a later round.
func (m *making) send(ctx context.Context) (err error) {
	defer func() { err = m.end(ctx, err) }()
	if err := m.reuse(ctx); err != nil {
		return err
	}
	m.alive()
	wrong, before, pause, since := 0, len(m.have)+1, firstPause, m.answers
	for {
		missing := missing(m.have)
		if len(missing) == 0 {
			return nil
		}
		if len(missing) < before {
			before, pause, since = len(missing), firstPause, m.mk.o.Clock.Now()
		}
		failed, err := m.round(ctx, missing, nil)
		if err != nil {
			return err
		}
		if failed == nil {
			continue
		}
		if store.ClassOf(failed) == store.Corrupt {
			wrong++
		}
		if wrong >= rewrites || m.mk.o.Clock.Now()-since > m.mk.o.Patience {
			return failed
		}
		if err := m.wait(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, longestPause)
	}
}

// end writes down what is whole, also when the making is cut off.
func (m *making) end(ctx context.Context, err error) error {
	if err != nil && isFence(err) {
		return err
	}
	const most = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	if written := m.write(ctx); err == nil {
		return written
	}
	return err
}

// round sends files, many transfers at a time, or copies them within the site from their twins. failed is an error after which the rest of the files was sent, and may be gone by the next round.
func (m *making) round(ctx context.Context, missing []int, twins map[int]twin) (failed, err error) {
	r := &round{making: m, twins: twins, gate: m.gate, from: m.home, all: m.mk.sizes.tasks(m.src.Files, missing, blockOf(m.site)), large: map[int]*large{}, verifying: make(chan struct{}, readBacks)}
	if twins != nil {
		r.from, r.gate = m.site, newGate(m.mk.o.Clock, nil)
	}
	for _, t := range r.all {
		if !t.piece {
			r.small = append(r.small, t.files...)
		} else {
			l := r.large[t.files[0]]
			if l == nil {
				l = &large{i: t.files[0]}
				r.large[t.files[0]] = l
			}
			l.left++
			l.crcs = append(l.crcs, 0)
			l.piece = max(l.piece, t.n)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for range min(m.transfers(r.all), len(r.all)) {
		g.Go(func() error {
			buf := &buffer{}
			for {
				i := int(r.next.Add(1)) - 1
				if i >= len(r.all) {
					return nil
				}
				if err := r.do(ctx, r.all[i], buf); err != nil {
					return err
				}
			}
		})
	}
	err = g.Wait()
	for _, l := range r.large {
		l.close()
	}
	return r.failed, err
}

// transfers is how many are under way at a time.
func (m *making) transfers(all []task) int {
	most := int64(1)
	for _, t := range all {
		most = max(most, t.n)
	}
	return int(max(1, min(int64(m.mk.o.Transfers), m.mk.o.Memory/most)))
}

// blockOf is the length of a store's blocks, 0 for none.
func blockOf(st store.Store) int64 {
	if b, ok := st.(store.BlockSizer); ok {
		return b.BlockSize()
	}
	return 0
}

// buffer is memory of one worker.
type buffer struct{ b []byte }

func (b *buffer) take(n int64) []byte {
	if int64(cap(b.b)) < n {
		b.b = make([]byte, n)
	}
	return b.b[:n]
}

// round is one pass over what is missing.
type round struct {
	*making
	twins     map[int]twin // nil: files are sent
	from      store.Store  // what is read
	gate      *gate        // what is read passes it
	all       []task
	next      atomic.Int64
	large     map[int]*large
	verifying chan struct{} // has room for the pieces that are read back at a time

	learning sync.Mutex
	small    []int // files of which the store that is read has not learned where they lie

	mu     sync.Mutex
	failed error // the first
}

// do does a task. An error ends the making.
func (r *round) do(ctx context.Context, t task, buf *buffer) error {
	var err error
	if t.piece {
		err = r.piece(ctx, t, buf)
	} else {
		err = r.batch(ctx, t, buf)
	}
	return r.later(ctx, err)
}

// later keeps an error for the next round that the site made and that may not come again, or that says that a file was read back as something else; of files that are copied
// within the site any: they are sent.
func (r *round) later(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || isFence(err) {
		return err
	}
	if r.twins != nil {
		return nil
	}
	var known *controller.Error
	if !errors.As(err, &known) || known.Reason != plan.ReasonSite {
		return err
	}
	switch class := store.ClassOf(err); class {
	case store.Retryable, store.Corrupt, store.IdentityChanged:
	default:
		if !errors.Is(err, fs.ErrExist) { // of another's, who writes the same
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
	return nil
}

// openFile opens a file to read it: of the original, or its twin.
func (r *round) openFile(ctx context.Context, i int) (store.File, error) {
	if t, ok := r.twins[i]; ok {
		return t.open(ctx, r.site)
	}
	return r.src.OpenFile(ctx, i)
}

// read fills a buffer from a file of the original, at the rate that is allowed. A store that does not answer is asked again.
func (r *round) read(ctx context.Context, f store.File, off int64, buf []byte) error {
	for len(buf) > 0 {
		n := min(int64(len(buf)), r.gate.slice())
		if err := r.gate.take(ctx, n); err != nil {
			return err
		}
		err := r.persist(ctx, func() error { return f.ReadRanges(ctx, []store.Range{{Off: off, Buf: buf[:n]}}) })
		if err != nil {
			return atSource(ctx, err)
		}
		buf, off = buf[n:], off+n
	}
	return nil
}

// persist calls again what the store of the original did not answer. For a twin nobody waits.
func (r *round) persist(ctx context.Context, call func() error) error {
	if r.twins != nil {
		return call()
	}
	return r.making.persist(ctx, call)
}

// persist calls again what a store did not answer, until nothing was answered for as long as the making is patient.
func (m *making) persist(ctx context.Context, call func() error) error {
	since := m.mk.o.Clock.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := call()
		if err == nil {
			m.alive()
			return nil
		}
		if ctx.Err() != nil || store.ClassOf(err) != store.Retryable {
			return err
		}
		if quiet := m.silent(); quiet > m.mk.o.Patience && m.mk.o.Clock.Now()-since > m.mk.o.Patience {
			return fmt.Errorf("nothing came for %v: %w", quiet.Round(time.Second), err)
		}
		if err := m.wait(ctx, pause); err != nil {
			return err
		}
	}
}

func (m *making) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-m.mk.o.Clock.After(d):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// alive says that a store has answered, and silent how long none has.
func (m *making) alive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers = m.mk.o.Clock.Now()
}

func (m *making) silent() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mk.o.Clock.Now() - m.answers
}

// keep takes files for whole, which were read back. Now and then that is written down.
func (m *making) keep(ctx context.Context, all map[int]*found) error {
	m.mu.Lock()
	for i, f := range all {
		m.have[i] = f
		m.fresh++
	}
	now := m.mk.o.Clock.Now()
	const every = time.Second
	due := now-m.written >= every+time.Duration(len(m.have))*100*time.Microsecond // it is written whole: seldom where it is long
	m.mu.Unlock()
	if !due {
		return nil
	}
	return m.write(ctx)
}

// write writes down what is whole, if there is anything new.
func (m *making) write(ctx context.Context) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	fresh := m.fresh
	m.mu.Unlock()
	if fresh == 0 {
		return nil
	}
	r := m.record()
	if err := m.change(ctx, func(ctx context.Context) error { return writeRecord(ctx, m.site, m.folder, r) }); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fresh -= fresh
	m.written = m.mk.o.Clock.Now()
	return nil
}

// count adds to the bytes that were copied.
func (m *making) count(n int64) {
	m.mu.Lock()
	m.copied += n
	m.mu.Unlock()
	m.tell()
}
