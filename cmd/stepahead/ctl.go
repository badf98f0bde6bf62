package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
)

func newCtlCommand() *cobra.Command {
	var f ctlFlags
	c := &cobra.Command{
		Use:   "ctl",
		Short: "See what a controller does, and take it back",
		Long: `See what a stepahead-controller does, and take it back: copies of checkpoints at other sites, and more sources of hot files.

  What is going on?                   stepahead ctl status
  What is there, what waits, why?     stepahead ctl plan
  Why this one, or why not?           stepahead ctl why /runs/7b/step-500
  Did evaluations wait for storage?   stepahead ctl timeline --job 7b
  Take this one back                  stepahead ctl revoke 17
  Let nothing new begin               stepahead ctl drain          (and again: --off)
  Take everything back                stepahead ctl sweep --all
  The same while no controller runs   stepahead ctl sweep --all --store hdfs://prod/ --site east=hdfs://east/
  Who did what, when, why?            stepahead ctl audit --since 2h

What changes something takes --dry-run, which changes nothing and says what would be. All take --json. Nothing of this touches an original: what is taken back
are copies and replicas, and readers then read the original.

The controller is at --controller or STEPAHEAD_CONTROLLER, its line at the start says where. A token goes into STEPAHEAD_TOKEN (stepahead token mint
--key agent.key --job ops --user YOU --rights operate --root /); with a job's own token (--rights hint) its placements are seen and taken back. Exit codes: 0 done, 1 something is
wrong with the controller (status), or left (sweep), 2 a mistake on the command line, 3 it does not answer, refuses, or has no such thing; of sweep also: a store did not answer.`,
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.add(c)
	c.AddCommand(newCtlStatusCommand(&f), newCtlPlanCommand(&f), newCtlWhyCommand(&f), newCtlTimelineCommand(&f), newCtlRevokeCommand(&f), newCtlDrainCommand(&f), newCtlSweepCommand(&f),
		newCtlAuditCommand(&f))
	return c
}

// ctlFlags say which controller, and how to print.
type ctlFlags struct {
	controller, token, ca, cert, key string
	timeout                          time.Duration
	json                             bool
}

func (f *ctlFlags) add(c *cobra.Command) {
	flags := c.PersistentFlags()
	flags.StringVar(&f.controller, "controller", "", "host:port of the controller (default: STEPAHEAD_CONTROLLER)")
	flags.StringVar(&f.token, "token", "", "token that says what you may do; better in STEPAHEAD_TOKEN, which others on this host do not see")
	flags.StringVar(&f.ca, "ca", "", "PEM file with the authority that signed the controller's certificate (default: STEPAHEAD_CA)")
	flags.StringVar(&f.cert, "client-cert", "", "PEM file with your certificate, for a controller that asks for one (default: STEPAHEAD_CLIENT_CERT)")
	flags.StringVar(&f.key, "client-key", "", "PEM file with its private key (default: STEPAHEAD_CLIENT_KEY)")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to wait for an answer")
	flags.BoolVar(&f.json, "json", false, "print JSON")
}

// client connects to the controller.
func (f *ctlFlags) client() (*control.Client, error) {
	addr := cmp.Or(f.controller, os.Getenv("STEPAHEAD_CONTROLLER"))
	if addr == "" {
		return nil, exit.Usage(errors.New("ctl: which controller? Give --controller HOST:PORT or STEPAHEAD_CONTROLLER: the line that it prints at its start says where it listens"))
	}
	o := control.ClientOptions{Token: cmp.Or(f.token, os.Getenv("STEPAHEAD_TOKEN"))}
	ca := cmp.Or(f.ca, os.Getenv("STEPAHEAD_CA"))
	switch {
	case ca != "":
		var err error
		o.TLS, err = hints.ClientTLS(ca, cmp.Or(f.cert, os.Getenv("STEPAHEAD_CLIENT_CERT")), cmp.Or(f.key, os.Getenv("STEPAHEAD_CLIENT_KEY")))
		if err != nil {
			return nil, fmt.Errorf("ctl: %w", err)
		}
	case !auth.Loopback(addr):
		return nil, exit.Usage(fmt.Errorf("ctl: --controller %s is no loopback address (or no host:port), and others are spoken to over TLS only: give --ca or STEPAHEAD_CA", addr))
	}
	return control.NewClient(addr, o), nil
}

// ask makes one call, in time.
func (f *ctlFlags) ask(ctx context.Context, call func(ctx context.Context, c *control.Client) error) error {
	return f.askFor(ctx, f.timeout, call)
}

func (f *ctlFlags) askFor(ctx context.Context, limit time.Duration, call func(ctx context.Context, c *control.Client) error) (err error) {
	c, err := f.client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return explained(call(ctx, c))
}

// explained says what to do about an error of a call.
func explained(err error) error {
	hint := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, control.ErrInvalid):
		return exit.Usage(err)
	case errors.Is(err, control.ErrDenied):
		hint = "your token is in STEPAHEAD_TOKEN, or --token"
	case errors.Is(err, control.ErrStandby):
		hint = "ask the active one; its host is in the log of this one"
	case errors.Is(err, control.ErrUnreachable):
		hint = "is it running, and is this its address? Without one: stepahead ctl sweep --all --store URL"
	case errors.Is(err, context.DeadlineExceeded):
		hint = "it is there and does not answer: its log says why; --timeout waits longer"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, hint)
}

// printIndented writes a value for programs.
func printIndented(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// span is a length of time for people.
func span(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%s%dd%dh", sign, int(d.Hours())/24, int(d.Hours())%24)
	case d >= time.Hour:
		return fmt.Sprintf("%s%dh%02dm", sign, int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%s%dm%02ds", sign, int(d.Minutes()), int(d.Seconds())%60)
	}
	return sign + d.Round(100*time.Millisecond).String()
}

// named is a word for a column that may be empty.
func named(text string) string { return cmp.Or(printableName(text), "-") }

// oneLine is a text without anything that speaks to a terminal.
func oneLine(text string) string {
	if t := printableName(text); t != text {
		return strings.Trim(t, `"`)
	}
	return text
}
