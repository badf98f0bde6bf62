package plan

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// told is a planner that knows what it has to, and what it decided.
type told struct {
	p   *Planner
	now time.Duration
	all []Action
}

func newTold() *told {
	w := &told{p: New(Options{Home: "home"})}
	w.say(ClusterChanged{Cluster{Nodes: 40, Free: 1 << 50, NodeRate: 100e6, ReadersPerSource: 8, MaxReplication: 512}})
	w.say(PricesChanged{Prices{AcceleratorHour: 2}})
	w.say(PolicyChanged{rules{}})
	w.say(BudgetsChanged{ample()})
	w.say(SiteChanged{Site{Name: "east", Up: true, Writable: true, Free: 1 << 62, RemoteRate: 50e6, LocalRate: 2e9}})
	return w
}

// say tells the planner one thing, until it comes to rest.
func (w *told) say(ev Event) {
	for {
		w.all = append(w.all, w.p.Step(ev, w.now)...)
		if at, ok := w.p.Wake(); !ok || at > w.now {
			return
		}
		ev = Tick{}
	}
}

// hint says something of a checkpoint, or its evaluation at a site.
func (w *told) hint(path string, state hints.CheckpointState, site string) {
	c := &relay.Checkpoint{State: state.String(), Path: path, Site: site, Step: -1}
	if state.OfEvaluation() {
		c.Evaluation = "e" + site
	}
	w.say(Hint{Record: relay.Record{
		Version: 1, ID: fmt.Sprint(path, state, site), Job: "train", Run: "a", Confidence: 1, TTLMS: time.Hour.Milliseconds(), Identity: "v1", Checkpoint: c,
	}})
}

// copied has a checkpoint copied to east.
func (w *told) copied(path string, bytes int64) {
	w.hint(path, hints.Committed, "")
	w.hint(path, hints.EvaluationScheduled, "east")
	w.say(Inspected{Checkpoint{Path: path, Identity: "v1", Complete: true, Bytes: bytes}})
}

// last returns the last action of a type, and how many there are.
func last[A Action](w *told) (a A, n int) {
	for _, one := range w.all {
		if is, ok := one.(A); ok {
			a, n = is, n+1
		}
	}
	return a, n
}

// TestSitesThatNobodyKnows: evaluations name sites as they like, which is refused, and remembered no longer than the evaluations.
func TestSitesThatNobodyKnows(t *testing.T) {
	w := newTold()
	known := len(w.p.pools)
	w.hint("/ck/1", hints.Committed, "")
	w.say(Inspected{Checkpoint{Path: "/ck/1", Identity: "v1", Complete: true, Bytes: 1 << 30}})
	const sites = 100
	for n := range sites {
		w.hint("/ck/1", hints.EvaluationScheduled, fmt.Sprint("host", n))
		w.now += time.Millisecond
		w.hint("/ck/1", hints.EvaluationOpened, fmt.Sprint("host", n))
	}
	if r, n := last[Refuse](w); n != sites || r.Reason != ReasonSite {
		t.Errorf("%d refusals, the last: %v", n, r)
	}
	if n := len(w.p.jobs["train"].history); n != 0 {
		t.Errorf("%d sites are in the job's history", n)
	}
	for w.now < 2*time.Hour {
		w.now += time.Minute
		w.say(Tick{})
	}
	if n := len(w.p.pools); n != known {
		t.Errorf("%d pools are there after the evaluations, %d before", n, known)
	}
	w.copied("/ck/2", 1<<30)
	if a, n := last[Make](w); n != 1 || a.Site != "east" {
		t.Errorf("%d copies, the last: %v", n, a)
	}
}

// TestNoTryIsLost: an action that failed is tried again at its time, also where so much else is to be decided then that it is not looked at in the same step.
func TestNoTryIsLost(t *testing.T) {
	w := newTold()
	w.copied("/ck/1", 1<<30)
	made, n := last[Make](w)
	if n != 1 {
		t.Fatalf("%d makings", n)
	}
	w.now = time.Second
	w.say(Failed{ID: made.ID, Action: "make", Reason: ReasonFailed, Detail: "the link"})
	start := &relay.Start{Ranks: 4, RanksPerHost: 1, ExpectedInMS: 1800e3}
	for n := range 2 * mostAtOnce {
		start.Files = append(start.Files, relay.HotFile{Path: fmt.Sprint("/hot/", n), Readers: 4})
	}
	w.say(Hint{Record: relay.Record{Version: 1, ID: "s", Job: "other", Run: "a", Confidence: 1, TTLMS: time.Hour.Milliseconds(), Start: start}})
	w.now = 10 * time.Second // the try is due
	w.say(PolicyChanged{rules{}})
	if a, n := last[Pace](w); n != 1 || a.ID != made.ID || a.Rate == 0 {
		t.Errorf("%d times it goes on, the last: %v", n, a)
	}
}

// TestSpansAreBounded: no length of time is so long that it becomes a negative one.
func TestSpansAreBounded(t *testing.T) {
	for _, seconds := range []float64{0, 1, 1e9, 1e12, 1e30, math.Inf(1)} {
		if d := span(seconds); d < 0 || d+d/4 < d || float64(d) > seconds*1e9 {
			t.Errorf("%v seconds are %v", seconds, d)
		}
	}
	l := newPool("east")
	l.limit.rate, l.limit.slots = 1, 1
	if d := l.predicted(1 << 62); d <= 0 || d+d/4 < d {
		t.Errorf("2^62 bytes at one a second take %v", d)
	}
	w := newTold()
	w.say(SiteChanged{Site{Name: "east", Up: true, Writable: true, Free: 1 << 62, RemoteRate: 1, LocalRate: 2e9}})
	w.copied("/ck/1", 1<<49)
	if a, n := last[Make](w); n != 1 {
		t.Errorf("what is read at a byte a second is not copied: %d, %v, %v", n, a, w.all)
	}
}

// TestHintsOfADeadJob: what a run announced that has ended is heard and nothing is done for it, whichever of both comes first.
func TestHintsOfADeadJob(t *testing.T) {
	start := func(id string) Hint {
		return Hint{Record: relay.Record{
			Version: 1, ID: id, Job: "train", Run: "a", Confidence: 1, TTLMS: time.Hour.Milliseconds(),
			Start: &relay.Start{Ranks: 64, RanksPerHost: 8, Files: []relay.HotFile{{Path: "/hot", Readers: 64}}},
		}}
	}
	for name, first := range map[string][]Event{"the end first": {JobEnded{"train", "a"}, start("1")}, "again after the end": {start("1"), JobEnded{"train", "a"}, start("1"), start("2")}} {
		w := newTold()
		for _, ev := range first {
			w.say(ev)
			w.now += time.Second
		}
		w.say(Looked{[]File{{Path: "/hot", Identity: "v1", Size: 64 << 20, Blocks: 1, Replicas: 3}}})
		w.now += time.Minute
		w.say(Tick{})
		if a, n := last[Make](w); n > 0 {
			t.Errorf("%s: %v", name, a)
		}
		if len(w.p.files) > 0 || len(w.p.placements) > 0 {
			t.Errorf("%s: %d files and %d placements are remembered", name, len(w.p.files), len(w.p.placements))
		}
	}
}

// TestAClusterOfWhichNothingIsKnown: what there is stays while the cluster does not answer, but for policy, and nothing new is made.
func TestAClusterOfWhichNothingIsKnown(t *testing.T) {
	w := newTold()
	read := func(path string) {
		w.say(Hint{Record: relay.Record{
			Version: 1, ID: path, Job: path, Run: "a", Confidence: 1, TTLMS: time.Hour.Milliseconds(),
			Start: &relay.Start{Ranks: 64, RanksPerHost: 8, ExpectedInMS: 60_000, Files: []relay.HotFile{{Path: path, Readers: 64}}},
		}})
		w.say(Looked{[]File{{Path: path, Identity: "v1", Size: 64 << 20, Blocks: 1, Replicas: 3}}})
		w.now += 50 * time.Second
		w.say(Tick{})
	}
	read("/hot/1")
	made, n := last[Make](w)
	if n != 1 || made.Means != Sibling {
		t.Fatalf("%d makings, the last: %v", n, made)
	}
	w.say(Done{ID: made.ID, Action: "make"})
	w.say(Done{ID: made.ID, Action: "publish"})
	w.say(ClusterChanged{})
	read("/hot/2")
	if a, n := last[Withdraw](w); n > 0 {
		t.Errorf("%v", a)
	}
	if a, n := last[Make](w); n != 1 {
		t.Errorf("%v", a)
	}
	w.say(PolicyChanged{})
	if a, n := last[Withdraw](w); n != 1 || a.ID != made.ID {
		t.Errorf("what policy does not allow any more stays: %d, %v", n, a)
	}
}

// TestHintsFromTheFuture: what an agent says to have taken in the future, or long ago, it took now, or not at all: nothing lasts longer for it.
func TestHintsFromTheFuture(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		-1000 * time.Hour: time.Hour, -time.Nanosecond: time.Hour, 0: time.Hour, 20 * time.Minute: 40 * time.Minute, 2 * time.Hour: 0, 25 * time.Hour: 0, math.MaxInt64: 0,
	} {
		w := newTold()
		w.now = 30 * time.Hour
		for _, c := range []relay.Checkpoint{{State: "committed", Path: "/ck/1"}, {State: "evaluation-scheduled", Path: "/ck/1", Evaluation: "e", Site: "east"}} {
			w.say(Hint{Age: age, Record: relay.Record{
				Version: 1, ID: c.State, Job: "train", Run: "a", Confidence: 1, TTLMS: time.Hour.Milliseconds(), Identity: "v1", Checkpoint: &c,
			}})
		}
		w.say(Inspected{Checkpoint{Path: "/ck/1", Identity: "v1", Complete: true, Bytes: 1 << 30}})
		if a, n := last[Make](w); a.Lease != want || (n > 0) != (want > 0) {
			t.Errorf("%v old: %d makings, the last: %v", age, n, a)
		}
	}
}
