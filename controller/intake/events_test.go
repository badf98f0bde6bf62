package intake

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

func at(moment time.Duration, r relay.Record) taken {
	return taken{r, 1000*time.Second - moment, moment}
}

func start(run, id string) relay.Record {
	r := said("j", id, &relay.Start{Ranks: 8, Files: []relay.HotFile{{Path: "/ck/a", Readers: 8}}})
	r.Run = run
	return r
}

func phase(run, id, phase string, paths ...string) relay.Record {
	s := &relay.Start{Ranks: 8, Phase: phase}
	for _, p := range paths {
		s.Files = append(s.Files, relay.HotFile{Path: p, Readers: 1})
	}
	r := said("j", id, s)
	r.Run = run
	return r
}

func told(tr *translator, records ...taken) (all []string) {
	for _, r := range records {
		for _, ev := range tr.events(r) {
			all = append(all, words(ev))
		}
	}
	return all
}

func TestEvents(t *testing.T) {
	ended := said("j", "e", nil)
	timed := func(phase relay.Record) relay.Record {
		phase.Start.MedianMS, phase.Start.LastMS, phase.Start.Bytes = 1000, 2500, 5
		return phase
	}
	for name, c := range map[string]struct {
		records []taken
		want    []string
	}{
		"in order": {[]taken{at(1, start("r", "1")), at(2, phase("r", "2", "opened", "/ck")), at(3, phase("r", "3", "read"))},
			[]string{"j starts 8", `j/r fanout "/ck" false`, `j/r fanout "" true`}},
		"several files": {[]taken{at(1, start("r", "1")), at(3, phase("r", "3", "read", "/a", "/b"))},
			[]string{"j starts 8", `j/r fanout "/a" true`, `j/r fanout "/b" true`}},
		"how long it took": {[]taken{at(3, timed(phase("r", "3", "read", "/a", "/b"))), at(1, start("r", "1"))},
			[]string{"j starts 8", `j/r took 2.5s for 5 of ["/a" "/b"]`, `j/r fanout "/a" true`, `j/r fanout "/b" true`}},
		"how long it took until it was opened": {[]taken{at(1, start("r", "1")), at(3, timed(phase("r", "3", "opened")))},
			[]string{"j starts 8", `j/r fanout "" false`}},
		"before its announcement": {[]taken{at(3, phase("r", "3", "read")), at(1, start("r", "1"))},
			[]string{"j starts 8", `j/r fanout "" true`}},
		"ranks of another name": {[]taken{at(1, start("launcher", "1")), at(2, phase("ranks", "2", "opened"))},
			[]string{"j starts 8", `j/ranks fanout "" false`}},
		"ranks of another name, first": {[]taken{at(2, phase("ranks", "2", "opened")), at(1, start("launcher", "1"))},
			[]string{"j starts 8", `j/ranks fanout "" false`}},
		"of the start before": {[]taken{at(5, start("second", "1")), at(2, phase("ranks", "2", "read"))}, []string{"j starts 8"}},
		"of the start before, announced late": {[]taken{at(5, start("second", "1")), at(2, phase("ranks", "2", "read")), at(1, start("first", "3"))},
			[]string{"j starts 8", "j starts 8"}},
		"of an older run that announced one": {[]taken{at(1, start("first", "1")), at(5, start("second", "2")), at(6, phase("first", "3", "read"))},
			[]string{"j starts 8", "j starts 8", `j/first fanout "" true`}},
		"a phase to come": {[]taken{at(1, start("r", "1")), at(2, phase("r", "2", "half"))}, []string{"j starts 8"}},
		"an end":          {[]taken{at(1, ended)}, []string{"j/run ended"}},
		"too old":         {[]taken{{start("r", "1"), hints.MaxTTL, 0}}, nil},
	} {
		if got := told(newTranslator(), c.records...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestEventsInAnyOrder: whatever comes first, each announcement is told, and behind it the end of its fan-out.
func TestEventsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []taken
		runs := rapid.IntRange(1, 4).Draw(t, "runs")
		for i := range runs {
			run, when := fmt.Sprint(i), time.Duration(10*i)*time.Second
			all = append(all, at(when, start(run, "s"+run)), at(when+1, phase(run, "o"+run, "opened")), at(when+2, phase(run, "r"+run, "read")))
		}
		shuffled := rapid.Permutation(all).Draw(t, "order")
		var events []plan.Event
		tr := newTranslator()
		for _, r := range shuffled {
			if !tr.repeated(r.Record) {
				events = append(events, tr.events(r)...)
			}
			if !tr.repeated(r.Record) {
				t.Fatalf("%s is not remembered", r.ID)
			}
		}
		started, read := map[string]bool{}, map[string]bool{}
		for _, ev := range events {
			switch ev := ev.(type) {
			case plan.Hint:
				started[ev.Record.Run] = true
			case plan.FanOut:
				if started[ev.Run] { // before that it is said of the newest start
					read[ev.Run] = read[ev.Run] || ev.Ended
				}
			}
		}
		if len(started) != runs || len(read) != runs {
			var ids []string
			for _, r := range shuffled {
				ids = append(ids, r.ID)
			}
			t.Fatalf("%v: of %d runs %d have started and %d read", ids, runs, len(started), len(read))
		}
	})
}

// TestBounds: what is remembered has bounds, and the newest of it is kept.
func TestBounds(t *testing.T) {
	tr := newTranslator()
	for i := range mostJobs + 10 {
		r := phase("r", "1", "opened")
		r.Job = fmt.Sprint(i)
		for n := range mostFanOuts + 5 {
			r.ID = fmt.Sprint(n)
			if i == mostJobs+9 || n == 0 {
				tr.events(at(time.Duration(n), r))
			}
		}
	}
	last, _ := tr.jobs.Get(fmt.Sprint(mostJobs + 9))
	if tr.jobs.Len() != mostJobs || last == nil || len(last.fanOuts) != mostFanOuts || last.fanOuts[mostFanOuts-1].ID != fmt.Sprint(mostFanOuts+4) {
		t.Errorf("%d jobs", tr.jobs.Len())
	}
}

// TestManyFiles: what ranks say of thousands of files is told, and not remembered.
func TestManyFiles(t *testing.T) {
	tr := newTranslator()
	tr.events(at(0, start("r", "0")))
	many := phase("r", "1", "opened")
	many.Start.Files = make([]relay.HotFile, mostPhaseFiles+1)
	if got := tr.events(at(1, many)); len(got) != mostPhaseFiles+1 {
		t.Errorf("%d events", len(got))
	}
	if j, _ := tr.jobs.Get(many.Job); len(j.fanOuts) != 0 {
		t.Errorf("%d are remembered", len(j.fanOuts))
	}
}

// TestBucket: over any stretch of time no more is let through than the size and what came back.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &bucket{size: 5, rate: 2}
		now, taken := time.Duration(0), 0.0
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now += time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond
			wait := b.take(now)
			if wait == 0 {
				taken++
			} else if b.take(now+wait+time.Microsecond) != 0 {
				t.Fatalf("not after %s either", wait)
			} else {
				now += wait + time.Microsecond
				taken++
			}
			if taken > 5+2*now.Seconds()+1e-6 {
				t.Fatalf("%v within %s", taken, now)
			}
		}
	})
}
