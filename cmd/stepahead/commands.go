package main

import "github.com/spf13/cobra"

// commands lists every subcommand; each lives in the file of its name.
func commands() []*cobra.Command {
	return []*cobra.Command{
		newCatCommand(),
		newCheckpointCommand(),
		newCtlCommand(),
		newDigestCommand(),
		newIndexCommand(),
		newInspectCommand(),
		newLsCommand(),
		newOrderCommand(),
		newPackCommand(),
		newSpecCommand(),
		newTokenCommand(),
		newTransformCommand(),
		newVerifyCommand(),
	}
}
