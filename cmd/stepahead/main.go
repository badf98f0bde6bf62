// Command stepahead is the user's program: it packs, inspects and verifies datasets, lists and prints
// files of a store, prints the order of samples, runs one file through a transform plan and compares proof digests.
package main

import (
	"fmt"
	"os"
	"strings"

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
	root := &cobra.Command{
		Use:           "stepahead",
		Version:       version.Text(),
		Short:         "Datasets, order and transforms of the stepahead loader",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          onlyCommands,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if words := cmd.Flags().Args(); cmd == root && len(words) > 0 { // the flag is that of a misspelt command
			return unknownCommand(root, words[0])
		}
		return err
	})
	root.AddCommand(commands()...)
	return root
}

// onlyCommands are the arguments of a command that does nothing but have commands of its own.
func onlyCommands(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownCommand(c, args[0])
}

// unknownCommand is the error of a word that is no command of c.
func unknownCommand(c *cobra.Command, name string) error {
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(name); len(near) > 0 {
		return fmt.Errorf("unknown command %q: did you mean %s?", name, strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q: `%s --help` lists them", name, c.CommandPath())
}
