package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/plan"
)

func newCtlPlanCommand(f *ctlFlags) *cobra.Command {
	var most int
	c := &cobra.Command{
		Use:   "plan",
		Short: "List what there is and what waits, the best first, and what is refused and why",
		Long: `List the placements that there are and that wait, the best first: what each is worth, what it costs and their quotient, by which they are ranked;
by which means, and until when. Then what is asked for and not done, with the reason, and what of the budgets is taken. What only waits for its time
is not listed: stepahead ctl why PATH says when that is.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 1 {
				return exit.Usage(errors.New("ctl plan: --most must be at least 1"))
			}
			return f.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
				r, err := c.Ranking(ctx, most)
				switch {
				case err != nil:
					return err
				case f.json:
					return printIndented(cmd.OutOrStdout(), r)
				}
				return printRanking(cmd.OutOrStdout(), r)
			})
		},
	}
	c.Flags().IntVar(&most, "most", 100, "how many of each are listed")
	return c
}

func printRanking(out io.Writer, r control.Ranking) error {
	b := bufio.NewWriter(out)
	printPlacements(b, r.Placements)
	if n := r.All - len(r.Placements); n > 0 {
		fmt.Fprintf(b, "and %d more: --most %d lists all\n", n, r.All)
	}
	if len(r.Refused) > 0 {
		fmt.Fprintln(b, "\nrefused:")
		w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		for _, s := range r.Refused {
			fmt.Fprintf(w, "%s\t%s\t%s\n", place(s), named(s.Job), because(s))
		}
		w.Flush()
	}
	if n := r.RefusedAll - len(r.Refused); n > 0 {
		fmt.Fprintf(b, "and %d more: --most %d lists all\n", n, r.RefusedAll)
	}
	if u := r.Usage; u != nil {
		fmt.Fprintln(b, "\nbudgets:")
		w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		printUsage(func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }, *u)
		w.Flush()
	}
	return b.Flush()
}

// printPlacements is a table of placements; a line where there are none.
func printPlacements(out io.Writer, list []plan.Standing) {
	if len(list) == 0 {
		fmt.Fprintln(out, "no placements")
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tMEANS\tBYTES\tVALUE\tCOST\tRANK\tLEFT\tJOB\tPATH")
	for _, s := range list {
		left := "-"
		if s.Begun() {
			left = span(s.Left)
		}
		state := s.State
		if s.Emergency {
			state += "!"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.4g\t%.4g\t%.3g\t%s\t%s\t%s\n", number(s.ID), state, named(string(s.Means)), formatBytes(s.Bytes), s.Value, s.Cost, s.Rank, left, named(s.Job), place(s))
		if s.Reason != "" {
			fmt.Fprintf(w, "\t\t\t\t\t\t\t\t\t  %s\n", because(s))
		}
		if s.Progress != nil {
			fmt.Fprintf(w, "\t\t\t\t\t\t\t\t\t  %s\n", far(s))
		}
	}
	w.Flush()
}

func number(id plan.ID) string {
	if id == 0 {
		return "-"
	}
	return strconv.FormatUint(uint64(id), 10)
}

// place is what a placement is of, and where it is.
func place(s plan.Standing) string {
	if s.Site == "" {
		return printableName(s.Path)
	}
	return printableName(s.Path) + " -> " + printableName(s.Site)
}

// because is why it waits or is refused.
func because(s plan.Standing) string {
	if s.Detail == "" {
		return string(s.Reason)
	}
	return string(s.Reason) + ": " + oneLine(s.Detail)
}

// printReady says which nodes serve a hot file now.
func printReady(out io.Writer, why control.Why) {
	switch {
	case why.ReadyProblem != "":
		fmt.Fprintln(out, "\nwhich nodes serve it cannot be told: "+oneLine(why.ReadyProblem))
	case len(why.Ready) > 0:
		nodes, racks := int64(0), make([]string, 0, len(why.Ready))
		for _, rack := range sortedKeys(why.Ready) {
			nodes += why.Ready[rack]
			racks = append(racks, fmt.Sprintf("%d in %s", why.Ready[rack], named(rack)))
		}
		fmt.Fprintf(out, "\nserved now by %d nodes: %s\n", nodes, strings.Join(racks, ", "))
	}
}

func newCtlWhyCommand(f *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "why ID-or-PATH",
		Short: "Say what is decided on a placement, or on a path, and why",
		Long: `Say what is decided on a path of the home store (or its URL), or on the path of a placement, and why, with numbers: what is known of it, what there is, what it is
worth, and why it waits or is refused. The reasons are explained in docs/controller.md.`,
		Example: `  stepahead ctl why 17
  stepahead ctl why /runs/7b/step-500`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, path := idOrPath(args[0])
			return f.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
				w, err := c.Why(ctx, id, path)
				switch {
				case err != nil:
					return err
				case f.json:
					return printIndented(cmd.OutOrStdout(), w)
				}
				return printWhy(cmd.OutOrStdout(), w)
			})
		},
	}
}

// idOrPath tells a number from a path.
func idOrPath(word string) (plan.ID, string) {
	if n, err := strconv.ParseUint(word, 10, 64); err == nil && n > 0 {
		return plan.ID(n), ""
	}
	return 0, word
}

func printWhy(out io.Writer, why control.Why) error {
	b := bufio.NewWriter(out)
	known := why.Known
	if known == "" && len(why.Standings) == 0 {
		known = "nothing is known of it: no job has said anything, or it is over"
	}
	fmt.Fprintln(b, strings.TrimSuffix(printableName(why.Path)+": "+oneLine(known), ": "))
	for _, s := range why.Standings {
		fmt.Fprintln(b)
		w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		row := func(name, format string, args ...any) {
			fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
		}
		row("placement", "%s %s", number(s.ID), s.State)
		if s.Site != "" {
			row("site", "%s", printableName(s.Site))
		}
		if s.Means != "" {
			row("means", "%s, %s", s.Means, formatBytes(s.Bytes))
			row("worth", "%.4g, costs %.4g, rank %.3g", s.Value, s.Cost, s.Rank)
		}
		if s.Sources > 0 {
			row("sources", "%d, %d of them made", s.Sources, s.Extra)
		}
		row("job", "%s", named(s.Job))
		if s.Emergency {
			row("emergency", "the job's loss has jumped there: it comes before all others")
		}
		if s.Progress != nil {
			row("made", "%s", far(s))
		}
		if s.Begun() {
			row("left", "%s of its lease", span(s.Left))
		}
		if s.Why != "" {
			row("why", "%s", oneLine(s.Why))
		}
		if s.Reason != "" {
			row("but", "%s", because(s))
		}
		w.Flush()
	}
	printReady(b, why)
	for _, text := range why.Policy {
		fmt.Fprintln(b, "\npolicy:")
		for line := range strings.Lines(text) {
			fmt.Fprintln(b, "  "+oneLine(strings.TrimSuffix(line, "\n")))
		}
	}
	return b.Flush()
}
