package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// An Access says what users may read in the store. The agent reads as a service, so it asks before it prepares
// or serves a file on a user's behalf. It is safe for concurrent use.
type Access interface {
	// MayRead returns nil if user may read the file called name now, and an error that matches fs.ErrPermission
	// if he may not. Any other error says that it is not known.
	MayRead(ctx context.Context, user, name string) error
}

const (
	// askTime bounds one question to an Access.
	askTime = 10 * time.Second
	// maxVerdicts bounds what is remembered: a verdict has some hundred bytes.
	maxVerdicts = 1 << 16
)

// rights remembers what an Access has said, for a while.
type rights struct {
	access Access // nil: the roots of tokens are all that counts
	age    time.Duration
	now    func() time.Duration
	asking singleflight.Group

	mu    sync.Mutex
	known map[question]verdict
}

type question struct{ user, name string }

type verdict struct {
	err error
	at  time.Duration
}

// mayRead returns nil if user may read name, as far as is known from at most age ago. Callers that have no
// token have no user: an agent that lets them in is for its own host. A file that does not exist holds
// nothing to protect.
func (r *rights) mayRead(ctx context.Context, user, name string) error {
	if r.access == nil || user == "" {
		return nil
	}
	q := question{user, name}
	if v, ok := r.recall(q); ok {
		return v.err
	}
	answer := r.asking.DoChan(user+"\x00"+name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
		defer cancel()
		return nil, r.ask(ctx, q)
	})
	select {
	case a := <-answer:
		return a.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *rights) recall(q question) (verdict, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.known[q]
	return v, ok && r.now()-v.at < r.age
}

func (r *rights) ask(ctx context.Context, q question) error {
	asked := r.now()
	err := r.access.MayRead(ctx, q.user, q.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && !errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("whether %.128q may read %.256q is not known now: %w", q.user, q.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxVerdicts {
		r.known = make(map[question]verdict)
	}
	r.known[q] = verdict{err, asked}
	return err
}
