package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/sampler"
)

// orderFlags say which part of which order to print.
type orderFlags struct {
	samples     uint64
	spec        sampler.Spec
	specFile    string   // instead of samples and spec
	datasets    []string // of the sources of a spec that groups by length
	world, rank int
	oneRank     bool // of the world, not the whole global batch
	from, steps int64
	json        bool
}

func newOrderCommand() *cobra.Command {
	f := orderFlags{spec: sampler.Spec{Version: sampler.SpecVersion}}
	c := &cobra.Command{
		Use:   "order [DATASET | --samples N] --batch B | --spec FILE [DATASET...]",
		Short: "Print which samples each step takes",
		Long: `Print which samples each step takes, of a packed dataset, of any number of samples, or of any spec
(docs/sampler.md). Any step costs the same: nothing before it is computed. Without --rank the whole global batch
is printed. Samples of a mixture are printed as SOURCE:SAMPLE; with --json as three lists of one length: the source's
place in the spec, its epoch, and the sample. A spec that groups samples by length needs the datasets of its sources, in
their order: the lengths are in their indexes.`,
		Example: `  stepahead order photos --seed 7 --batch 64 --world 8 --rank 3 --from-step 1000000 --steps 2
  stepahead order --samples 1000000000000 --batch 8 --from-step 1000000000 --json
  stepahead order --spec mixture.json --world 8 --rank 3 --from-step 1000000
  stepahead order --spec grouped.json hdfs://ns/data/speech`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.specFile != "" {
				return nil
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.oneRank = cmd.Flags().Changed("rank")
			if err := f.choose(cmd, args); err != nil {
				return err
			}
			return printOrder(cmd.Context(), cmd.OutOrStdout(), &f)
		},
	}
	flags := c.Flags()
	flags.Uint64Var(&f.samples, "samples", 0, "number of samples, instead of a dataset")
	flags.Uint64Var(&f.spec.Seed, "seed", 0, "seed of the order")
	flags.Int64Var(&f.spec.GlobalBatch, "batch", 0, "samples that all ranks together take in a step")
	flags.StringVar(&f.spec.Shuffle, "shuffle", sampler.ShuffleFull, "full, block or none")
	flags.StringVar(&f.spec.Last, "last", sampler.LastDrop, "an epoch's incomplete last batch: drop, pad from the epoch's start, or carry on with the next epoch")
	flags.StringVar(&f.specFile, "spec", "", "file with the spec, instead of all of the above; - is standard input")
	flags.IntVar(&f.world, "world", 1, "number of data-parallel ranks")
	flags.IntVar(&f.rank, "rank", 0, "print the part of this rank only")
	flags.Int64Var(&f.from, "from-step", 0, "first step, counted through all epochs")
	flags.Int64Var(&f.steps, "steps", 1, "number of steps")
	flags.BoolVar(&f.json, "json", false, "print one JSON object a step")
	return c
}

// choose finds out what the order is of.
func (f *orderFlags) choose(cmd *cobra.Command, args []string) error {
	flags := cmd.Flags()
	if f.specFile != "" {
		for _, name := range []string{"samples", "seed", "batch", "shuffle", "last"} {
			if flags.Changed(name) {
				return exit.Usage(errors.New("order: --spec says all of the order: give no --samples, --seed, --batch, --shuffle or --last with it"))
			}
		}
		s, err := readSpec(cmd.InOrStdin(), f.specFile, exit.Usage)
		if err != nil {
			return fmt.Errorf("order: %w", err)
		}
		f.spec, f.datasets = s.Spec(), args
		return nil
	}
	if (len(args) == 1) == flags.Changed("samples") {
		return exit.Usage(errors.New("order: give either a DATASET or --samples N, or --spec FILE"))
	}
	if !flags.Changed("batch") {
		return exit.Usage(errors.New("order: --batch B is missing"))
	}
	if len(args) == 1 {
		n, err := countSamples(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		f.samples = n
	}
	f.spec.Sources = []sampler.Source{{Samples: f.samples}} // a single dataset has no name
	return nil
}

// countSamples reads the manifest of the dataset at url.
func countSamples(ctx context.Context, url string) (uint64, error) {
	m, p, err := readManifest(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("order: %w", err)
	}
	return uint64(m.Samples()), p.Close()
}

func (f *orderFlags) sampler() (*sampler.Sampler, error) {
	s, err := sampler.New(f.spec)
	if err != nil {
		return nil, err
	}
	if err := s.CheckWorld(f.world); err != nil {
		return nil, err
	}
	switch {
	case f.rank < 0 || f.rank >= f.world:
		return nil, fmt.Errorf("--rank %d: must be 0 to %d, as --world is %d", f.rank, f.world-1, f.world)
	case f.from < 0:
		return nil, fmt.Errorf("--from-step %d: must not be negative", f.from)
	case f.steps < 1 || f.steps > math.MaxInt64-f.from:
		return nil, fmt.Errorf("--steps %d: must be at least 1, and --from-step %d plus --steps below 2^63", f.steps, f.from)
	}
	if all, _ := s.Steps(); f.from+f.steps > all {
		return nil, fmt.Errorf("--from-step %d --steps %d: the run has %s", f.from, f.steps, counted(all, "step"))
	}
	return s, nil
}

// orderLine is what --json prints of a step. Sources and Epochs are of streams, whose sources have epochs of their own.
type orderLine struct {
	Step    int64    `json:"step"`
	Epoch   int64    `json:"epoch"`
	Sources []int32  `json:"sources,omitempty"`
	Epochs  []uint64 `json:"epochs,omitempty"`
	Samples []uint64 `json:"samples"`
}

func printOrder(ctx context.Context, out io.Writer, f *orderFlags) error {
	s, err := f.sampler()
	if err != nil {
		return exit.Usage(fmt.Errorf("order: %w", err))
	}
	grouped, err := openLengths(ctx, s, f.datasets)
	if err != nil {
		return fmt.Errorf("order: %w", err)
	}
	if grouped != nil {
		defer grouped.close()
	}
	w, spec := bufio.NewWriter(out), s.Spec()
	put := showTable(w, spec.Sources)
	if f.json {
		put = showJSON(w)
	}
	var refs []sampler.SampleRef
	for step := f.from; step < f.from+f.steps && ctx.Err() == nil; step++ {
		order := stepOrder(s)
		if grouped != nil {
			if order, err = grouped.at(ctx, step); err != nil {
				return fmt.Errorf("order: %w", err)
			}
		}
		if f.oneRank {
			refs = order.Rank(step, f.rank, f.world, refs[:0])
		} else {
			refs = order.Step(step, refs[:0])
		}
		if err := put(orderLineOf(step, s.Epoch(step), refs, spec.Last == sampler.LastCarry)); err != nil {
			return fmt.Errorf("order: %w", err)
		}
	}
	return errors.Join(w.Flush(), ctx.Err())
}

func orderLineOf(step, epoch int64, refs []sampler.SampleRef, stream bool) orderLine {
	l := orderLine{Step: step, Epoch: epoch, Samples: make([]uint64, len(refs))}
	for i, r := range refs {
		l.Samples[i] = r.Sample
		if stream {
			l.Sources, l.Epochs = append(l.Sources, r.Source), append(l.Epochs, r.Epoch)
		}
	}
	return l
}

// showJSON prints for programs: one object a step.
func showJSON(w io.Writer) func(orderLine) error {
	enc := json.NewEncoder(w)
	return func(l orderLine) error { return enc.Encode(l) }
}

// showTable prints for people: one line a step.
func showTable(w io.Writer, sources []sampler.Source) func(orderLine) error {
	head := true
	return func(l orderLine) error {
		if head {
			fmt.Fprintf(w, "%12s %8s  %s\n", "step", "epoch", "samples")
			head = false
		}
		fmt.Fprintf(w, "%12d %8d ", l.Step, l.Epoch)
		for i, id := range l.Samples {
			if len(sources) > 1 {
				fmt.Fprintf(w, " %s:%d", sources[l.Sources[i]].Name, id)
			} else {
				fmt.Fprintf(w, " %d", id)
			}
		}
		_, err := fmt.Fprintln(w)
		return err
	}
}
