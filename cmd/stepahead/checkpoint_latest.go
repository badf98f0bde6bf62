package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/cmd/exit"
)

func newCheckpointLatestCommand() *cobra.Command {
	var f checkpointFlags
	c := &cobra.Command{
		Use:   "latest URL",
		Short: "Print the newest complete checkpoint in a folder",
		Long: `Print where the newest complete checkpoint in a folder lies, by the number at the end of names, as a job that resumes asks for. Newer ones
that are not complete are passed over, and named on standard error with the reason. The exit code is 1 if there is none.`,
		Example: `  stepahead checkpoint latest hdfs://ns/runs/7b
  torchrun train.py --resume "$(stepahead checkpoint latest hdfs://ns/runs/7b)"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCheckpointLatest(cmd.Context(), args[0], f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(c)
	return c
}

func runCheckpointLatest(ctx context.Context, url string, f checkpointFlags, out, errs io.Writer) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	p, err := openPlace(ctx, url)
	if err != nil {
		return fmt.Errorf("checkpoint latest: %w", err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	newest, skipped, err := checkpoint.Latest(ctx, p.Store, p.Name, f.options())
	if errors.Is(err, checkpoint.ErrNone) {
		return exit.Finding(err)
	}
	if err != nil {
		return codeOfCheckpoint(err)
	}
	for _, s := range skipped {
		if !errors.Is(s, checkpoint.ErrNone) { // logs and the like are no news
			fmt.Fprintln(errs, "checkpoint latest: passed over", s)
		}
	}
	if f.json {
		return json.NewEncoder(out).Encode(describeCheckpoint(newest))
	}
	_, err = fmt.Fprintln(out, newest.URL())
	return err
}
