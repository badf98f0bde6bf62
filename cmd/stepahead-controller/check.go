package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/daemon"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/cmd/sites"
	"github.com/stepahead-io/stepahead/controller/policy"
)

func newCheckCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "check --policy FILE --budgets FILE --prices FILE",
		Short: "Say what is wrong with the files of rules, budgets and prices, before a controller reads them",
		Long: `Read the files of rules, budgets and prices, or those that --config names, as a controller does, and say all that is wrong with them, or what they have.
With --site, sites that are not named wherever they must be are said too. Nothing else is looked at, and no controller is asked. Exit code 2: something is wrong.`,
		Args: daemon.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.config != "" {
				if err := daemon.Read(s.config, cmd.Flags()); err != nil {
					return err
				}
			}
			if s.rules.Rules == "" || s.rules.Budgets == "" || s.rules.Prices == "" {
				return exit.Usage(errors.New("config check: give --policy, --budgets and --prices, or a --config that does"))
			}
			rules, err := policy.Load(s.rules)
			if err != nil {
				return codeOfFile(err)
			}
			urls, err := sites.Parse(s.sites)
			if err != nil {
				return exit.Usage(err)
			}
			if err := describeRules(cmd.OutOrStdout(), rules, time.Now()); err != nil || len(urls) == 0 {
				return err
			}
			for _, text := range s.strangers(urls, rules) {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), "warning: "+text); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// describeRules says what files have.
func describeRules(out io.Writer, s *policy.Settings, now time.Time) error {
	b := s.Budgets.At(now)
	next := "the budgets are the same at all hours"
	if at, changes := s.Budgets.Next(now); changes {
		next = "the budgets change next at " + at.UTC().Format(time.RFC3339)
	}
	_, err := fmt.Fprintf(out, "ok: %d rules, %d sites, %d links; switches: wan %s, replicas %s, storage %s; %s\n", s.Rules.Len(), len(s.Rules.Sites()), len(b.WAN.Links),
		onOff(b.WAN.On), onOff(b.Replicas.On), onOff(b.Storage.On), next)
	return err
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
