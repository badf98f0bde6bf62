package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
)

func newCheckpointCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "checkpoint",
		Short: "List, find, inspect, verify, print, compare and watch checkpoints",
		Long: `Look at checkpoints where they lie, without torch: safetensors and Hugging Face folders, torch's distributed checkpoints,
Megatron's torch_dist, DeepSpeed and its universal checkpoints, torch_checkpointing and other files of torch.save (of which only files are
known). No pickle is run.`,
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newCheckpointLsCommand(), newCheckpointLatestCommand(), newCheckpointInspectCommand(), newCheckpointVerifyCommand(), newCheckpointCatCommand(), newCheckpointDiffCommand(),
		newCheckpointReadersCommand(), newCheckpointWatchCommand())
	return c
}

// checkpointFlags are those of all commands that open one.
type checkpointFlags struct {
	json   bool
	world  int
	settle time.Duration
}

func (f *checkpointFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	c.Flags().IntVar(&f.world, "world-size", 0, "the number of ranks that saved it, where the checkpoint does not say")
	c.Flags().DurationVar(&f.settle, "settle", time.Second, "where the number of ranks is not known, how long files must not change to be taken for all there are; 0: never")
}

func (f *checkpointFlags) options() checkpoint.Options {
	return checkpoint.Options{WorldSize: f.world, Settle: f.settle}
}

func (f *checkpointFlags) check() error {
	if f.world < 0 || f.settle < 0 {
		return exit.Usage(errors.New("checkpoint: --world-size and --settle must not be negative"))
	}
	return nil
}

// withCheckpoint opens the checkpoint at a URL for the time of use.
func withCheckpoint(ctx context.Context, url string, f checkpointFlags, use func(c *checkpoint.Checkpoint) error) error {
	if err := f.check(); err != nil {
		return err
	}
	p, err := openNamed(ctx, url)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return useCheckpoint(ctx, reading{Place: p}, f, use)
}

// withCopyOf is withCheckpoint for commands that want the bytes, wherever they are: not for those that say what is in the store.
func withCopyOf(ctx context.Context, url string, f checkpointFlags, errOut io.Writer, use func(c *checkpoint.Checkpoint) error) error {
	if err := f.check(); err != nil {
		return err
	}
	place, err := openNamed(ctx, url)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	p, err := readThrough(ctx, place, errOut)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return useCheckpoint(ctx, p, f, use)
}

// useCheckpoint opens a checkpoint for the time of use, and closes the place.
func useCheckpoint(ctx context.Context, p reading, f checkpointFlags, use func(c *checkpoint.Checkpoint) error) (err error) {
	defer func() { err = errors.Join(err, p.Close()) }()
	c, err := checkpoint.Open(ctx, p.Store, p.Name, f.options())
	if err != nil {
		return codeOfCheckpoint(err)
	}
	return codeOfCheckpoint(use(c))
}

// codeOfCheckpoint gives what is wrong with a checkpoint the exit code of a finding.
func codeOfCheckpoint(err error) error {
	if errors.Is(err, checkpoint.ErrNone) || errors.Is(err, fs.ErrInvalid) { // what is there is no checkpoint
		return exit.Usage(err)
	}
	for _, bad := range []error{checkpoint.ErrFormat, checkpoint.ErrIncomplete, checkpoint.ErrUnsupported, store.ErrCorrupt, store.ErrIdentity} {
		if errors.Is(err, bad) {
			return exit.Finding(err)
		}
	}
	return err
}
