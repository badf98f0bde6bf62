package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/loader/proof"
)

func newDigestCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "digest FILE...",
		Short: "Print the digest of what a run delivered",
		Long: `Print one digest over the proof records of a run: two runs delivered the same bytes in the same order if
and only if their digests are equal. Give the files of all ranks and all restarts. A place that has two different
records, or none, is a finding: both sides are named.`,
		Example: "  stepahead digest run1/*.jsonl",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			digest, sum, err := proof.Digest(args...)
			var bad *proof.Finding
			if errors.As(err, &bad) {
				return exit.Finding(err)
			}
			if err != nil {
				return err
			}
			return printDigest(cmd.OutOrStdout(), hex.EncodeToString(digest[:]), sum, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func printDigest(out io.Writer, digest string, s proof.Summary, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(struct {
			Digest string `json:"digest"`
			proof.Summary
		}{digest, s})
	}
	_, err := fmt.Fprintf(out, "%s  %s, %s (%d to %d) of %s\n",
		digest, counted(s.Records, "record"), counted(s.Steps, "step"), s.FirstStep, s.LastStep, counted(s.Batch, "sample"))
	if err == nil && s.Duplicates > 0 {
		_, err = fmt.Fprintf(out, "left out: %s of steps that were done again after a resume\n", counted(s.Duplicates, "record"))
	}
	if err == nil && s.Cut > 0 {
		_, err = fmt.Fprintf(out, "left out: the cut last line, which a killed process left, of %s\n", counted(s.Cut, "file"))
	}
	return err
}
