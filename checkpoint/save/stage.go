package save

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"github.com/stepahead-io/stepahead/store"
)

// stage is the memory in which bytes wait to be stored, and the queue in which they do. All files of a save share it.
type stage struct {
	st     store.Store
	ctx    context.Context
	limits Limits

	mu      sync.Mutex
	changed sync.Cond // anything below
	files   []*File
	spare   [][]byte // chunks without content
	chunks  int64    // that there are
	queue   []*part
	workers int   // goroutines
	err     error // the first failure; nothing is begun after it
	left    error // what kept files from being given up
}

// errNotEnded: nobody called End or Close.
var errNotEnded = fmt.Errorf("%w: the file has not ended: call End", fs.ErrInvalid)

// part is some bytes of a file that are to be stored. The last of a file may have none.
type part struct {
	f      *File
	off    int64
	bytes  int64
	chunks [][]byte // each full but the last
}

func newStage(ctx context.Context, st store.Store, l Limits) *stage {
	s := &stage{st: st, ctx: ctx, limits: l.withDefaults(st)}
	s.changed.L = &s.mu
	return s
}

// wait waits for a change, of which the end of a context is one: its error.
func (s *stage) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	s.changed.Wait()
	return ctx.Err()
}

// take returns a chunk when there is one. Where none will come back by itself, since all lie in parts that are not full, these are
// stored as they are.
func (s *stage) take() ([]byte, error) {
	for {
		if s.err != nil {
			return nil, s.err
		}
		if n := len(s.spare); n > 0 {
			c := s.spare[n-1]
			s.spare = s.spare[:n-1]
			return c, nil
		}
		if (s.chunks+1)*chunk <= s.limits.Memory {
			s.chunks++
			return make([]byte, 0, chunk), nil
		}
		if len(s.queue) == 0 && s.workers == 0 && s.cut() {
			continue
		}
		if err := s.wait(s.ctx); err != nil {
			s.fail(context.Cause(s.ctx))
		}
	}
}

// cut has all parts stored that are not full, and tells whether there were any.
func (s *stage) cut() (any bool) {
	for _, f := range s.files {
		if f.filled > 0 && !f.copying {
			s.seal(f)
			any = true
		}
	}
	return any
}

// seal queues what a file has staged.
func (s *stage) seal(f *File) {
	p := &part{f: f, off: f.sealed, bytes: f.filled, chunks: f.chunks}
	f.sealed, f.filled, f.chunks = f.sealed+f.filled, 0, nil
	f.pending++
	s.queue = append(s.queue, p)
	s.hire()
}

// free takes chunks back.
func (s *stage) free(chunks [][]byte) {
	for _, c := range chunks {
		s.spare = append(s.spare, c[:0])
	}
	s.changed.Broadcast()
}

// fail ends the save: nothing is begun any more, and what is under way is cancelled. The first reason counts.
func (s *stage) fail(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	for _, f := range s.files {
		f.cancel(err)
	}
	s.queue = nil
	s.hire() // for giving up what is open
	s.changed.Broadcast()
}

// settled waits until every file is stored, or until after a failure nothing is under way any more. A file that has not ended is an
// error.
func (s *stage) settled(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		done := s.workers == 0
		for _, f := range s.files {
			if s.err == nil && !f.ended {
				return f.failed("Wait", errNotEnded)
			}
			done = done && (s.err != nil || f.stored)
		}
		if done {
			s.spare, s.chunks = nil, 0
			return s.err
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
}
