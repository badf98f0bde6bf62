package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/checkpoint/watch"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/lifecycle"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

func newCheckpointWatchCommand() *cobra.Command {
	var f watchFlags
	c := &cobra.Command{
		Use:   "watch URL",
		Short: "Print checkpoints in a folder as they are committed or deleted",
		Long: `Watch a folder and print a line for each checkpoint that is complete for the first time, or in another version, and for each that is deleted.
The folder is listed once an interval; only folders that are new or have changed are looked into, at most four after a listing. What cannot be
read now is said on standard error and tried again. Ends with Ctrl-C, or after --count lines. With --announce the agents beside the store are
told too, as a job would (STEPAHEAD_TOKEN is sent to them): for teams that do not touch their code.`,
		Example: `  stepahead checkpoint watch hdfs://ns/runs/7b --json
  stepahead checkpoint watch runs/7b --recent 0 --count 1   # wait for the next one
  stepahead checkpoint watch hdfs://ns/runs/7b --announce --job 7b`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCheckpointWatch(cmd.Context(), args[0], f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.Flags().BoolVar(&f.json, "json", false, "print JSON, one object a line")
	c.Flags().IntVar(&f.world, "world-size", 0, "the number of ranks that save, where checkpoints do not say")
	c.Flags().DurationVar(&f.settle, "settle", 30*time.Second, "where the number of ranks is not known, how long files must not change to be taken for all there are")
	c.Flags().DurationVar(&f.interval, "interval", 10*time.Second, "time between two listings of the folder")
	c.Flags().IntVar(&f.recent, "recent", 4, "how many of the checkpoints that are there already are printed, the newest; -1: all")
	c.Flags().BoolVar(&f.announce, "announce", false, "tell the agents of the store, who keep it for the controller")
	c.Flags().StringVar(&f.job, "job", "", "with --announce, the job that speaks (default: the token's, or \"watch\")")
	c.Flags().StringVar(&f.ca, "ca", "", "with --announce, PEM file with the authority that signs the agents' certificates (default: STEPAHEAD_CA)")
	c.Flags().IntVar(&f.count, "count", 0, "end after so many lines; 0: never")
	return c
}

type watchFlags struct {
	json, announce       bool
	job, ca              string
	world, recent, count int
	settle, interval     time.Duration
}

func (f watchFlags) options(errs io.Writer) watch.Options {
	return watch.Options{
		Interval: f.interval, Recent: f.recent, WorldSize: f.world, Settle: f.settle,
		Report: func(err error) { fmt.Fprintln(errs, "checkpoint watch:", err) },
	}
}

// watchedCheckpoint is one line of --json. Of one that is deleted only the name is known.
type watchedCheckpoint struct {
	Event string `json:"event"`
	listedCheckpoint
}

type deletedCheckpoint struct {
	Event string `json:"event"`
	Name  string `json:"name"`
	URL   string `json:"url"`
}

// errCounted ends a watch after its last line.
var errCounted = errors.New("as many lines as asked for")

func runCheckpointWatch(ctx context.Context, url string, f watchFlags, out, errs io.Writer) (err error) {
	if f.count < 0 || f.interval < time.Millisecond || f.interval > time.Hour || f.settle <= 0 || f.world < 0 {
		return exit.Usage(errors.New("checkpoint watch: --interval must be 1ms to 1h, --settle positive, and --count and --world-size not negative"))
	}
	p, err := openNamed(ctx, url)
	if err != nil {
		return fmt.Errorf("checkpoint watch: %w", err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var announcer *lifecycle.Announcer
	if f.announce {
		if announcer, err = f.announcer(p, errs); err != nil {
			return exit.Usage(fmt.Errorf("checkpoint watch: --announce: %w", err))
		}
		defer func() { err = errors.Join(err, lastWords(announcer)) }()
	}
	printed := 0
	err = watch.Watch(ctx, p.Store, p.Name, f.options(errs), func(e watch.Event) error {
		if err := printWatched(out, p, e, f.json); err != nil {
			return err
		}
		if err := announceWatched(announcer, p, e); err != nil {
			return err
		}
		if printed++; printed == f.count {
			return errCounted
		}
		return nil
	})
	if errors.Is(err, errCounted) || ctx.Err() != nil {
		return nil
	}
	return err
}

func printWatched(out io.Writer, p *address.Place, e watch.Event, asJSON bool) error {
	name := path.Base(e.Path)
	if e.Checkpoint == nil {
		if asJSON {
			return json.NewEncoder(out).Encode(deletedCheckpoint{string(e.Kind), name, p.Store.Address(e.Path)})
		}
		_, err := fmt.Fprintf(out, "%s %s\n", e.Kind, printableName(name))
		return err
	}
	l := describeCheckpoint(e.Checkpoint)
	if asJSON {
		return json.NewEncoder(out).Encode(watchedCheckpoint{string(e.Kind), l})
	}
	_, err := fmt.Fprintf(out, "%s %s %s, %s, %s\n", e.Kind, printableName(name), l.Layout, counted(l.Files, "file"), formatBytes(l.Bytes))
	return err
}

// announcer tells the agents of a store.
func (f watchFlags) announcer(p *address.Place, errs io.Writer) (*lifecycle.Announcer, error) {
	o := lifecycle.Options{
		Open:  func(context.Context) (store.Store, error) { return p.Store, nil },
		Token: os.Getenv("STEPAHEAD_TOKEN"), Job: f.job, Run: hints.NewID(),
		Report: func(err error) { fmt.Fprintln(errs, "checkpoint watch:", err) },
	}
	if o.Token == "" && o.Job == "" {
		o.Job = "watch"
	}
	if ca := cmp.Or(f.ca, os.Getenv("STEPAHEAD_CA")); ca != "" {
		var err error
		if o.TLS, err = hints.ClientTLS(ca, os.Getenv("STEPAHEAD_CLIENT_CERT"), os.Getenv("STEPAHEAD_CLIENT_KEY")); err != nil {
			return nil, err
		}
	}
	return lifecycle.New(o)
}

// announceWatched has agents told, if there is an announcer.
func announceWatched(a *lifecycle.Announcer, p *address.Place, e watch.Event) error {
	if a == nil {
		return nil
	}
	h := hints.Hint{Checkpoint: &hints.Checkpoint{State: hints.Deleted, Path: p.Store.Address(e.Path), Step: -1}}
	if e.Checkpoint != nil {
		h.Checkpoint.State = hints.Committed
		e.Checkpoint.Foretell(&h)
	}
	return a.Say(h, nil)
}

// lastTime is how long the end of a watch waits for what was said last.
const lastTime = 5 * time.Second

// lastWords lets what was said last be told. What could not be was reported.
func lastWords(a *lifecycle.Announcer) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	err := a.Flush(ctx)
	a.Close()
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
