package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/plan"
)

func newCtlStatusCommand(f *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say how the controller fares: exit code 1 if something is wrong",
		Long: `Say how the controller fares: whether it is the active one, what there is and what waits, what of the budgets is taken, what came of it so far,
and what is not as it should be. The exit code is 1 if something is not, or if the lease is lost.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
				st, err := c.Status(ctx)
				if err != nil {
					return err
				}
				if f.json {
					err = printIndented(cmd.OutOrStdout(), st)
				} else {
					err = printStatus(cmd.OutOrStdout(), st)
				}
				if n := len(st.Problems); err == nil && (n > 0 || st.LeaseProblem != "") {
					return exit.Finding(errors.New("ctl status: not all is as it should be: see above"))
				}
				return err
			})
		},
	}
}

func printStatus(out io.Writer, st control.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("controller", "%s for %s, stepahead %s", cmp.Or(st.Controller, "-"), span(st.Up), st.Version)
	switch {
	case st.State == "standby":
		row("state", "standby: another controller is the active one, and is the one to ask; or this one has only just started")
		return w.Flush()
	case st.State == "dry-run":
		row("state", "dry run: nothing is acted on")
	default:
		row("state", "%s, lease %s", st.State, cmp.Or(oneLine(st.LeaseProblem), "held"))
	}
	if st.Drained {
		row("drained", "nothing new begins (stepahead ctl drain --off)")
	}
	slices.SortFunc(st.Begun, func(a, b plan.Count) int { return cmp.Or(cmp.Compare(a.Means, b.Means), cmp.Compare(a.State, b.State)) })
	for _, c := range st.Begun {
		row(string(c.Means), "%d %s, %s", c.N, c.State, formatBytes(c.Bytes))
	}
	row("waiting", "%d", st.Waiting)
	for _, s := range st.Making {
		row("making "+number(s.ID), "%s %s %s: %s", s.State, s.Means, place(s), far(s))
	}
	if c := st.Cluster; c != nil && c.Nodes > 0 {
		row("cluster", "%d nodes, %.0f %% busy; a node serves %s/s, to %.3g readers without their waiting longer", c.Nodes, 100*c.Load, formatBytes(c.NodeRate), c.ReadersPerSource)
	}
	if u := st.Usage; u != nil {
		printUsage(row, *u)
	}
	if y := st.Tally; y != nil {
		printTally(row, *y)
	}
	for _, p := range st.Problems {
		for line := range strings.SplitSeq(p, "\n") { // a file may have several mistakes
			row("PROBLEM", "%s", oneLine(line))
		}
	}
	return w.Flush()
}

// printUsage says what of the budgets is taken.
func printUsage(row func(name, format string, args ...any), u plan.Usage) {
	if len(u.Off) > 0 {
		row("switched off", "%s (docs/budgets.md)", strings.Join(u.Off, ", "))
	}
	for _, site := range sortedKeys(u.Held) {
		name := "site " + site
		if site == "" {
			name = "hot files"
		}
		text := fmt.Sprintf("%s held, %s·h left", formatBytes(u.Held[site]), formatBytes(int64(u.ByteHoursLeft[site])))
		if rate := u.Rate[site]; rate > 0 {
			text += fmt.Sprintf(", %s/s granted", formatBytes(rate))
		}
		if rate := u.Expected[site]; rate > 0 {
			text += fmt.Sprintf(", the next copy is expected to get %s/s", formatBytes(rate))
		}
		row(name, "%s", text)
	}
	row("storage", "%s/s, %.3g cores, %s of memory", formatBytes(u.Egress), u.Cores, formatBytes(u.Memory))
}

// printTally says what came of what was made.
func printTally(row func(name, format string, args ...any), y plan.Tally) {
	opened := fmt.Sprintf("%d in time, %d late, %d missed", y.InTime, y.Late, y.Missed)
	if y.InTime > 0 {
		opened += fmt.Sprintf("; ready %s before on average", span(y.Lead/time.Duration(y.InTime)))
	}
	row("opened", "%s", opened)
	row("waste", "%d copies were never opened; %s·h lay before the first opening, of %s·h in all", y.Unused, formatBytes(int64(y.IdleByteHours)), formatBytes(int64(y.CopyByteHours)))
	if y.ReusedBytes > 0 {
		row("not sent", "%s of copies lay at their site already", formatBytes(y.ReusedBytes))
	}
	row("saved", "%.0f s of ranks are expected to be, by %s·h of temporary sources", y.SavedSeconds, formatBytes(int64(y.SourceByteHours)))
	if y.MeasuredStarts > 0 {
		row("measured", "%.0f s saved, by what %d starts say they took; to %d of them it was no help", y.MeasuredSeconds, y.MeasuredStarts, y.Unhelped)
	}
}

// far is how far the making of a placement is.
func far(s plan.Standing) string {
	p := s.Progress
	if p == nil {
		return "how far it is, is not known"
	}
	text := fmt.Sprintf("%s of %s", formatBytes(p.Done), formatBytes(p.Total))
	if p.Total > 0 {
		text += fmt.Sprintf(", %.0f %%", 100*float64(p.Done)/float64(p.Total))
	}
	if left, ok := p.Left(); ok {
		text += fmt.Sprintf(", %s/s, %s to go", formatBytes(p.Rate), span(left))
	}
	return text
}

func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
