package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/controller/control"
)

// barWidth is how wide the bars of a timeline are at most.
const barWidth = 40

func newCtlTimelineCommand(f *ctlFlags) *cobra.Command {
	var job string
	c := &cobra.Command{
		Use:   "timeline PATH | --job JOB",
		Short: "Show how long evaluations took from commit to decision, and for what of it storage is to blame",
		Long: `Show, of a checkpoint or of all that a job saved or evaluated, when it was committed, when a copy was ready, when the evaluator opened it, and when the result
and the decision came: how much of that was waiting for storage, for a place in a queue, and slow benchmarks. Times before the controller's start are not
known to it, but for what jobs said.`,
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
				return t.Write(cmd.OutOrStdout(), barWidth)
			})
		},
	}
	c.Flags().StringVar(&job, "job", "", "all checkpoints that a job saved or evaluated")
	return c
}
