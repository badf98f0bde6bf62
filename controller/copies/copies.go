// Package copies makes copies of checkpoints at other sites, for a while: sent as few large transfers at the rate that is allowed, read back, and found by readers only when all of it
// is there. What a process leaves that is killed at any point is gone on with, or undone from the mark that is written first.
package copies

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// Options say how to copy. Controller, Stores and Key are needed.
type Options struct {
	// Controller is the name of the journal that gives placements their numbers.
	Controller string
	Stores     controller.Stores
	// Key signs rows of the catalogue.
	Key catalogue.Key
	// Labels, if not nil, gives those of a checkpoint, which the copy's row carries.
	Labels func(ctx context.Context, path string) (map[string]string, error)
	// Transfers are how many are under way at a time, of all files of a copy; default 16. Each has a piece of at most 64 MiB in memory, all together at most Memory; default
	// 512 MiB. Reading back takes another 64 MiB.
	Transfers int
	Memory    int64
	// Patience is how long a copy goes on while a store does not answer. Default 2 minutes. Afterwards the making fails, and is gone on with by the next.
	Patience time.Duration
	// Grace is how long a copy stays at its site beyond its lease before others than this controller undo it: readers have it open. Default 2 minutes.
	Grace time.Duration
	// Clock is the time. Default: this process's.
	Clock Clock
}

// Validate says what is missing.
func (o Options) Validate() error {
	if err := temporary.CheckController(o.Controller); err != nil {
		return fmt.Errorf("copies.Options: %w: %w", err, fs.ErrInvalid)
	}
	if o.Stores == nil || o.Transfers < 0 || o.Memory < 0 || o.Patience < 0 || o.Grace < 0 {
		return fmt.Errorf("copies.Options: Stores is needed, Transfers, Memory, Patience and Grace are not negative: %w", fs.ErrInvalid)
	}
	return nil
}

// Maker is the controller.Maker of plan.Copy. Every method may be called again after whatever became of the last call.
type Maker struct {
	o     Options
	sizes sizes
}

var _ controller.Maker = (*Maker)(nil)

// New makes a Maker. It does no I/O.
func New(o Options) (*Maker, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Transfers, o.Memory = cmp.Or(o.Transfers, 16), cmp.Or(o.Memory, 512*mib)
	o.Patience, o.Grace = cmp.Or(o.Patience, 2*time.Minute), cmp.Or(o.Grace, 2*time.Minute)
	if o.Clock == nil {
		o.Clock = realClock{time.Now()}
	}
	return &Maker{o, usual}, nil
}

// Fact is what is known of a copy before it is begun. What is whole of it later is in the record beside its data.
type Fact struct {
	URL    string `json:"url"`
	Layout string `json:"layout"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	// Readers is who may read all of the original, nil where its store cannot tell: then nobody but the controller's user may read the copy.
	Readers *store.Access `json:"readers,omitempty"`
}

// Fact implements controller.Maker.
func (mk *Maker) Fact(ctx context.Context, m plan.Make) (json.RawMessage, error) {
	home := mk.o.Stores.Home()
	c, err := mk.source(ctx, m)
	if err != nil {
		return nil, err
	}
	f := Fact{URL: c.URL(), Layout: string(c.Layout), Files: len(c.Files), Bytes: c.Bytes()}
	a, ok, err := readersAt(ctx, home, c)
	if err != nil {
		return nil, atSource(ctx, err)
	}
	if ok {
		f.Readers = &a
	}
	return json.Marshal(f)
}

// source opens the original, if it is the version that is to be copied.
func (mk *Maker) source(ctx context.Context, m plan.Make) (*checkpoint.Checkpoint, error) {
	home := mk.o.Stores.Home()
	c, err := checkpoint.Open(ctx, home, m.Path, checkpoint.Options{})
	if err != nil {
		return nil, atSource(ctx, err)
	}
	if got := c.Identity(); got != m.Identity {
		return nil, &controller.Error{Reason: plan.ReasonIdentity, Err: fmt.Errorf("%s is version %s, not %s", c.URL(), got, m.Identity)}
	}
	switch {
	case len(c.Files) == 0:
		return nil, &controller.Error{Reason: plan.ReasonSource, Err: fmt.Errorf("%s has no files", c.URL())}
	case len(c.Files) > catalogue.MaxFiles:
		return nil, &controller.Error{Reason: plan.ReasonFailed, Err: fmt.Errorf("%s has %d files, a row of the catalogue has room for %d", c.URL(), len(c.Files), catalogue.MaxFiles)}
	}
	return c, nil
}

// unchanged finds out whether the original is still what it was when it was opened.
func unchanged(ctx context.Context, st store.Store, c *checkpoint.Checkpoint) error {
	if _, err := st.Stat(ctx, c.Path); err != nil {
		return atSource(ctx, err)
	}
	changed, err := c.Changed(ctx)
	if err != nil {
		return atSource(ctx, err)
	}
	if changed != "" {
		return &controller.Error{Reason: plan.ReasonIdentity, Err: fmt.Errorf("%s was changed while it was copied: %s", c.URL(), changed)}
	}
	return nil
}

// site is the store of a copy.
func (mk *Maker) site(ctx context.Context, name string) (store.Store, error) {
	st, err := mk.o.Stores.Site(ctx, name)
	return st, atSite(ctx, err)
}

// mark is that of a placement. One that shares another's data has none of its own.
func (mk *Maker) mark(p controller.Placement, url string) temporary.Mark {
	m := temporary.Mark{
		Version: temporary.Version, Controller: mk.o.Controller, Placement: p.Make.ID, Means: plan.Copy, Path: url, Identity: p.Make.Identity,
		Row: path.Join(catalogue.Folder, catalogue.NameOf(url)), TTL: max(p.Lease, 0) + mk.o.Grace, Job: p.Make.Job, Why: p.Make.Why,
	}
	if p.Make.Of == 0 {
		m.Place = temporary.PlaceOf(mk.o.Controller, p.Make.ID)
	}
	return m
}

// writeMark has the world know what there will be, and until when.
func (mk *Maker) writeMark(ctx context.Context, st store.Store, p controller.Placement, t controller.Tools) error {
	m := mk.mark(p, mk.o.Stores.Home().Address(p.Make.Path))
	return atSite(ctx, temporary.Change(ctx, t.Fence, func(ctx context.Context) error { return temporary.Write(ctx, st, m) }))
}

// Remove implements controller.Maker. It asks nothing of the original's store.
func (mk *Maker) Remove(ctx context.Context, p controller.Placement, t controller.Tools) error {
	st, err := mk.site(ctx, p.Make.Site)
	if err != nil {
		return err
	}
	m := mk.mark(p, mk.o.Stores.Home().Address(p.Make.Path))
	_, err = temporary.Undo(ctx, st, m, t.Fence)
	return atSite(ctx, err)
}

// atSource says what an error of the original's store means.
func atSource(ctx context.Context, err error) error {
	var identity *store.IdentityError
	switch {
	case err == nil || ctx.Err() != nil || isOurs(err):
		return err
	case errors.As(err, &identity) && identity.Now == "", errors.Is(err, fs.ErrNotExist), errors.Is(err, checkpoint.ErrNone):
		return &controller.Error{Reason: plan.ReasonSource, Err: err}
	case store.ClassOf(err) == store.IdentityChanged:
		return &controller.Error{Reason: plan.ReasonIdentity, Err: err}
	}
	return &controller.Error{Reason: plan.ReasonFailed, Err: err}
}

// atSite says what an error of the copy's store means.
func atSite(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || isOurs(err) {
		return err
	}
	return &controller.Error{Reason: plan.ReasonSite, Err: err}
}

// isOurs tells errors that say already what they mean.
func isOurs(err error) bool {
	var known *controller.Error
	var fence *temporary.FenceError
	return errors.As(err, &known) || errors.As(err, &fence)
}
