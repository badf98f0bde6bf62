// Command stepahead-agent runs beside a storage node: it prepares the samples that training jobs will
// ask for, while the node has CPU to spare, and hands them out.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

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
		Args:          noArguments,
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
	root.AddCommand(newConfig(&s), newRelay(&s))
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is neither a flag nor a command: see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}

func newConfig(s *settings) *cobra.Command {
	config := &cobra.Command{
		Use:   "config",
		Short: "Look at the configuration",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			return exit.Usage(errors.New("config: say what to do: print"))
		},
	}
	config.AddCommand(&cobra.Command{
		Use:   "print",
		Short: "Print the configuration in effect as a file for --config",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.complete(cmd.Flags()); err != nil {
				return err
			}
			return s.print(cmd.OutOrStdout(), cmd.Flags())
		},
	})
	return config
}
