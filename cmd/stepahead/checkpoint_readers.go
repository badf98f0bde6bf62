package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/cmd/exit"
)

func newCheckpointReadersCommand() *cobra.Command {
	var f checkpointFlags
	var p checkpoint.Parallel
	c := &cobra.Command{
		Use:   "readers URL --ranks N",
		Short: "Show how many ranks of a job read each file of a checkpoint",
		Long: `Show, for each file of a checkpoint, how many ranks of a job read it when the job loads the checkpoint: all of them, some, one or none. Where
tensors lie, the layout's names and how the ranks divide the model among them say so; where they leave it open, the count is the larger one.`,
		Example: `  stepahead checkpoint readers runs/7b/iter_0001000 --ranks 2048 --tensor 8 --pipeline 4`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("ranks") {
				return exit.Usage(errors.New("checkpoint readers: --ranks N, the number of ranks of the job, is missing"))
			}
			return withCheckpoint(cmd.Context(), args[0], f, func(c *checkpoint.Checkpoint) error {
				return printReaders(cmd.OutOrStdout(), c, p, f.json)
			})
		},
	}
	f.add(c)
	c.Flags().IntVar(&p.Ranks, "ranks", 0, "the number of ranks of the job (required)")
	c.Flags().IntVar(&p.Tensor, "tensor", 1, "ranks that divide each layer")
	c.Flags().IntVar(&p.Pipeline, "pipeline", 1, "groups of ranks that divide the layers")
	c.Flags().IntVar(&p.Expert, "expert", 1, "ranks that divide the experts of a layer")
	c.Flags().IntVar(&p.Shards, "shards", 0, "data-parallel ranks that divide tensors; 0: all of them")
	return c
}

// fileReaders is one line of --json.
type fileReaders struct {
	File    string           `json:"file"`
	Bytes   int64            `json:"bytes"`
	Readers int              `json:"readers"`
	Share   checkpoint.Share `json:"share"`
}

func printReaders(out io.Writer, c *checkpoint.Checkpoint, p checkpoint.Parallel, asJSON bool) error {
	all, err := c.Readers(p)
	if errors.Is(err, fs.ErrInvalid) {
		return exit.Usage(fmt.Errorf("checkpoint readers: %w", err))
	}
	if err != nil {
		return err
	}
	e := json.NewEncoder(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprint(w, "file\tbytes\treaders\tshare\n")
	}
	for _, r := range all {
		file := c.Files[r.File]
		if !asJSON {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", printableName(file.Name), formatBytes(file.Size), r.Readers, r.Share)
		} else if err := e.Encode(fileReaders{file.Name, file.Size, r.Readers, r.Share}); err != nil {
			return err
		}
	}
	return w.Flush()
}
