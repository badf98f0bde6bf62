package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/plan"
)

func newCtlRevokeCommand(f *ctlFlags) *cobra.Command {
	r := control.Revocation{}
	c := &cobra.Command{
		Use:   "revoke ID-or-PATH | --all",
		Short: "Take placements back: readers read the original from then on",
		Long: `Take a placement back, or all of a path, or, with --all, all that your token may take back. Each is withdrawn, so that no reader finds it any more, and
removed a minute later, when those that have it open had time to finish. It is not made again while it is asked for. The original is not
touched. Use ctl drain as well if nothing new is to begin.`,
		Example: `  stepahead ctl revoke 17 --why "the link is needed"
  stepahead ctl revoke /runs/7b/step-500 --dry-run
  stepahead ctl revoke --all`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == r.All {
				return exit.Usage(errors.New("ctl revoke: give a number or a path, or --all"))
			}
			r := r
			if len(args) == 1 {
				r.ID, r.Path = idOrPath(args[0])
			}
			return f.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
				found, err := c.Revoke(ctx, r)
				if err != nil {
					return err
				}
				if f.json {
					return printIndented(cmd.OutOrStdout(), struct {
						DryRun  bool            `json:"dry_run"`
						Revoked []plan.Standing `json:"revoked"`
					}{r.DryRun, found})
				}
				return printRevoked(cmd.OutOrStdout(), found, r.DryRun)
			})
		},
	}
	c.Flags().BoolVar(&r.All, "all", false, "all that your token may take back")
	c.Flags().BoolVar(&r.DryRun, "dry-run", false, "say what would be taken back, and change nothing")
	c.Flags().StringVar(&r.Why, "why", "by hand", "the reason, for the audit log and for those who ask why")
	return c
}

func printRevoked(out io.Writer, found []plan.Standing, dryRun bool) error {
	word := "revoked"
	if dryRun {
		word = "would be revoked"
	}
	if len(found) == 0 {
		_, err := fmt.Fprintf(out, "nothing %s: there are no placements that are yours to take back\n", word)
		return err
	}
	printPlacements(out, found)
	_, err := fmt.Fprintf(out, "%s %s; above as they were before\n", counted(len(found), "placement"), word)
	return err
}

func newCtlDrainCommand(f *ctlFlags) *cobra.Command {
	var off, dryRun bool
	c := &cobra.Command{
		Use:   "drain",
		Short: "Let nothing new begin; what is there runs out. --off lets it again",
		Long: `Let nothing new begin. What has begun goes on, is used, and ends with its lease; ctl revoke --all ends it at once. It counts until ctl drain --off,
also when the controller starts again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
				was, err := c.Drain(ctx, !off, dryRun)
				if err != nil {
					return err
				}
				if f.json {
					return printIndented(cmd.OutOrStdout(), struct {
						DryRun bool `json:"dry_run"`
						Was    bool `json:"was_drained"`
						Is     bool `json:"is_drained"`
					}{dryRun, was, was && dryRun || !off && !dryRun})
				}
				return printDrained(cmd.OutOrStdout(), was, !off, dryRun)
			})
		},
	}
	c.Flags().BoolVar(&off, "off", false, "let new placements begin again")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would change, and change nothing")
	return c
}

func printDrained(out io.Writer, was, on, dryRun bool) error {
	state := map[bool]string{true: "drained: nothing new begins", false: "not drained: new placements begin"}
	text := state[on]
	switch {
	case was == on:
		text += ", as before"
	case dryRun:
		text = "would be " + text
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
