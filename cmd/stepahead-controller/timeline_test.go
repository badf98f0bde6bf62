package main

import (
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/timeline"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/store/dir"
)

// TestTimeline: from what a job says and the controller does there is a timeline, and it is there again after the controller was killed.
func TestTimeline(t *testing.T) {
	w := newWorld(t)
	home, _, err := dir.Open(w.home, dir.Options{})
	must(t, err)
	defer home.Close()
	ledger, err := relay.Open(relay.Options{File: w.file("ledger")})
	must(t, err)
	defer ledger.Close()
	args := w.journaled("--ledger", w.file("ledger"), "--agents", "none", "--site-rate", "east=1MiB")
	first, _ := w.start(args...)
	c := w.client(w.addr)
	w.until("it acts", func() bool { return w.state(c) == "active" })

	const path = "/runs/7b/step-1"
	say := func(state hints.CheckpointState, change func(*relay.Checkpoint)) {
		r := relay.Record{
			ReceivedMS: time.Now().UnixMilli(), TTLMS: time.Hour.Milliseconds(), ID: hints.NewID(), Job: "eval", Run: "1", User: "ada", Confidence: 1,
			Checkpoint: &relay.Checkpoint{State: state.String(), Path: path, Step: -1, Evaluation: "e"},
		}
		change(r.Checkpoint)
		_, err := ledger.Append(t.Context(), r)
		must(t, err)
	}
	w.foretell(ledger, hints.Committed, path, w.checkpointAt(home, path), time.Hour)
	w.foretell(ledger, hints.EvaluationScheduled, path, "", time.Hour)
	w.until("the copy is there", func() bool { s, ok := w.standing(c, path); return ok && s.State == "live" })
	say(hints.EvaluationOpened, func(c *relay.Checkpoint) { c.Site = "east" })
	say(hints.EvaluationLoaded, func(*relay.Checkpoint) {})
	say(hints.EvaluationResult, func(c *relay.Checkpoint) { c.Result = &relay.Result{Metric: "loss", Regression: true} })
	say(hints.EvaluationDecided, func(c *relay.Checkpoint) { c.Decision = "rollback" })

	var before timeline.Evaluation
	known := func() bool {
		all, err := c.Timeline(t.Context(), path, "")
		if err != nil || len(all.Timelines) != 1 || len(all.Timelines[0].Evaluations) != 1 {
			return false
		}
		before = all.Timelines[0].Evaluations[0]
		return before.Decided != nil
	}
	w.until("all is known", known)
	if before.Read != timeline.ACopy || before.Regression == nil || before.Decision != "rollback" || before.CopyReady == nil || *before.CopyReady > *before.Opened {
		t.Errorf("%+v", before)
	}
	must(t, first.Process.Kill())
	_ = first.Wait()
	w.start(args...)
	c = w.client(w.addr)
	was := before
	w.until("all is known again", known)
	const rounding = 100 * time.Millisecond // records have milliseconds
	for name, d := range map[string][2]*time.Duration{
		"opened": {was.Opened, before.Opened}, "begun": {was.CopyBegun, before.CopyBegun}, "ready": {was.CopyReady, before.CopyReady}, "decided": {was.Decided, before.Decided},
	} {
		if d[1] == nil || (*d[0]-*d[1]).Abs() > rounding {
			t.Errorf("%s is %v after the restart, was %v", name, d[1], d[0])
		}
	}
	if len(before.Results) != 1 || before.Regression == nil || was.Read != before.Read {
		t.Errorf("after the restart %+v, before %+v", before, was)
	}
}
