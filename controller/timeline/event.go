// Package timeline knows what happened to a checkpoint between its commit and what was decided because of its evaluation, and which part of that time
// storage is to blame for.
//
// # Whose clock
//
// All moments are of the controller's monotonic clock. What a job said is dated back: by how long ago it was when the hint was sent, which the job's host measured
// (ago_ms), and by how long the agent had it, which the agent's host measured (age_ms). No two clocks are compared; the error of a moment is the time of two
// transmissions: of the hint, at most the 2 s that a call may take, and of the record to the controller. What the controller did has no such error,
// unless it was read from the audit log after a restart: then it is dated by the wall clock of the controller's host, as is by that of the agent's host what an agent
// took before its own restart, and a clock that was set in between is an error of as much.
package timeline

import (
	"fmt"
	"time"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
)

// Kind is what happened: a state of a checkpoint or evaluation by the name that hints give it, or what the controller did.
type Kind string

// What the controller did about a copy.
const (
	CopyBegun Kind = "copy-begun"
	CopyReady Kind = "copy-ready"
	CopyGone  Kind = "copy-gone"
)

// Event is something that happened to a checkpoint.
type Event struct {
	// ID names it: of two events with the same id the earlier counts, and no other is looked at.
	ID   string
	Kind Kind
	// At is when, by the controller's clock.
	At   time.Duration
	Path string
	// Job and Identity are the speaker's job and the version; of what the controller did Identity is "".
	Job, Identity string
	Step          int64 // -1: not known
	// Evaluation and Site are of evaluations; Site and Placement of copies.
	Evaluation, Site string
	Placement        plan.ID
	// Expected is when an evaluation that was scheduled is to open the checkpoint.
	Expected time.Duration
	Result   *Result
	Decision string
}

// Result is one thing that an evaluation has found, At after the commit.
type Result struct {
	Metric     string        `json:"metric,omitempty"`
	Value      *float64      `json:"value,omitempty"`
	Regression bool          `json:"regression"`
	At         time.Duration `json:"at_ns"`
}

// OfHint is the event that a hint tells of; false if it tells of none.
func OfHint(h plan.Hint, now time.Duration) (Event, bool) {
	c := h.Record.Checkpoint
	if c == nil {
		return Event{}, false
	}
	state, known := hints.ParseCheckpointState(c.State)
	if !known || state == hints.LossSpike {
		return Event{}, false
	}
	at := now - max(h.Age, 0) - time.Duration(max(c.AgoMS, 0))*time.Millisecond
	ev := Event{ // hints have milliseconds
		ID: h.Record.ID, Kind: Kind(c.State), At: at.Round(time.Millisecond), Path: c.Path, Job: h.Record.Job,
		Identity: h.Record.Identity, Step: c.Step, Evaluation: c.Evaluation, Site: c.Site, Decision: c.Decision,
	}
	ev.Expected = ev.At + time.Duration(c.ExpectedInMS)*time.Millisecond
	if c.Result != nil {
		ev.Result = &Result{Metric: c.Result.Metric, Value: c.Result.Value, Regression: c.Result.Regression}
	}
	return ev, true
}

// OfAudit is the event that a line of the audit log tells of, when it is now and by the wall clock; false if it tells of none.
func OfAudit(e audit.Entry, now time.Duration, wall time.Time) (Event, bool) {
	kinds := map[string]Kind{"make": CopyBegun, "published": CopyReady, "withdraw": CopyGone, "withdrawn": CopyGone, "remove": CopyGone}
	kind, known := kinds[e.What]
	if !known || e.Means != plan.Copy || e.Err != "" {
		return Event{}, false
	}
	return Event{
		ID: fmt.Sprintf("%s %d %d", kind, e.Placement, e.At.UnixNano()), Kind: kind, At: now - wall.Sub(e.At), Path: e.Path, Job: e.Job, Step: -1, Site: e.Site, Placement: e.Placement,
	}, true
}
