package exit_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

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
		"too few":          {good[:4], nil, exit.Misused, "accepts 1 arg(s), received 0\nusage: prog group work FILE [flags] (prog group work --help says more)\n"},
		"unknown flag":     {append(good, "--colour"), nil, exit.Misused, "--colour"},
		"bad value":        {[]string{"group", "work", "--key"}, nil, exit.Misused, "needs an argument"},
		"unknown command":  {[]string{"steal"}, nil, exit.Misused, "steal"},
		"unknown of group": {[]string{"group", "steal"}, nil, exit.Misused, `unknown command "steal": ` + "`prog group --help`"},
		"group alone":      {[]string{"group"}, nil, exit.OK, ""},
		"escapes":          {good, errors.New("\x1b[31mred\x00\nand\tä"), exit.Environment, `prog: \x1b[31mred\x00` + "\nand\tä\n"},
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

// TestSecondSignalKills: a program that is stuck where no context reaches ends at the second signal.
func TestSecondSignalKills(t *testing.T) {
	if os.Getenv("STUCK") != "" {
		ctx, stop := exit.OnSignal()
		defer stop()
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("asked")
		select {}
	}
	c := exec.Command(os.Args[0], "-test.run=^TestSecondSignalKills$")
	c.Env = append(os.Environ(), "STUCK=1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, want := range []string{"ready", "asked"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, want %q", lines.Text(), want)
		}
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	again := time.AfterFunc(time.Second, func() { c.Process.Signal(syscall.SIGINT) }) // the second came before the first was done
	defer again.Stop()
	late := time.AfterFunc(20*time.Second, func() { c.Process.Kill() })
	defer late.Stop()
	err = c.Wait()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("%v, want killed by SIGINT", err)
	}
}
