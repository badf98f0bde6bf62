// Command stepahead-agent runs beside a storage node: it prepares the samples that training jobs will
// ask for, while the node has CPU to spare, and hands them out.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/daemon"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/cmd/version"
)

func main() {
	ctx, stop := exit.OnSignal()
	defer stop()
	os.Exit(exit.Run(ctx, newRoot(), os.Args[1:]))
}

func newRoot() *cobra.Command {
	var s settings
	root := &cobra.Command{
		Use:   "stepahead-agent --store URL --node NAME [flags]",
		Short: "Prepare training samples on a storage node before they are asked for",
		Long: `stepahead-agent prepares training samples on a storage node before they are asked for.

It prints one line with the address it listens on, logs to standard error, and stops cleanly on
SIGTERM or SIGINT. Every flag may also stand in the file that --config names, under the same name.`,
		Version:       version.Text(),
		Args:          daemon.NoArguments,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.complete(cmd.Flags()); err != nil {
				return err
			}
			return serve(cmd.Context(), s, cmd.OutOrStdout())
		},
	}
	s.flags(root.PersistentFlags())
	root.AddCommand(daemon.ConfigCommand(s.complete), newRelay(&s))
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}
