// Command stepahead is the user's program: it packs, inspects and verifies datasets, prints the
// order of samples, runs one file through a transform plan and compares proof digests.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
)

func main() {
	ctx, stop := exit.OnSignal()
	defer stop()
	os.Exit(exit.Run(ctx, newRoot(), os.Args[1:]))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "stepahead",
		Short:         "Datasets, order and transforms of the stepahead loader",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return fmt.Errorf("unknown command %q: `stepahead --help` lists them", args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(commands()...)
	return root
}
