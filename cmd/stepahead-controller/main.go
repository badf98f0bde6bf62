// Command stepahead-controller has checkpoints lie where they will be evaluated, and gives files that many ranks read at once more sources: for a while, within
// budgets, and undone afterwards.
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
		Use:   "stepahead-controller --store URL --journal FILE [flags]",
		Short: "Copy checkpoints to where they will be evaluated, and give hot files more sources, for a while",
		Long: `stepahead-controller copies checkpoints to where they will be evaluated before that begins, and gives files that many ranks read at once more
sources: for a while, within the budgets, as policy allows, and undone afterwards. See what it does with stepahead ctl.

One controller of a store is the active one: others wait until it ends. It prints one line with the address it listens on, logs to standard error,
and stops cleanly on SIGTERM or SIGINT; what there is then stays for its lease or for the next controller. Every flag may also stand in
the file that --config names, under the same name. Policy, budgets and prices are read again when they change, and on SIGHUP.`,
		Example: `  stepahead-controller --config /etc/stepahead/controller.yaml
  stepahead-controller --store hdfs://prod/ --site east=hdfs://east/ --policy policy.yaml --budgets budgets.yaml --prices prices.yaml --dry-run`,
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
	config := daemon.ConfigCommand(s.complete)
	config.AddCommand(newCheckCommand(&s))
	root.AddCommand(config)
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}
