package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/sampler"
)

// maxSpecFile is more than any spec has.
const maxSpecFile = 2 << 20

func newSpecCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "spec",
		Short: "Check a spec of an order, and say what it means",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(
		specCommand("check", "Print the canonical form of a spec, or all that is wrong with it", checkSpec),
		specCommand("digest", "Print the SHA-256 of the canonical form, which states and hints carry", digestSpec),
		specCommand("explain", "Print what each source's share is, and when its samples repeat", explainSpec),
	)
	return c
}

func specCommand(name, short string, run func(w io.Writer, s *sampler.Sampler, asJSON bool) error) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     name + " FILE",
		Short:   short,
		Long:    short + ".\nFILE is a local file with the spec as JSON (docs/sampler.md); - is standard input.",
		Example: "  stepahead spec " + name + " mixture.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := readSpec(cmd.InOrStdin(), args[0], exit.Finding)
			if err != nil {
				return fmt.Errorf("spec %s: %w", name, err)
			}
			return run(cmd.OutOrStdout(), s, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// readSpec reads the spec in a file. wrong marks what is wrong with the spec.
func readSpec(in io.Reader, name string, wrong func(error) error) (*sampler.Sampler, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSpecFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	spec, err := sampler.ParseSpec(data)
	var s *sampler.Sampler
	if err == nil {
		s, err = sampler.New(spec)
	}
	if err != nil {
		return nil, wrong(fmt.Errorf("%s: %w", name, err))
	}
	return s, nil
}

func checkSpec(w io.Writer, s *sampler.Sampler, asJSON bool) error {
	if asJSON {
		return printJSON(w, map[string]any{"version": s.Spec().Version, "spec": json.RawMessage(s.Spec().Canonical())})
	}
	_, err := fmt.Fprintf(w, "%s\n", s.Spec().Canonical())
	return err
}

func digestSpec(w io.Writer, s *sampler.Sampler, asJSON bool) error {
	digest := fmt.Sprintf("%x", s.Spec().Digest())
	if asJSON {
		return printJSON(w, map[string]any{"digest": digest})
	}
	_, err := fmt.Fprintln(w, digest)
	return err
}

func explainSpec(w io.Writer, s *sampler.Sampler, asJSON bool) error {
	e := s.Explain()
	if asJSON {
		return printJSON(w, e)
	}
	kind := "plain: an epoch is one pass over the source"
	if e.Stream {
		kind = "stream: every source has epochs of its own, and batches run over their ends"
	}
	run := "it does not end by itself"
	if e.Steps != nil {
		run = "it ends after " + counted(*e.Steps, "step")
	}
	fmt.Fprintf(w, "version  %d\ndigest   %s\nkind     %s\nepoch    %s\nrun      %s\n", e.Version, e.Digest, kind, counted(e.StepsPerEpoch, "step"), run)
	if g := e.GroupByLength; g != nil {
		fmt.Fprintf(w, "grouped  by %s, among %d steps: a sample comes in one of them, not just in the step named below\n", g.Column, g.Steps)
	}
	fmt.Fprintln(w)
	return errors.Join(explainStages(w, e), explainSources(w, e))
}

// shownStages is how many stages the table for people has.
const shownStages = 20

func explainStages(w io.Writer, e sampler.Explanation) error {
	for i, stage := range e.Stages {
		if i == shownStages {
			fmt.Fprintf(w, "and %d more changes: --json lists all\n\n", len(e.Stages)-i)
			break
		}
		fmt.Fprintf(w, "from step %d: %s a step\n", stage.Step, counted(stage.GlobalBatch, "sample"))
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "source\tshare\ta step\t")
		for j, share := range stage.Shares {
			if share > 0 {
				fmt.Fprintf(t, "%s\t%.4f %%\t%.4g\t\n", nameOf(e.Sources[j].Name), 100*share, share*float64(stage.GlobalBatch))
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return nil
}

func explainSources(w io.Writer, e sampler.Explanation) error {
	fmt.Fprintln(w, "in the first epoch of the run")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "source\tsamples\ttaken\tpasses\trepeats\tfirst repeat in step\tlast sample in step\t")
	for _, s := range e.Sources {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.4g\t%d\t%s\t%s\t\n", nameOf(s.Name), s.Samples, s.Taken, s.Passes, s.Repeats, stepOr(s.FirstRepeat), stepOr(s.UsedUp))
	}
	return t.Flush()
}

func nameOf(name string) string {
	if name == "" {
		return "(unnamed)"
	}
	return name
}

func stepOr(step *int64) string {
	if step == nil {
		return "-"
	}
	return fmt.Sprint(*step)
}

func printJSON(w io.Writer, v any) error {
	return json.NewEncoder(w).Encode(v)
}
