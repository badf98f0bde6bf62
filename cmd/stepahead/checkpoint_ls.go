package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/store"
)

func newCheckpointLsCommand() *cobra.Command {
	var f checkpointFlags
	c := &cobra.Command{
		Use:   "ls URL",
		Short: "List the checkpoints in a folder, the newest first",
		Long: `List the checkpoints in a folder, the newest first by the number at the end of their names, or describe one: layout, whether it is
complete or why not, files, bytes and save id. Folders that hold no checkpoint are left out. What tracker files such as "latest" say is
not believed: one that names a checkpoint that is missing or not complete is said to.`,
		Example: `  stepahead checkpoint ls hdfs://ns/runs/7b
  stepahead checkpoint ls runs/7b --json | jq -r 'select(.complete) | .url' | head -1   # the newest that is whole`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCheckpointLs(cmd.Context(), args[0], f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(c)
	return c
}

// listedCheckpoint is one line of --json.
type listedCheckpoint struct {
	Name     string               `json:"name"`
	URL      string               `json:"url"`
	Step     *int64               `json:"step"`
	Layout   checkpoint.Layout    `json:"layout,omitempty"`
	SaveID   string               `json:"save_id,omitempty"`
	Complete bool                 `json:"complete"`
	Problems []checkpoint.Problem `json:"problems"`
	Doubts   []checkpoint.Problem `json:"doubts"`
	Files    int                  `json:"files"`
	Bytes    int64                `json:"bytes"`
	Identity string               `json:"identity,omitempty"`
	// Error is why it could not be read.
	Error string `json:"error,omitempty"`
}

func runCheckpointLs(ctx context.Context, url string, f checkpointFlags, out, errs io.Writer) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	p, err := openNamed(ctx, url)
	if err != nil {
		return fmt.Errorf("checkpoint ls: %w", err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	one, err := checkpoint.Open(ctx, p.Store, p.Name, f.options())
	if err == nil {
		return printCheckpoints(out, []listedCheckpoint{describeCheckpoint(one)}, nil, f.json)
	}
	if !errors.Is(err, checkpoint.ErrNone) {
		return codeOfCheckpoint(err)
	}
	candidates, err := checkpoint.Candidates(ctx, p.Store, p.Name)
	if err != nil {
		return fmt.Errorf("checkpoint ls: %w", err)
	}
	trackers, err := checkpoint.Trackers(ctx, p.Store, p.Name)
	if err != nil {
		return fmt.Errorf("checkpoint ls: %w", err)
	}
	var all []listedCheckpoint
	judged := judgeTrackers(trackers)
	for _, candidate := range candidates {
		c, err := checkpoint.Open(ctx, p.Store, candidate.Path, f.options())
		judged.see(candidate.Path, c, err)
		switch {
		case err == nil:
			all = append(all, describeCheckpoint(c))
		case errors.Is(err, checkpoint.ErrNone):
		case ctx.Err() != nil || store.ClassOf(err) == store.Retryable:
			return err
		default:
			all = append(all, listedCheckpoint{Name: path.Base(candidate.Path), URL: p.Store.Address(candidate.Path), Step: stepOrNull(candidate.Step), Error: err.Error()})
		}
	}
	if len(all) == 0 {
		fmt.Fprintf(errs, "checkpoint ls %s: no checkpoints: folders in it are looked at (%d), those in them are not\n", p.Store.Address(p.Name), len(candidates))
	}
	return printCheckpoints(out, all, judged.list(), f.json)
}

// listedTracker is one line of --json: a file that names the latest checkpoint.
type listedTracker struct {
	Tracker string `json:"tracker"`
	// Names is the name of the folder that it names; "" if it names none.
	Names   string              `json:"names"`
	Problem *checkpoint.Problem `json:"problem"`
}

// trackerJudge compares what trackers name with the checkpoints that are seen.
type trackerJudge struct {
	trackers []checkpoint.Tracker
	problems []*checkpoint.Problem
}

// judgeTrackers takes what a tracker names for missing until it is seen.
func judgeTrackers(trackers []checkpoint.Tracker) *trackerJudge {
	j := &trackerJudge{trackers: trackers}
	for _, t := range trackers {
		j.problems = append(j.problems, t.Judge(nil, fs.ErrNotExist))
	}
	return j
}

func (j *trackerJudge) see(name string, c *checkpoint.Checkpoint, err error) {
	for i, t := range j.trackers {
		if t.Names == name {
			j.problems[i] = t.Judge(c, err)
		}
	}
}

func (j *trackerJudge) list() []listedTracker {
	var all []listedTracker
	for i, t := range j.trackers {
		l := listedTracker{Tracker: path.Base(t.File), Problem: j.problems[i]}
		if t.Names != "" {
			l.Names = path.Base(t.Names)
		}
		all = append(all, l)
	}
	return all
}

func stepOrNull(step int64) *int64 {
	if step < 0 {
		return nil
	}
	return &step
}

func describeCheckpoint(c *checkpoint.Checkpoint) listedCheckpoint {
	return listedCheckpoint{
		Name: path.Base(c.Path), URL: c.URL(), Step: stepOrNull(c.Step), Layout: c.Layout, SaveID: c.SaveID, Complete: len(c.Problems) == 0,
		Problems: orEmpty(c.Problems), Doubts: orEmpty(c.Doubts), Files: len(c.Files), Bytes: c.Bytes(), Identity: c.Identity(),
	}
}

// orEmpty makes a list that JSON shows as one.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func printCheckpoints(out io.Writer, all []listedCheckpoint, trackers []listedTracker, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		for _, l := range all {
			if err := e.Encode(l); err != nil {
				return err
			}
		}
		for _, t := range trackers {
			if err := e.Encode(t); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "name\tstep\tlayout\tstate\tfiles\tbytes\tsave id\n")
	for _, l := range all {
		step, state := "-", "complete"
		if l.Step != nil {
			step = strconv.FormatInt(*l.Step, 10)
		}
		switch {
		case l.Error != "":
			state = "unreadable"
		case !l.Complete:
			state = "incomplete (" + l.Problems[0].Kind + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", printableName(l.Name), step, orDash(string(l.Layout)), state, l.Files, formatBytes(l.Bytes), orDash(printableName(l.SaveID)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, l := range all {
		if l.Error != "" {
			if _, err := fmt.Fprintf(out, "unreadable: %s\n", l.Error); err != nil {
				return err
			}
		}
	}
	for _, t := range trackers {
		if t.Problem != nil {
			if _, err := fmt.Fprintln(out, t.Problem); err != nil {
				return err
			}
		}
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
