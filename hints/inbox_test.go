package hints

import (
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func take(b *Inbox, h Hint) Reply {
	if r, handle := b.Admit(h); !handle {
		return r
	}
	b.Done(h, Accept())
	return Accept()
}

func inRun(run string, h Hint) Hint { h.Run = run; return h }

// TestInbox is row 20 of the fault matrix: replay, disorder, an old run id.
func TestInbox(t *testing.T) {
	b := NewInbox()
	first := schedule()
	if r, handle := b.Admit(first); !handle {
		t.Fatalf("a new hint is answered with %+v", r)
	}
	if old := b.Done(first, Refuse(ReasonBusy, "")); old != "" {
		t.Fatalf("a refused schedule replaces %q", old)
	}
	if _, handle := b.Admit(first); !handle {
		t.Fatal("a refused hint cannot be sent again")
	}
	b.Done(first, Accept())
	if r, handle := b.Admit(first); handle || !r.Accepted {
		t.Fatalf("repeated: handled %t, %+v", handle, r)
	}
	second := inRun("run-2", schedule())
	if _, handle := b.Admit(second); !handle {
		t.Fatal("a new run is refused")
	}
	if old := b.Done(second, Accept()); old != "run-1" {
		t.Fatalf("the new run replaces %q, want run-1", old)
	}
	if r := take(b, of(Hint{Progress: &Progress{}})); r.Reason != ReasonOldRun {
		t.Errorf("progress of the old run: %+v", r)
	}
	if r := take(b, schedule()); r.Reason != ReasonOldRun {
		t.Errorf("late schedule of the old run: %+v", r)
	}
	if r := take(b, inRun("run-2", of(Hint{Close: &Close{}}))); !r.Accepted {
		t.Errorf("close: %+v", r)
	}
	if r := take(b, inRun("run-2", of(Hint{Progress: &Progress{}}))); r.Reason != ReasonOldRun {
		t.Errorf("progress after close: %+v", r)
	}
	other := schedule()
	other.Job = "another"
	if r := take(b, other); !r.Accepted {
		t.Errorf("another job with the same run id: %+v", r)
	}
}

// TestInboxAnyOrder: however hints are repeated and reordered, each is handled at most once, and none of
// an old run after its successor was seen.
func TestInboxAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewInbox()
		handled := map[string]bool{}
		newest := 0
		for range rapid.IntRange(1, 60).Draw(t, "hints") {
			run := rapid.IntRange(1, 4).Draw(t, "run")
			h := schedule()
			h.Run, h.ID = fmt.Sprint("run-", run), fmt.Sprint(run, "-", rapid.IntRange(0, 3).Draw(t, "id"))
			if _, handle := b.Admit(h); !handle {
				continue
			}
			if handled[h.ID] {
				t.Fatalf("%s is handled twice", h.ID)
			}
			handled[h.ID] = true
			if replaced := b.Done(h, Accept()); replaced == "" && newest != 0 && newest != run {
				t.Fatalf("run %d came after %d and replaced nothing", run, newest)
			}
			newest = run
		}
	})
}

// TestInboxCheckpoints: of what is said about a checkpoint, the late is answered and not handled; of others, and without a number, nothing is
// late; and the close of a run does not end what may be said, a new run does.
func TestInboxCheckpoints(t *testing.T) {
	b := NewInbox()
	say := func(state CheckpointState, path, evaluation string, sequence uint64) Hint {
		h := of(Hint{Checkpoint: &Checkpoint{State: state, Path: path, Evaluation: evaluation, Sequence: sequence}})
		h.ID = NewID()
		return h
	}
	found := func(path, evaluation, metric string, sequence uint64) Hint {
		h := say(EvaluationResult, path, evaluation, sequence)
		h.Checkpoint.Result = &Result{Metric: metric}
		return h
	}
	for i, row := range []struct {
		h      Hint
		handle bool
	}{
		{say(Committed, "/a", "", 5), true},
		{say(Saving, "/a", "", 4), false},
		{say(Committed, "/a", "", 5), false},
		{say(Saving, "/b", "", 4), true},
		{say(EvaluationScheduled, "/a", "", 1), true},
		{say(EvaluationCancelled, "/a", "x", 3), true},
		{say(EvaluationScheduled, "/a", "x", 2), false},
		{say(EvaluationScheduled, "/a", "x", 4), true},
		{found("/a", "x", "loss", 3), true}, // results and decisions stand for themselves
		{found("/a", "x", "acc", 2), true},
		{found("/a", "x", "loss", 2), false},
		{say(EvaluationDecided, "/a", "x", 1), true},
		{say(EvaluationLoaded, "/a", "x", 1), true},
		{say(Saving, "/a", "", 0), true},
		{say(Saving, "/a", "", 6), true},
	} {
		r, handle := b.Admit(row.h)
		if handle != row.handle || !handle && (!r.Accepted || r.Detail == "") {
			t.Errorf("%d: handled %t, %+v", i, handle, r)
		}
		if handle {
			b.Done(row.h, Accept())
		}
	}
	take(b, schedule())
	take(b, of(Hint{Close: &Close{}}))
	for _, h := range []Hint{say(Committed, "/last", "", 9), of(Hint{Start: &Start{}})} {
		h.ID = NewID()
		if r := take(b, h); !r.Accepted {
			t.Errorf("after the close: %+v", r)
		}
	}
	take(b, inRun("run-2", schedule()))
	take(b, inRun("run-3", schedule()))
	if r := take(b, inRun("run-2", say(Committed, "/late", "", 9))); r.Reason != ReasonOldRun {
		t.Errorf("of a run that was replaced: %+v", r)
	}
}

func TestCheckpointStates(t *testing.T) {
	for s := Saving; s <= lastState; s++ {
		if got, ok := ParseCheckpointState(s.String()); !ok || got != s {
			t.Errorf("%d is %q, which is %d, %t", s, s, got, ok)
		}
	}
	if _, ok := ParseCheckpointState("unknown"); ok || CheckpointState(0).String() != "unknown" || LossSpike.String() != "loss-spike" || !EvaluationDone.OfEvaluation() || Deleted.OfEvaluation() ||
		LossSpike.OfEvaluation() || !EvaluationDecided.OfEvaluation() || EvaluationDone.Outcome() || !EvaluationLoaded.Outcome() || EvaluationDecided.String() != "evaluation-decided" {
		t.Error("names of states")
	}
}

// TestInboxStorm: however many hints come, they take bounded memory.
func TestInboxStorm(t *testing.T) {
	b := NewInbox()
	h := Hint{Job: "j", Run: "r", Progress: &Progress{}}
	for i := range 3 * inboxHints {
		h.ID = strconv.Itoa(i)
		if r := take(b, h); !r.Accepted {
			t.Fatalf("hint %d: %+v", i, r)
		}
	}
	if n := b.seen.Len(); n != inboxHints {
		t.Errorf("%d hints remembered, at most %d", n, inboxHints)
	}
	h.ID = strconv.Itoa(3*inboxHints - 1)
	if _, handle := b.Admit(h); handle {
		t.Error("the latest hint is forgotten")
	}
}
