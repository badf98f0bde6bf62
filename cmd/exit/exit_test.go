package exit_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
)

// program has a command with a required flag and one argument, which fails with err.
func program(err error) *cobra.Command {
	root := &cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	work := &cobra.Command{Use: "work FILE", Args: cobra.ExactArgs(1), RunE: func(*cobra.Command, []string) error { return err }}
	work.Flags().String("key", "", "")
	if err := work.MarkFlagRequired("key"); err != nil {
		panic(err)
	}
	group := &cobra.Command{Use: "group"}
	group.AddCommand(work)
	root.AddCommand(group)
	return root
}

func TestRun(t *testing.T) {
	good := []string{"group", "work", "--key", "k", "file"}
	for name, row := range map[string]struct {
		args []string
		err  error
		code int
		says string
	}{
		"well":             {good, nil, exit.OK, ""},
		"finding":          {good, exit.Finding(errors.New("rot")), exit.Found, "prog: rot\n"},
		"usage, wrapped":   {good, fmt.Errorf("plan: %w", exit.Usage(errors.New("odd"))), exit.Misused, "prog: plan: odd\n"},
		"environment":      {good, fs.ErrNotExist, exit.Environment, "not exist"},
		"required flag":    {[]string{"group", "work", "file"}, nil, exit.Misused, `required flag(s) "key" not set`},
		"too many":         {append(good, "more"), nil, exit.Misused, "accepts 1 arg(s), received 2"},
		"too few":          {good[:4], nil, exit.Misused, "accepts 1 arg(s), received 0"},
		"unknown flag":     {append(good, "--colour"), nil, exit.Misused, "--colour"},
		"bad value":        {[]string{"group", "work", "--key"}, nil, exit.Misused, "needs an argument"},
		"unknown command":  {[]string{"steal"}, nil, exit.Misused, "steal"},
		"no such argument": {[]string{"--", "steal"}, nil, exit.Misused, "steal"},
	} {
		t.Run(name, func(t *testing.T) {
			root := program(row.err)
			var errs bytes.Buffer
			root.SetErr(&errs)
			if code := exit.Run(t.Context(), root, row.args); code != row.code || !strings.Contains(errs.String(), row.says) {
				t.Errorf("%d, %q: want %d and %q", code, errs.String(), row.code, row.says)
			}
		})
	}
}

func TestNilStaysNil(t *testing.T) {
	if exit.Usage(nil) != nil || exit.Finding(nil) != nil {
		t.Error("a mark makes an error of nil")
	}
}
