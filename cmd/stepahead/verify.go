package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/cmd/exit"
)

func newVerifyCommand() *cobra.Command {
	var asJSON bool
	var o pack.VerifyOptions
	c := &cobra.Command{
		Use:   "verify DATASET",
		Short: "Read all of a dataset and name everything that is wrong with it",
		Long: `Read all of a dataset: manifest, digests of the indexes, headers, uuids, and the CRC32C of every part. Pixels
are not decoded: a picture that was packed broken has the right sum. Everything that is wrong is one line: file, kind,
sample, field, offset, what was expected and what was found. The exit code is 1 if there is any.

Containers that were indexed where they lie have no sums, most often. --checksum stores those of what is read now in DATASET/dataset.sums,
if nothing is wrong: from then on the loader, agents and verify compare with them. The dataset's identity stays the same.`,
		Example: `  stepahead verify datasets/tars --checksum
  stepahead verify datasets/photos --json | jq 'select(.kind == "crc") | .key'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runVerify(cmd.Context(), args[0], o, asJSON, cmd.OutOrStdout(), newMeter(cmd.ErrOrStderr()))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line: the findings, then what was checked")
	c.Flags().BoolVar(&o.Checksum, "checksum", false, "add sums to a dataset that has parts without")
	c.Flags().IntVar(&o.Workers, "workers", 0, "reads at the same time (default: the number of processors, at least 4)")
	return c
}

func runVerify(ctx context.Context, url string, o pack.VerifyOptions, asJSON bool, out io.Writer, progress *meter) error {
	if err := checkWorkers(o.Workers); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	p, err := openPlace(ctx, url)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer p.Close()
	lines := json.NewEncoder(out)
	var failed error
	show := func(f pack.Finding) {
		progress.clear()
		var err error
		if asJSON {
			err = lines.Encode(f)
		} else {
			_, err = fmt.Fprintln(out, f)
		}
		if failed == nil {
			failed = err
		}
	}
	start := time.Now()
	o.Progress = progress.show
	checked, err := pack.Verify(ctx, p.Store, p.Name, o, show)
	progress.done()
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("verify %s: %w", url, err)
	}
	if err := printChecked(out, checked, time.Since(start), asJSON); err != nil {
		return err
	}
	if checked.Findings > 0 {
		return exit.Finding(fmt.Errorf("verify %s: %s", url, counted(checked.Findings, "finding")))
	}
	return nil
}

// checkWorkers holds --workers to what package pack takes.
func checkWorkers(n int) error {
	if n < 0 || n > 4096 {
		return exit.Usage(fmt.Errorf("--workers %d: must be 0 (the default) to 4096", n))
	}
	return nil
}

func printChecked(out io.Writer, c pack.Checked, took time.Duration, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(struct {
			Kind string `json:"kind"`
			pack.Checked
			Seconds float64 `json:"seconds"`
		}{"checked", c, took.Seconds()})
	}
	rate := formatBytes(int64(float64(c.Bytes) / max(took.Seconds(), 1e-9)))
	_, err := fmt.Fprintf(out, "checked %s, %s, %s, %s in %.1f s (%s/s): %s\n",
		counted(c.Bins, "bin"), counted(c.Samples, "sample"), counted(c.Parts, "part"), formatBytes(c.Bytes), took.Seconds(), rate, counted(c.Findings, "finding"))
	if err == nil && c.NoSums > 0 {
		_, err = fmt.Fprintf(out, "%s without a sum: only the length was checked\n", counted(c.NoSums, "part"))
	}
	if err == nil && c.Summed > 0 {
		_, err = fmt.Fprintf(out, "sums of %s added, in %s\n", counted(c.Summed, "part"), binfmt.SumsName)
	}
	return err
}
