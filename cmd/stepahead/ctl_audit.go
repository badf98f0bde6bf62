package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/control"
)

func newCtlAuditCommand(f *ctlFlags) *cobra.Command {
	var q control.AuditQuery
	var since string
	c := &cobra.Command{
		Use:   "audit",
		Short: "Print who did what, when, why, how much and until when",
		Long: `Print the audit log, the oldest line first: who did what, to which placement, why, how many bytes, and until when. Of the controller's doings the log has
a line when each begins ("make") and one when it is done ("made") or failed. A job's token shows the job's lines. The log itself is a file of JSON lines on the
controller's host (--audit), for when no controller answers.`,
		Example: `  stepahead ctl audit --since 2h
  stepahead ctl audit --path /runs/7b --json | jq -r 'select(.error) | .error'
  stepahead ctl audit --follow`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if q.SinceMS, err = sinceMS(since, time.Now()); err != nil {
				return exit.Usage(fmt.Errorf("ctl audit: --since %q: %w", since, err))
			}
			return f.follow(cmd.Context(), q, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&since, "since", "", "from when on: a length of time such as 2h, or a time such as 2027-01-02T15:04:05Z (default: all that is kept)")
	c.Flags().StringVar(&q.Job, "job", "", "only lines of a job")
	c.Flags().StringVar(&q.Path, "path", "", "only lines of a path, or of what lies below it")
	c.Flags().BoolVarP(&q.Follow, "follow", "f", false, "go on with the lines that come, until Ctrl-C")
	return c
}

// sinceMS reads a length of time before now, or a time, as milliseconds since 1970.
func sinceMS(text string, now time.Time) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d).UnixMilli(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, errors.New("give a length of time such as 2h, or a time such as 2027-01-02T15:04:05Z")
	}
	return at.UnixMilli(), nil
}

// follow prints lines as they come. With Follow it has no end but Ctrl-C or the controller's; without, only the controller has to be in time, not who reads the lines.
func (f *ctlFlags) follow(ctx context.Context, q control.AuditQuery, out io.Writer) (err error) {
	c, err := f.client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(f.timeout, cancel)
	defer silence.Stop()
	if q.Follow {
		silence.Stop()
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	err = c.Audit(call, q, func(l audit.Line) error {
		if silence.Stop() {
			defer silence.Reset(f.timeout)
		}
		if f.json {
			return e.Encode(l)
		}
		return printLine(out, l)
	})
	switch {
	case ctx.Err() != nil && q.Follow:
		return nil
	case ctx.Err() == nil && call.Err() != nil:
		err = fmt.Errorf("no answer for %s: %w", f.timeout, context.DeadlineExceeded)
	}
	return explained(err)
}

func printLine(out io.Writer, l audit.Line) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", l.At.UTC().Format("2006-01-02T15:04:05.000Z"), named(l.Who), named(l.What))
	word := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, " %s%s", name, printableName(text))
		}
	}
	if l.Placement != 0 {
		word("", number(l.Placement))
	}
	word("", string(l.Means))
	word("", l.Path)
	word("-> ", l.Site)
	word("job=", l.Job)
	if l.Bytes > 0 {
		word("", "bytes="+fmt.Sprint(l.Bytes))
	}
	if l.Reused > 0 {
		word("", "reused="+fmt.Sprint(l.Reused))
	}
	if !l.Until.IsZero() {
		word("until=", l.Until.UTC().Format(time.RFC3339))
	}
	if l.Took > 0 {
		word("took=", span(l.Took))
	}
	if l.Why != "" {
		fmt.Fprintf(&b, ": %s", oneLine(l.Why))
	}
	if l.Err != "" {
		fmt.Fprintf(&b, " FAILED: %s", oneLine(l.Err))
	}
	_, err := fmt.Fprintln(out, b.String())
	return err
}
