// Command stepahead is the user's program: it packs, inspects and verifies datasets, prints the
// order of samples, runs one file through a transform plan and compares proof digests.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes of every program here.
const (
	exitOK          = 0
	exitFinding     = 1 // the command worked and found something wrong in what it looked at
	exitUsage       = 2
	exitEnvironment = 3 // missing files, no permission, a full disk, a peer that does not answer
)

// codedError carries the exit code that an error asks for.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// finding marks err as something wrong in the data looked at: exit code 1.
func finding(err error) error { return coded(exitFinding, err) }

// usage marks err as a mistake in the command line or in a file given on it: exit code 2.
func usage(err error) error { return coded(exitUsage, err) }

func coded(code int, err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code: code, err: err}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, newRoot(), os.Args[1:]))
}

func run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(root.ErrOrStderr(), "stepahead:", err)
	var c *codedError
	if errors.As(err, &c) {
		return c.code
	}
	return exitEnvironment
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "stepahead",
		Short:         "Datasets, order and transforms of the stepahead loader",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usage(fmt.Errorf("unknown command %q: `stepahead --help` lists them", args[0]))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.AddCommand(commands()...)
	for _, c := range root.Commands() {
		if c.Args != nil {
			check := c.Args
			c.Args = func(cmd *cobra.Command, args []string) error { return usage(check(cmd, args)) }
		}
	}
	return root
}
