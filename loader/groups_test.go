package loader

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/sampler"
)

// TestGroupedSteps: each rank gets its part of the step that sampler.Group says, of every sample exactly once an epoch, and
// the samples of a step are of about the same length.
func TestGroupedSteps(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	k.group = &sampler.GroupByLength{Column: "image.length", Steps: 6}
	spread := 0
	seen := map[uint64]int{}
	for rank := range 2 {
		o := k.options(t)
		o.World, o.Rank = 2, rank
		l := mustOpen(t, o)
		window, err := l.sampler.Group(0, func(ref sampler.SampleRef) (uint64, error) { return uint64(len(k.parts[ref.Sample])), nil })
		must(t, err)
		for step := range l.StepsPerEpoch() {
			got := nextIDs(t, l)
			same(t, step, got, window.Rank(step, rank, 2, nil))
			least, most := 1<<30, 0
			for _, ref := range got {
				seen[ref.Sample]++
				least, most = min(least, len(k.parts[ref.Sample])), max(most, len(k.parts[ref.Sample]))
			}
			spread += most - least
		}
	}
	if len(seen) != 48 || spread > 12*100 {
		t.Errorf("%d of 48 samples in an epoch; %d bytes between the shortest and the longest of a rank's step", len(seen), spread/12)
	}
}

// TestGroupColumns: any column of lengths will do, and a state tells them apart.
func TestGroupColumns(t *testing.T) {
	k := newKit(t, 48, 20, func(i int) (w, h uint32) { return uint32(i), 100 })
	k.beside(t, "more", 30, 1)
	orders := map[string]string{}
	var st sampler.State
	for _, column := range []string{"image.width", "image.height", "label", "caption"} {
		k.group = &sampler.GroupByLength{Column: column, Steps: 6}
		l := mustOpen(t, k.options(t))
		order := ""
		for range 6 {
			order += fmt.Sprint(nextIDs(t, l))
		}
		if other, twice := orders[order]; twice {
			t.Errorf("%s gives the order of %s", column, other)
		}
		orders[order] = column
		if st.Step > 0 && !mismatched(l.Load(st), `group by length: column "`) {
			t.Errorf("%s takes the state of another column", column)
		}
		st = l.State()
	}
	for column, want := range map[string]string{
		"weight": `group_by_length: the dataset "data": `, "image": "the columns of lengths here are image.{length, width", "image.offset": "no such field", "nothing": "label, caption",
	} {
		k.group = &sampler.GroupByLength{Column: column, Steps: 6}
		if _, err := Open(t.Context(), k.options(t)); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", column, err, want)
		}
	}
}

// TestGroupsOnAgents: agents cannot know the order, and are told the ids: all comes prepared.
func TestGroupsOnAgents(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	k.group = &sampler.GroupByLength{Column: "image.length", Steps: 4}
	c := newCluster(t, k, kitNodes...)
	o := c.options(t)
	pool := &fakePool{}
	o.Runner, o.CanaryEvery = pool, 1<<60
	l := mustOpen(t, o)
	c.warm(t, l)
	want := contents(t, mustOpen(t, k.options(t)), 30)
	if got := contents(t, l, 30); got != want {
		t.Error("other bytes than without agents")
	}
	if s := l.Stats(); s.Prepared != 30*8 || pool.runs.Load() != 0 {
		t.Errorf("%d prepared, %d made here: %v", s.Prepared, pool.runs.Load(), s.ByReason)
	}
	for _, a := range c.agents {
		a.mu.Lock()
		for _, h := range a.hints {
			if h.Schedule != nil && h.Schedule.Window == nil {
				t.Errorf("a schedule that has no ids: %+v", h.Schedule)
			}
		}
		a.mu.Unlock()
	}
}

// TestGroupsResumeWithinAWindow: by Resume or by Load, on other ranks, and back.
func TestGroupsResumeWithinAWindow(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	k.group = &sampler.GroupByLength{Column: "image.length", Steps: 4}
	l := mustOpen(t, k.options(t))
	var states []sampler.State
	var steps [][]sampler.SampleRef
	for range 12 {
		states = append(states, l.State())
		if _, err := l.Next(t.Context()); errors.Is(err, io.EOF) {
			t.Fatal("an epoch of 6 steps ended early")
		}
		must(t, l.Load(states[len(states)-1])) // what was delivered comes again
		steps = append(steps, nextIDs(t, l))
		if len(steps) == 6 {
			if _, err := l.Next(t.Context()); !errors.Is(err, io.EOF) {
				t.Fatalf("an epoch of 6 steps goes on: %v", err)
			}
		}
	}
	for at := len(states) - 1; at >= 0; at -= 3 {
		must(t, l.Load(states[at]))
		same(t, int64(at), nextIDs(t, l), steps[at])
		o := k.options(t)
		o.World, o.Rank, o.Resume = 4, 3, &states[at]
		same(t, int64(at), nextIDs(t, mustOpen(t, o)), steps[at][6:])
	}
}

// TestGroupsThatCannotBe are refused before anything is read.
func TestGroupsThatCannotBe(t *testing.T) {
	k := newKit(t, 20, 20, nil)
	k.group = &sampler.GroupByLength{Column: "label"}
	for want, change := range map[string]func(*Options){
		"group_by_length: the steps are given":        func(o *Options) { o.Given = true },
		"shuffle, last and group_by_length are in it": func(o *Options) { o.Spec = &sampler.Spec{} },
		"samples made of tokens are of one length":    func(o *Options) { o.Tokens, o.Plans = &TokenOptions{SequenceLength: 4}, nil },
	} {
		o := k.options(t)
		change(&o)
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
