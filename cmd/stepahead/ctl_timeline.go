package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/controller/control"
)

// The width of a timeline where the output is no terminal, and the largest.
const (
	textWidth = 100
	mostWidth = 160
)

// widthOf is how wide lines may be.
func widthOf(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return min(w, mostWidth)
		}
	}
	return textWidth
}

func newCtlTimelineCommand(f *ctlFlags) *cobra.Command {
	var job string
	c := &cobra.Command{
		Use:   "timeline PATH | --job JOB",
		Short: "Show how long evaluations took from commit to decision, and for what of it storage is to blame",
		Long: `Show, of a checkpoint or of all that a job saved or evaluated, when it was committed, when a copy was ready, when the evaluator opened it, and when the result
and the decision came: how much of that was waiting for storage (=), for a place in a queue, and slow benchmarks. What happened in the last 24 h is known, as far as jobs
said so (a line each: docs/checkpoints.md) and the audit log has it; whose clocks the times are by is in docs/controller.md.`,
		Example: `  stepahead ctl timeline /runs/7b/step-500
  stepahead ctl timeline --job 7b --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (job != "") {
				return exit.Usage(errors.New("ctl timeline: give a path, or --job"))
			}
			path := ""
			if len(args) == 1 {
				path = args[0]
			}
			return f.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
				t, err := c.Timeline(ctx, path, job)
				switch {
				case err != nil:
					return err
				case f.json:
					return printIndented(cmd.OutOrStdout(), t)
				}
				return t.Write(cmd.OutOrStdout(), widthOf(cmd.OutOrStdout()))
			})
		},
	}
	c.Flags().StringVar(&job, "job", "", "all checkpoints that a job saved or evaluated")
	return c
}
