package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// coldPolicy is the storage policy that replicas of the means storage-type are made by: one without a fall-back to the type of the original replicas, or lowering would
// lose some of those.
const coldPolicy = "COLD"

// raised has a file itself have more replicas, for every client of its path.
type raised struct {
	hot
	policy string // the storage policy by which they are made; "": that of the file
}

// file is what a store can do for files that are raised.
type file interface {
	store.Store
	store.Replicator
	store.Attributer
}

// able tells whether the store can do what is needed.
func (r raised) able(s subject) (file, store.StoragePolicer, error) {
	st, ok := s.st.(file)
	policies, has := s.st.(store.StoragePolicer)
	if !ok || r.policy != "" && !has {
		return nil, nil, &controller.Error{Reason: plan.ReasonMeans, Err: fmt.Errorf("%s: the store has no replicas, attributes or storage policies: %w", s.st.Address(s.name), errors.ErrUnsupported)}
	}
	return st, policies, nil
}

func (r raised) Fact(ctx context.Context, m plan.Make) (json.RawMessage, error) {
	s, err := r.subject(controller.Placement{Make: m})
	if err != nil {
		return nil, err
	}
	st, policies, err := r.able(s)
	if err != nil {
		return nil, err
	}
	info, err := s.original(ctx)
	if err != nil {
		return nil, err
	}
	f := located{Size: info.Size, Was: &temporary.State{Replicas: info.Replicas}}
	if info.Replicas < 1 {
		return nil, &controller.Error{Reason: plan.ReasonMeans, Err: fmt.Errorf("%s: the store does not tell its replication: %w", s.st.Address(s.name), errors.ErrUnsupported)}
	}
	left, err := r.free(ctx, st, s.name, "")
	if err != nil {
		return nil, explain(err)
	}
	if r.policy != "" {
		p, err := policies.StoragePolicy(ctx, s.name)
		if err != nil {
			return nil, explain(err)
		}
		f.Was.Policy = &p
	}
	if left != nil {
		*f.Was = left.Before(*f.Was)
	}
	if p := f.Was.Policy; p != nil && p.Name == r.policy {
		return nil, &controller.Error{Reason: plan.ReasonMeans, Err: fmt.Errorf("%s: its storage policy is %s already", s.st.Address(s.name), p.Name)}
	}
	if f.Spread, err = s.locate(ctx, info.Size); err != nil {
		return nil, explain(err)
	}
	return json.Marshal(f)
}

// free looks that no other placement than that of a mark has raised the file, and returns what the file says of itself: nil where it is not raised. One whose
// mark is not there was left so, by whoever removed the mark.
func (r raised) free(ctx context.Context, st file, name, mark string) (*temporary.Mark, error) {
	found, ok, err := temporary.Raised(ctx, st, name)
	if err != nil || !ok {
		return nil, err
	}
	if found.Name() != mark {
		if _, err := st.Stat(ctx, found.Name()); err == nil {
			err = fmt.Errorf("%w: %s is raised by the placement of %s, which is undone first", store.ErrUnavailable, st.Address(name), found.Name())
			return nil, err
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return &found, nil
}

func (r raised) Make(ctx context.Context, p controller.Placement, t controller.Tools) (controller.Made, error) {
	end := r.o.Clock.Now() + p.Lease
	s, err := r.subject(p)
	if err != nil {
		return controller.Made{}, err
	}
	if _, err := s.original(ctx); err != nil {
		return controller.Made{}, err
	}
	f, err := parseFact(p.Fact)
	if err == nil && f.Was == nil {
		err = errors.New("the fact of a placement says nothing of the replication")
	}
	if err != nil {
		return controller.Made{}, err
	}
	m := r.mark(s, p)
	m.Was, m.Raised = f.Was, &temporary.State{Replicas: f.Was.Replicas + max(p.Make.Extra, 1)}
	if r.policy != "" {
		m.Raised.Policy = &store.StoragePolicy{Name: r.policy, Own: true}
	}
	err = r.raise(ctx, s, m, t)
	var made controller.Made
	if err == nil {
		made.Short, err = r.rise(ctx, s, m, f.Size, end)
	}
	if err != nil {
		return controller.Made{}, r.giveUp(ctx, p.Make.ID, t, err)
	}
	return made, nil
}

// raise changes the file. Everything is there before it that is needed to undo it, and the storage policy is changed before the replication.
func (r raised) raise(ctx context.Context, s subject, m temporary.Mark, t controller.Tools) error {
	st, _, err := r.able(s)
	if err != nil {
		return err
	}
	if _, err := temporary.AttributeOf(m); err != nil {
		return err
	}
	before, err := r.free(ctx, st, s.name, m.Name())
	if err == nil && before != nil && before.Name() == m.Name() {
		err = m.Agrees(*before) // it was raised otherwise, and what its mark says must stay true until that is undone
	}
	if err != nil {
		return err
	}
	if m.File, err = track(ctx, s); err != nil {
		return err
	}
	if err := r.writeMark(ctx, st, m, t); err != nil {
		return err
	}
	return r.set(ctx, s, m, t)
}

// set changes the file of a mark: where the store can, that very file, whatever it is called meanwhile.
func (r raised) set(ctx context.Context, s subject, m temporary.Mark, t controller.Tools) (err error) {
	on := s
	if m.File != "" {
		if on.st, err = s.st.(store.Tracker).Tracked(s.name, m.File); err != nil { // it is one: it has told the handle
			return err
		}
	}
	st, policies, err := r.able(on)
	if err != nil {
		return err
	}
	value, err := temporary.AttributeOf(m)
	if err != nil {
		return err
	}
	change := func(do func(context.Context) error) error { return temporary.Change(ctx, t.Fence, do) }
	err = change(func(ctx context.Context) error {
		return st.SetAttribute(ctx, s.name, temporary.Attribute, value)
	})
	if err != nil {
		return err
	}
	if _, err := s.original(ctx); err != nil { // the attribute may have been given to another file that has the name by now
		return err
	}
	if m.Raised.Policy != nil {
		if err := change(func(ctx context.Context) error { return policies.SetStoragePolicy(ctx, s.name, m.Raised.Policy.Name) }); err != nil {
			return err
		}
	}
	return change(func(ctx context.Context) error { return st.SetReplication(ctx, s.name, m.Raised.Replicas) })
}

// track returns what leads to the file when it is renamed; "" where the store knows of nothing that does.
func track(ctx context.Context, s subject) (string, error) {
	t, ok := s.st.(store.Tracker)
	if !ok {
		return "", nil
	}
	handle, err := t.Track(ctx, s.name)
	if errors.Is(err, errors.ErrUnsupported) {
		return "", nil
	}
	return handle, err
}

// rise waits until the replicas are there, or no more come, or the lease is over. What has come serves; it returns how many each block has less at most.
func (r raised) rise(ctx context.Context, s subject, m temporary.Mark, size int64, end time.Duration) (int, error) {
	if size == 0 {
		return 0, nil
	}
	best, last, short := 0, r.o.Clock.Now(), 0
	for {
		now, err := s.locate(ctx, size)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		least, _, all := now.counts()
		at := r.o.Clock.Now()
		if err == nil {
			short = m.Raised.Replicas - max(least, m.Was.Replicas)
		}
		if err == nil && all > best {
			best, last = all, at
		}
		switch {
		case err == nil && least >= m.Raised.Replicas:
			return 0, nil
		case errors.Is(err, fs.ErrNotExist):
			return 0, err
		case at >= end || at-last >= r.o.Patience:
			r.o.Log.Warn("a hot file has fewer replicas than it was to have", zap.String("path", s.name), zap.Int("replicas", best),
				zap.Int("wanted", m.Raised.Replicas*len(now.Blocks)), zap.Error(err))
			return short, nil
		}
		if err := r.pause(ctx); err != nil {
			return 0, err
		}
	}
}

func (r raised) pause(ctx context.Context) error {
	select {
	case <-r.o.Clock.After(r.o.Poll):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (raised) Publish(context.Context, controller.Placement, controller.Tools) error  { return nil }
func (raised) Withdraw(context.Context, controller.Placement, controller.Tools) error { return nil }

func (r raised) Extend(ctx context.Context, p controller.Placement, t controller.Tools) error {
	_, err := r.extend(ctx, p, t)
	return err
}

// Remove lowers the file, waits until the replicas that were made are gone, moves those back that a plain raise has moved, where it may, and reports how they lie.
func (r raised) Remove(ctx context.Context, p controller.Placement, t controller.Tools) error {
	if _, err := r.undo(ctx, p.Make.ID, t); err != nil {
		return err
	}
	if p.Fact == nil {
		return nil // nothing was begun
	}
	s, err := r.subject(p)
	if err != nil {
		return err
	}
	if err := r.unmarked(ctx, s, p.Make.ID, t); err != nil {
		return err
	}
	f, err := parseFact(p.Fact)
	if err != nil || f.Size == 0 {
		return err
	}
	return r.verify(ctx, s, p, f, t)
}

// unmarked lowers the file of a placement if it still is raised by it: somebody removed the mark. What else its attribute says is none of the placement's.
func (r raised) unmarked(ctx context.Context, s subject, id plan.ID, t controller.Tools) error {
	found, ok, err := temporary.Raised(ctx, s.st, s.name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errors.ErrUnsupported):
		return nil
	case errors.Is(err, temporary.ErrMark) || errors.Is(err, temporary.ErrVersion):
		r.o.Log.Warn("what a file was before it was raised cannot be told", zap.Uint64("placement", uint64(id)), zap.Error(err))
		return nil
	case err != nil || !ok || found.Name() != temporary.NameOf(r.o.Controller, id):
		return err
	}
	done, err := temporary.Undo(ctx, s.st, found, t.Fence)
	r.o.Log.Warn("a raised file had lost its mark, and was undone by its attribute", zap.Uint64("placement", uint64(id)), zap.String("path", s.name),
		zap.Strings("done", done), zap.Error(err))
	return err
}

// verify waits until what was made is gone, repairs what a plain raise has moved, and reports.
func (r raised) verify(ctx context.Context, s subject, p controller.Placement, f located, t controller.Tools) error {
	now, gone, err := r.settled(ctx, s, f)
	if err != nil || now == nil {
		return err
	}
	var refused error
	if r.policy == "" && gone {
		if refused = r.repair(ctx, s, f.Spread, *now, t); ctx.Err() != nil {
			return ctx.Err()
		}
		if now, gone, err = r.settled(ctx, s, f); err != nil || now == nil {
			return err
		}
	}
	_, _, before := f.Spread.counts()
	_, _, after := now.counts()
	r.report(Restoration{
		Placement: p.Make.ID, Means: p.Make.Means, Path: s.name, Blocks: len(now.Blocks), Before: before, Kept: f.Spread.keeps(*now), After: after,
		FullestBefore: f.Spread.fullest(), FullestAfter: now.fullest(), Excess: !gone, Refused: refused,
	})
	return nil
}

// settled returns where a file lies when it has no more replicas than it had, or when they were waited for in vain. It returns nil for a file that is not there
// any more, or is another version: there is nothing to compare.
func (r raised) settled(ctx context.Context, s subject, f located) (now *spread, gone bool, err error) {
	_, beforeMost, _ := f.Spread.counts()
	until := r.o.Clock.Now() + r.o.Patience
	for {
		now, err := s.placed(ctx, f.Size)
		_, most, _ := now.counts()
		gone := most <= max(beforeMost, f.Was.Replicas)
		late := r.o.Clock.Now() >= until
		switch reason := reasonOf(err); {
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case err != nil && (reason == plan.ReasonSource || reason == plan.ReasonIdentity):
			return nil, false, nil
		case err != nil && late:
			return nil, false, explain(err)
		case err == nil && (gone || late):
			return &now, gone, nil
		}
		if err := r.pause(ctx); err != nil {
			return nil, false, err
		}
	}
}

// repair moves replicas back to where they were, one after the other, until that is refused. It returns why it could not move all.
func (r raised) repair(ctx context.Context, s subject, was, now spread, t controller.Tools) error {
	moves := was.moves(now)
	if len(moves) == 0 {
		return nil
	}
	mover, ok := s.st.(store.Mover)
	if !ok {
		return fmt.Errorf("this store moves no replicas: %w", errors.ErrUnsupported)
	}
	var failed error
	for _, m := range moves {
		err := temporary.Change(ctx, t.Fence, func(ctx context.Context) error { return mover.MoveReplica(ctx, s.name, m.off, m.from, m.to) })
		var fence *temporary.FenceError
		if errors.As(err, &fence) || err != nil && store.ClassOf(err) == store.Permanent {
			return err
		}
		if err != nil {
			failed = err
		}
	}
	return failed
}

// placed is where the file lies, if it still is the version that was raised.
func (s subject) placed(ctx context.Context, size int64) (spread, error) {
	if _, err := s.original(ctx); err != nil {
		return spread{}, err
	}
	return s.locate(ctx, size)
}

func (r raised) report(x Restoration) {
	log := r.o.Log.Info
	if !x.Exact() {
		log = r.o.Log.Warn
	}
	log("a hot file was lowered", zap.Uint64("placement", uint64(x.Placement)), zap.String("path", x.Path), zap.Stringer("placed", x))
	r.o.Restored(x)
}
