package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/cmd/sites"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/lease"
	"github.com/stepahead-io/stepahead/store"
)

// sweepTime is how long a controller may take to sweep, at least: it asks every store, for everything that is there.
const sweepTime = 10 * time.Minute

// sweepFlags say what is swept, and where.
type sweepFlags struct {
	all, dryRun bool
	store       string
	sites       []string
	wait        time.Duration
}

func newCtlSweepCommand(f *ctlFlags) *cobra.Command {
	var s sweepFlags
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Undo what controllers left behind; with --all everything they made",
		Long: `Undo what controllers left behind: copies and replicas whose time is over. With --all undo everything that a controller made of these files, in the home
store and at all sites, whether its time is over or not: copies are deleted, files have the replication and the storage policy that they had. No
original is deleted or rewritten.

It needs no controller: with --store, and --site for each other datacenter, the marks that lie in the stores are enough. While it works it holds the controllers'
lease, so that none begins anything. A store that has not answered after a minute is named, and the others are swept. If a controller is active, it is asked to do it (--controller, and without --store), or stop it first.

Exit codes: 0 nothing is left, 1 something is, which is listed with the reason, 3 a store could not be looked at (or not wholly), whatever was undone in the others: what there
is in it may be left, and the command is to be called again when it answers. Also 3: nothing was done, since the controller does not answer, or one is active. With --json what was
printed tells these apart: unread lists the stores with why, swept what was found in the others, each with a problem if it is left.`,
		Example: `  stepahead ctl sweep --all --dry-run
  stepahead ctl sweep --all --store hdfs://prod/ --site east=hdfs://east/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.store == "" && len(s.sites) > 0 {
				return exit.Usage(errors.New("ctl sweep: --site goes with --store; the controller knows its sites"))
			}
			if s.store == "" {
				return f.askFor(cmd.Context(), max(f.timeout, sweepTime), func(ctx context.Context, c *control.Client) error {
					r, err := c.Sweep(ctx, s.all, s.dryRun)
					if err != nil {
						return err
					}
					return reportSweep(cmd.OutOrStdout(), r, s, f.json)
				})
			}
			r, err := s.sweep(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return reportSweep(cmd.OutOrStdout(), r, s, f.json)
		},
	}
	c.Flags().BoolVar(&s.all, "all", false, "everything, also what is in use")
	c.Flags().BoolVar(&s.dryRun, "dry-run", false, "say what would be undone, and change nothing")
	c.Flags().StringVar(&s.store, "store", "", "without a controller: the home store of the files")
	c.Flags().StringArrayVar(&s.sites, "site", nil, "without a controller: name=URL of the store of another datacenter; repeatable")
	c.Flags().DurationVar(&s.wait, "wait", 75*time.Second, "with --store: how long to wait for the lease of a controller that was killed")
	return c
}

// sweep undoes without a controller.
func (s sweepFlags) sweep(ctx context.Context, errs io.Writer) (r control.SweepResult, err error) {
	urls, err := sites.Parse(s.sites)
	if err != nil {
		return r, exit.Usage(fmt.Errorf("ctl sweep: %w", err))
	}
	all, err := sites.Open(ctx, s.store, urls)
	if err != nil {
		return r, fmt.Errorf("ctl sweep: %w", err)
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	o := sites.SweepOptions{All: s.all, DryRun: s.dryRun, Log: zap.NewNop()}
	if !s.dryRun {
		claim, err := s.claim(ctx, all.Home(), errs)
		if err != nil {
			return r, err
		}
		defer claim.Release()
		o.Fence = claim.Held
	}
	return sites.Sweep(ctx, all, o), nil
}

// claim takes the controllers' lease.
func (s sweepFlags) claim(ctx context.Context, home store.Store, errs io.Writer) (store.Claim, error) {
	wait, cancel := context.WithTimeout(ctx, max(s.wait, time.Millisecond))
	defer cancel()
	var why error
	claim, err := lease.Acquire(wait, home, lease.Options{Waiting: func(err error) {
		why = err
		fmt.Fprintf(errs, "ctl sweep: waiting up to %s for the controllers' lease: %v\n", s.wait, err)
	}})
	if err != nil && ctx.Err() == nil && errors.Is(why, fs.ErrExist) {
		return nil, fmt.Errorf("ctl sweep: a controller is active: ask it (without --store, with --controller), or stop it first: %w", why)
	}
	if err != nil {
		return nil, fmt.Errorf("ctl sweep: %w", err)
	}
	return claim, nil
}

// reportSweep prints what was found. What is left is a finding; of a store that did not answer it is not known.
func reportSweep(out io.Writer, r control.SweepResult, s sweepFlags, asJSON bool) error {
	left := 0
	for _, w := range r.Swept {
		if w.Problem != "" {
			left++
		}
	}
	var err error
	if asJSON {
		if r.Swept == nil {
			r.Swept = []control.Swept{}
		}
		if r.Unread == nil {
			r.Unread = []control.Unread{}
		}
		err = printIndented(out, struct {
			DryRun bool `json:"dry_run"`
			control.SweepResult
		}{s.dryRun, r})
	} else {
		err = printSwept(out, r, s.dryRun)
	}
	if err != nil {
		return err
	}
	var errs []error
	if left > 0 {
		errs = append(errs, fmt.Errorf("ctl sweep: %d of %d are still there: see above; call it again when the reason is gone", left, len(r.Swept)))
	}
	if len(r.Unread) == 0 {
		return exit.Finding(errors.Join(errs...))
	}
	var stores []string
	for _, u := range r.Unread {
		stores = append(stores, storeName(u.Site)+": "+oneLine(u.Problem))
	}
	return errors.Join(append(errs, fmt.Errorf("ctl sweep: not all could be looked at, and what is there may be left: call it again: %s", strings.Join(stores, "; ")))...)
}

// storeName is what people call a store.
func storeName(site string) string {
	if site == "" {
		return "the home store"
	}
	return "site " + printableName(site)
}

func printSwept(out io.Writer, r control.SweepResult, dryRun bool) error {
	done := "undone"
	if dryRun {
		done = "would be undone"
	}
	for _, w := range r.Swept {
		where := "home"
		if w.Site != "" {
			where = printableName(w.Site)
		}
		word := done
		if w.Problem != "" {
			word = "LEFT: " + oneLine(w.Problem)
		}
		if _, err := fmt.Fprintf(out, "%s: %s of %s: %s\n", where, named(string(w.Means)), printableName(w.Path), word); err != nil {
			return err
		}
		for _, line := range w.Done {
			if _, err := fmt.Fprintf(out, "    %s\n", oneLine(line)); err != nil {
				return err
			}
		}
	}
	if len(r.Revoked) > 0 {
		return printRevoked(out, r.Revoked, dryRun)
	}
	if len(r.Swept)+len(r.Unread) == 0 {
		_, err := fmt.Fprintln(out, "nothing was left behind")
		return err
	}
	return nil
}
