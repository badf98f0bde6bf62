package sites

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/execute"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// SweepOptions say what is swept.
type SweepOptions struct {
	// All undoes everything that controllers of these files made; else what should be gone by now.
	All bool
	// DryRun changes nothing.
	DryRun bool
	// Fence is asked before each change.
	Fence func(ctx context.Context) error
	// Spare is the name of the controller whose placements are left alone; "" for none.
	Spare string
	Log   *zap.Logger
}

// margin is how long after its time what was made is left to its own controller, which may be undoing it.
const margin = 10 * time.Second

// surveyTime is how long stores are waited for, when they are asked what there is and when something is undone: one that hangs must not keep what is in the others from being undone.
const surveyTime = time.Minute

// Sweep undoes what controllers left in the stores that answer, and returns what it found to undo, and the stores of which not all is known, with why.
func Sweep(ctx context.Context, s *Sites, o SweepOptions) (r control.SweepResult) {
	world := execute.Stores{Stores: s, Sites: s.Names, Log: o.Log}
	asked, cancel := context.WithTimeout(ctx, surveyTime)
	survey := world.Survey(asked)
	cancel()
	for _, site := range append([]string{""}, s.Names()...) {
		if !survey.Listed[site] {
			r.Unread = append(r.Unread, control.Unread{Site: site, Problem: fmt.Sprint(survey.Unknown[site])})
		}
	}
	places := world.Places()
	swept := make([][]control.Swept, len(places))
	var group errgroup.Group
	for i, site := range places {
		group.Go(func() error {
			swept[i] = sweepSite(ctx, s, site, survey, o)
			return nil
		})
	}
	_ = group.Wait() // swept has the problems
	r.Swept = slices.Concat(swept...)
	return r
}

// sweepSite undoes what there is at one site. When the site does not answer any more, the rest is left, too.
func sweepSite(ctx context.Context, s *Sites, site string, survey execute.Survey, o SweepOptions) (swept []control.Swept) {
	var silent error
	for _, found := range survey.Leavings {
		if found.Site != site || found.Mark.Controller == o.Spare || !(o.All && found.Ours) && found.Left > -margin {
			continue
		}
		w := control.Swept{Site: site, Mark: found.Mark.Name(), Means: found.Mark.Means, Path: found.Mark.Path}
		err := silent
		if err == nil {
			w.Done, err = undo(ctx, s, found, o)
		}
		if err != nil {
			w.Problem = err.Error()
		}
		if errors.Is(err, context.DeadlineExceeded) {
			silent = err
		}
		swept = append(swept, w)
	}
	if !o.All || o.DryRun || o.Spare != "" || !survey.Listed[site] || silent != nil {
		return swept
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	if err := clean(ctx, s, site, o.Fence); err != nil {
		o.Log.Warn("what killed processes left beside the marks could not be removed", zap.String("site", site), zap.Error(err))
	}
	return swept
}

// clean removes what killed processes left beside the marks: at home, where no other controller is writing, all of it, elsewhere what is old.
func clean(ctx context.Context, s *Sites, site string, fence func(context.Context) error) error {
	st, err := storeOf(ctx, s, site)
	if err != nil {
		return err
	}
	o := temporary.SweepOptions{All: site == "", Fence: fence}
	if some, err := temporary.Any(ctx, st); err != nil || !some {
		return err
	}
	if o.Now, err = temporary.Now(ctx, st); err != nil {
		return err
	}
	return temporary.Clean(ctx, st, o)
}

func storeOf(ctx context.Context, s *Sites, site string) (store.Store, error) {
	if site == "" {
		return s.Home(), nil
	}
	return s.Site(ctx, site)
}

func undo(ctx context.Context, s *Sites, found execute.Leaving, o SweepOptions) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	st, err := storeOf(ctx, s, found.Site)
	if err != nil {
		return nil, err
	}
	if o.DryRun {
		return temporary.Preview(ctx, st, found.Mark)
	}
	return temporary.Undo(ctx, st, found.Mark, o.Fence)
}
