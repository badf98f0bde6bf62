// Package sources gives hot files more sources for a while: it carries out the actions of the means even, sibling, storage-type and raise
// (see docs/controller-decisions.md). What it makes has a mark (controller/temporary), so that others can undo it too.
package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// Clock is the controller's: see execute.Clock.
type Clock interface {
	// Now is monotonic, since any fixed moment.
	Now() time.Duration
	// After sends once when d has passed.
	After(d time.Duration) <-chan time.Time
}

// Options configure the makers. Stores, Controller, Key and Clock have no default.
type Options struct {
	Stores controller.Stores
	// Controller is the name of the journal, in marks and rows.
	Controller string
	// Key signs rows of the catalogue.
	Key   catalogue.Key
	Clock Clock
	// Grace is how long what was made stays in a store beyond its lease, before others than this controller undo it. Default 2 min.
	Grace time.Duration
	// Poll is how often the store is asked whether replicas have come or gone. Default 1 s.
	Poll time.Duration
	// Patience is how long replicas are waited for while none comes, and how long for those to go that were made. Default 1 min.
	Patience time.Duration
	// Restored, if not nil, is told what became of the placement of a file that was raised.
	Restored func(Restoration)
	Log      *zap.Logger
}

// New returns the makers, one for each means.
func New(o Options) (map[plan.Means]controller.Maker, error) {
	if err := temporary.CheckController(o.Controller); err != nil {
		return nil, fmt.Errorf("sources.New: %w", err)
	}
	if o.Stores == nil || o.Clock == nil {
		return nil, errors.New("sources.New: stores and a clock are needed")
	}
	for _, d := range []struct {
		to        *time.Duration
		otherwise time.Duration
	}{{&o.Grace, 2 * time.Minute}, {&o.Poll, time.Second}, {&o.Patience, time.Minute}} {
		if *d.to <= 0 {
			*d.to = d.otherwise
		}
	}
	if o.Restored == nil {
		o.Restored = func(Restoration) {}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	h := hot{o}
	return map[plan.Means]controller.Maker{
		plan.Even: even{h}, plan.Sibling: sibling{h}, plan.StorageType: raised{h, coldPolicy}, plan.Raise: raised{h, ""},
	}, nil
}

// hot is what the makers share.
type hot struct{ o Options }

// subject is what a placement is of, also where it was never made.
type subject struct {
	st             store.Store
	name, identity string
	job, why       string
}

func (h hot) subject(p controller.Placement) (subject, error) {
	s := subject{st: h.o.Stores.Home(), identity: p.Make.Identity, job: p.Make.Job, why: p.Make.Why}
	of := p.Make.Path
	if of == "" && p.Publish != nil {
		of, s.identity, s.job, s.why = p.Publish.Path, p.Publish.Identity, p.Publish.Job, p.Publish.Why
	}
	if err := store.CheckName(of); err != nil {
		return subject{}, &controller.Error{Reason: plan.ReasonSource, Err: fmt.Errorf("%q: %w", of, err)}
	}
	s.name = of
	return s, nil
}

// original looks whether the file is the version that was planned for.
func (s subject) original(ctx context.Context) (store.Info, error) {
	info, err := s.st.Stat(ctx, s.name)
	switch {
	case err != nil:
		return info, explain(err)
	case info.Dir:
		return info, &controller.Error{Reason: plan.ReasonSource, Err: fmt.Errorf("%s is a folder", s.st.Address(s.name))}
	case string(info.Identity) != s.identity:
		return info, &controller.Error{Reason: plan.ReasonIdentity, Err: &store.IdentityError{Name: s.st.Address(s.name), Pinned: store.Identity(s.identity), Now: info.Identity}}
	}
	return info, nil
}

// mark is the mark of a placement that makes nothing.
func (h hot) mark(s subject, p controller.Placement) temporary.Mark {
	return temporary.Mark{
		Version: temporary.Version, Controller: h.o.Controller, Placement: h.id(p), Means: h.means(p), Path: s.name, Identity: s.identity,
		TTL: p.Lease + h.o.Grace, Job: s.job, Why: s.why,
	}
}

func (h hot) id(p controller.Placement) plan.ID {
	if p.Make.ID == 0 && p.Publish != nil {
		return p.Publish.ID
	}
	return p.Make.ID
}

func (h hot) means(p controller.Placement) plan.Means {
	if p.Make.Means == "" && p.Publish != nil {
		return p.Publish.Means
	}
	return p.Make.Means
}

func (h hot) rowName(s subject) string {
	return path.Join(catalogue.Folder, catalogue.NameOf(s.st.Address(s.name)))
}

// writeMark writes a mark, or begins its time anew.
func (h hot) writeMark(ctx context.Context, st store.Store, m temporary.Mark, t controller.Tools) error {
	return temporary.Change(ctx, t.Fence, func(ctx context.Context) error { return temporary.Write(ctx, st, m) })
}

// writeRow lets readers find the siblings, and each other, for the placement's lease.
func (h hot) writeRow(ctx context.Context, s subject, p controller.Placement, t controller.Tools, size int64, siblings []catalogue.Sibling) error {
	readers := 1
	if p.Publish != nil {
		readers = max(1, p.Publish.Readers)
	}
	row := catalogue.Row{
		Version: catalogue.Version, Placement: uint64(h.id(p)), Controller: h.o.Controller, Path: s.st.Address(s.name), Identity: s.identity,
		TTL:     min(max(p.Lease, catalogue.MinTTL), catalogue.MaxTTL),
		Sources: &catalogue.Sources{Size: size, Readers: readers, Siblings: siblings},
	}
	return temporary.Change(ctx, t.Fence, func(ctx context.Context) error { return catalogue.Write(ctx, s.st, h.o.Key, row) })
}

// extend begins the time of the mark anew, if there is one, and tells whether.
func (h hot) extend(ctx context.Context, p controller.Placement, t controller.Tools) (bool, error) {
	st := h.o.Stores.Home()
	m, err := temporary.Read(ctx, st, temporary.NameOf(h.o.Controller, h.id(p)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m.TTL = p.Lease + h.o.Grace
	return true, h.writeMark(ctx, st, m, t)
}

// published tells whether the row of a placement is there.
func (h hot) published(ctx context.Context, s subject, p controller.Placement) (bool, error) {
	ours, err := catalogue.Of(ctx, s.st, h.rowName(s), h.o.Controller, uint64(h.id(p)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return ours, err
}

// undo undoes what the mark of a placement says; without one there is nothing, since it is written first and removed last. It returns what was done.
func (h hot) undo(ctx context.Context, id plan.ID, t controller.Tools) ([]string, error) {
	st, name := h.o.Stores.Home(), temporary.NameOf(h.o.Controller, id)
	m, err := temporary.Read(ctx, st, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, temporary.Change(ctx, t.Fence, func(ctx context.Context) error { return temporary.Remove(ctx, st, name) }) // what is half written
	}
	if err != nil {
		return nil, err
	}
	done, err := temporary.Undo(ctx, st, m, t.Fence)
	if len(done) > 0 {
		h.o.Log.Info("undone", zap.Uint64("placement", uint64(id)), zap.String("path", m.Path), zap.Strings("done", done), zap.Error(err))
	}
	return done, err
}

// giveUp undoes what a making that failed has done, unless it was told to end: then a Remove, or another process, does.
func (h hot) giveUp(ctx context.Context, id plan.ID, t controller.Tools, err error) error {
	var fence *temporary.FenceError
	if ctx.Err() != nil || errors.As(err, &fence) {
		return err
	}
	if _, failed := h.undo(ctx, id, t); failed != nil {
		h.o.Log.Warn("what failed could not be undone at once", zap.Uint64("placement", uint64(id)), zap.Error(failed))
	}
	return explain(err)
}

// explain gives an error the reason that it is for planning.
func explain(err error) error {
	var known *controller.Error
	var fence *temporary.FenceError
	if err == nil || errors.As(err, &known) || errors.As(err, &fence) {
		return err
	}
	return &controller.Error{Reason: reasonOf(err), Err: err}
}

func reasonOf(err error) plan.Reason {
	var known *controller.Error
	if errors.As(err, &known) {
		return known.Reason
	}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		if errors.Is(err, full) {
			return plan.ReasonSite
		}
	}
	for _, refused := range []error{errors.ErrUnsupported, fs.ErrPermission, fs.ErrInvalid, temporary.ErrMark, temporary.ErrVersion, catalogue.ErrRow} {
		if errors.Is(err, refused) {
			return plan.ReasonMeans
		}
	}
	switch store.ClassOf(err) {
	case store.NotFound:
		return plan.ReasonSource
	case store.IdentityChanged:
		return plan.ReasonIdentity
	}
	return plan.ReasonFailed
}
