package timeline

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints/relay"
)

var rewrite = flag.Bool("rewrite", false, "write what is in testdata anew, to be read in review")

// event reads a line of a script:
//
//	10m committed job=j identity=v1 step=7
//	10m evaluation-opened job=e eval=mmlu site=east in=1m metric=acc value=0.5 regression=1 decision=stop
//	10m copy-begun placement=1 site=east
func event(t testing.TB, line string) Event {
	t.Helper()
	words := strings.Fields(line)
	at, err := time.ParseDuration(words[0])
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	ev := Event{ID: line, Kind: Kind(words[1]), At: at, Path: "/run/step_7", Step: -1, Expected: at}
	if strings.HasPrefix(words[1], "evaluation-result") {
		ev.Result = &Result{}
	}
	for _, w := range words[2:] {
		k, v, _ := strings.Cut(w, "=")
		number, _ := strconv.ParseFloat(v, 64)
		span, _ := time.ParseDuration(v)
		switch k {
		case "job":
			ev.Job = v
		case "identity":
			ev.Identity = v
		case "step":
			ev.Step = int64(number)
		case "eval":
			ev.Evaluation = v
		case "site":
			ev.Site = v
		case "placement":
			ev.Placement = plan.ID(number)
		case "in":
			ev.Expected = at + span
		case "decision":
			ev.Decision = v
		case "metric":
			ev.Result.Metric = v
		case "value":
			ev.Result.Value = &number
		case "regression":
			ev.Result.Regression = v == "1"
		default:
			t.Fatalf("%q: unknown word %s", line, w)
		}
	}
	return ev
}

// TestGolden has the timelines of testdata as they are to be read: events, a line of dashes, the text.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	began := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script, _, _ := strings.Cut(string(text), "----\n")
		l := NewLog("home")
		for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
			if line != "" && !strings.HasPrefix(line, "#") {
				l.Add(event(t, line))
			}
		}
		var b strings.Builder
		if err := Write(&b, l.Of("/run/step_7"), 80, func(d time.Duration) time.Time { return began.Add(d) }); err != nil {
			t.Fatal(err)
		}
		got := script + "----\n" + b.String()
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got != string(text) {
			t.Errorf("%s: run with -rewrite and read the difference; got:\n%s", file, got)
		}
	}
}

// drawn draws what happens to a checkpoint, and what of it is told again.
func drawn(t *rapid.T) []Event {
	kinds := []Kind{
		"saving", "committed", "committed", "evaluation-scheduled", "evaluation-opened", "evaluation-loaded", "evaluation-result", "evaluation-done",
		"evaluation-cancelled", "evaluation-decided", "deleted", CopyBegun, CopyReady, CopyGone,
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Event {
		ev := Event{
			ID: fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "id")), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Path: "/p", Step: -1,
			At: time.Duration(rapid.IntRange(-20, 20).Draw(t, "at")) * time.Minute, Job: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "job"),
			Identity: rapid.SampledFrom([]string{"", "v1", "v2"}).Draw(t, "identity"), Evaluation: rapid.SampledFrom([]string{"", "x"}).Draw(t, "evaluation"),
			Site: rapid.SampledFrom([]string{"", "home", "east"}).Draw(t, "site"), Placement: plan.ID(rapid.IntRange(1, 3).Draw(t, "placement")),
		}
		ev.Expected = ev.At + time.Duration(rapid.IntRange(0, 10).Draw(t, "in"))*time.Minute
		if ev.Kind == "evaluation-result" {
			ev.Result = &Result{Regression: rapid.Bool().Draw(t, "regression")}
		}
		return ev
	}), 0, 30).Draw(t, "events")
}

// TestOrder: in whatever order and however often events come, the same is said.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		byID := make(map[string]Event) // one id is one event, at several moments
		var events []Event
		for _, ev := range drawn(t) {
			if first, again := byID[ev.ID]; again {
				first.At = ev.At
				ev = first
			}
			byID[ev.ID] = ev
			events = append(events, ev)
		}
		want := Fold(events)
		l := NewLog("nowhere")
		mixed := append(events[:len(events):len(events)], events...)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		for _, ev := range mixed {
			l.Add(ev)
		}
		if got := l.Of("/p"); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %s\nwant %s", text(got), text(want))
		}
	})
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestPhases: they follow each other without a gap, from the commit to the last that is known, and no time counts twice.
func TestPhases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, tl := range Fold(drawn(t)) {
			for _, e := range tl.Evaluations {
				if e.Opened == nil {
					if len(e.Phases) > 0 {
						t.Fatalf("phases of what was not opened: %s", text(e))
					}
					continue
				}
				at := min(0, *e.Opened)
				for _, p := range e.Phases {
					if p.From != at || p.To <= p.From {
						t.Fatalf("a gap or nothing at %v: %s", at, text(e))
					}
					at = p.To
				}
				if at < *e.Opened {
					t.Fatalf("they end at %v, before it was opened: %s", at, text(e))
				}
				if e.Decided != nil && at > max(*e.Decided, *e.Opened) && e.found() == nil && e.Loaded == nil {
					t.Fatalf("they end at %v, behind all that is known: %s", at, text(e))
				}
				if late := e.Took(CopyLate); late > 0 && (e.Read != ACopy || *e.CopyReady > *e.Opened) {
					t.Fatalf("storage is blamed for a copy that nobody waited for: %s", text(e))
				}
			}
		}
	})
}

// TestOfHint: what is said is dated back by what the sender and the agent measured, and by nothing else.
func TestOfHint(t *testing.T) {
	r := relay.Record{
		ID: "h", Job: "j", Run: "1", Identity: "v1", ReceivedMS: 1, // of a clock that is wrong
		Checkpoint: &relay.Checkpoint{State: "evaluation-scheduled", Path: "/p", Step: 7, Evaluation: "x", Site: "east", ExpectedInMS: 60_000, AgoMS: 3_000},
	}
	ev, ok := OfHint(plan.Hint{Record: r, Age: 20 * time.Second}, time.Hour)
	want := Event{
		ID: "h", Kind: "evaluation-scheduled", At: time.Hour - 23*time.Second, Path: "/p", Job: "j", Identity: "v1", Step: 7, Evaluation: "x", Site: "east",
		Expected: time.Hour + 37*time.Second,
	}
	if !ok || ev != want {
		t.Errorf("got  %+v\nwant %+v", ev, want)
	}
	value := 0.5
	r.Checkpoint = &relay.Checkpoint{State: "evaluation-result", Path: "/p", Result: &relay.Result{Metric: "acc", Value: &value, Regression: true}}
	if ev, ok = OfHint(plan.Hint{Record: r, Age: -time.Second}, time.Hour); !ok || ev.At != time.Hour || *ev.Result.Value != 0.5 || ev.Result.Metric != "acc" || !ev.Result.Regression {
		t.Errorf("got %+v", ev)
	}
	for _, c := range []*relay.Checkpoint{nil, {State: "loss-spike"}, {State: "of-tomorrow"}} {
		r.Checkpoint = c
		if ev, ok := OfHint(plan.Hint{Record: r}, 0); ok {
			t.Errorf("%+v is an event: %+v", c, ev)
		}
	}
}

func TestOfAudit(t *testing.T) {
	wall := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	e := audit.Entry{At: wall.Add(-time.Minute), Who: "controller", What: "published", Placement: 7, Means: plan.Copy, Path: "/p", Site: "east", Job: "j"}
	ev, ok := OfAudit(e, time.Hour, wall)
	want := Event{ID: fmt.Sprint("copy-ready 7 ", e.At.UnixNano()), Kind: CopyReady, At: 59 * time.Minute, Path: "/p", Job: "j", Step: -1, Site: "east", Placement: 7}
	if !ok || ev != want {
		t.Errorf("got  %+v\nwant %+v", ev, want)
	}
	for _, change := range []func(*audit.Entry){
		func(e *audit.Entry) { e.Err = "it failed" }, func(e *audit.Entry) { e.Means = plan.Sibling }, func(e *audit.Entry) { e.What = "publish" },
	} {
		other := e
		change(&other)
		if ev, ok := OfAudit(other, 0, wall); ok {
			t.Errorf("%+v is an event: %+v", other, ev)
		}
	}
}

// TestLogForgets: the log is bounded, and what was last told of stays.
func TestLogForgets(t *testing.T) {
	l := NewLog("home")
	for i := range mostEvents + 10 {
		l.Add(Event{ID: fmt.Sprint(i), Kind: "saving", Path: "/long", At: time.Duration(i)})
	}
	if n := len(l.paths["/long"].events); n != mostEvents {
		t.Errorf("%d events", n)
	}
	for i := range mostPaths + 10 {
		l.Add(Event{ID: "c", Kind: "committed", Path: fmt.Sprint("/", i), At: time.Duration(1e6 + i), Job: "j"})
	}
	if n := len(l.paths); n > mostPaths || n < mostPaths/10*9 {
		t.Errorf("%d paths", n)
	}
	if len(l.Of("/long"))+len(l.Of("/0")) > 0 || len(l.Of(fmt.Sprint("/", mostPaths+9))) != 1 {
		t.Error("the newest were forgotten, not the oldest")
	}
	bounded := func(what string) {
		n := 0
		for _, h := range l.paths {
			n += len(h.events)
		}
		if n != l.n || n > mostInAll || len(l.paths) > mostPaths {
			t.Errorf("%s: %d events of %d paths, counted as %d", what, n, len(l.paths), l.n)
		}
	}
	for i := range 2 * mostInAll {
		l.Add(Event{ID: fmt.Sprint(i % mostEvents), Kind: "saving", Path: fmt.Sprint("/many/", i/mostEvents), At: time.Hour + time.Duration(i)})
	}
	bounded("of one checkpoint after the other")
	const known = 300
	for i := range 2 * mostInAll {
		l.Add(Event{ID: fmt.Sprint(i / known), Kind: "saving", Path: fmt.Sprint("/known/", i%known), At: 2*time.Hour + time.Duration(i)})
	}
	bounded("of many at once")
}

func TestOfJob(t *testing.T) {
	l := NewLog("home")
	add := func(path, line string) {
		ev := event(t, line)
		ev.Path, ev.ID = path, path+line
		l.Add(ev)
	}
	add("/b", "1m committed job=train")
	add("/a", "2m committed job=train")
	add("/c", "3m committed job=other")
	add("/a", "4m evaluation-opened job=eval")
	paths := func(job string) (all []string) {
		for _, tl := range l.OfJob(job) {
			all = append(all, tl.Path)
		}
		return all
	}
	if got := fmt.Sprint(paths("train"), paths("eval"), paths("none")); got != "[/b /a] [/a] []" {
		t.Error(got)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1234567: "1ms", 1234 * time.Millisecond: "1.2s", 30 * time.Second: "30s", time.Minute: "1m", 90*time.Second + 4e8: "1m30s",
		time.Hour: "1h", 2*time.Hour + 30*time.Minute: "2h30m", 10 * time.Minute: "10m", -20 * time.Minute: "-20m", 100 * time.Hour: "100h",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
