package timeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// words are spans as a test has them.
func words(spans []Span) (all []string) {
	for _, s := range spans {
		all = append(all, fmt.Sprintf("%s@%s/%s=%v", s.Name, s.Site, s.Read, s.Took))
	}
	slices.Sort(all)
	return all
}

// hear adds a script's lines to a log.
func hear(t *testing.T, l *Log, script string) {
	for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
		l.Add(event(t, strings.TrimSpace(line)))
	}
}

const evaluated = `
	10m committed job=train identity=v1 step=7
	10m evaluation-scheduled job=train eval=loss site=east in=1m
	10m30s copy-begun placement=1 site=east
	15m copy-ready placement=1 site=east
	16m evaluation-opened job=eval eval=loss site=east
	18m evaluation-loaded job=eval eval=loss
	20m evaluation-result job=eval eval=loss regression=1
	26m evaluation-result job=eval eval=loss
	27m evaluation-done job=eval eval=loss
	30m evaluation-decided job=train eval=loss decision=rollback`

// TestSettled: each span counts once, when it will not change any more.
func TestSettled(t *testing.T) {
	l := NewLog("home")
	hear(t, l, evaluated)
	for _, step := range []struct {
		at   time.Duration
		want string
	}{
		{15 * time.Minute, ""},
		{16 * time.Minute, "copy late@east/copy=4m0s copy ready@east/copy=5m0s"},
		{17 * time.Minute, "queue@east/copy=2m0s"},
		{19 * time.Minute, "reading@east/copy=2m0s"},
		{21 * time.Minute, "regression@east/copy=10m0s"},
		{27 * time.Minute, "computing@east/copy=8m0s"},
		{40 * time.Minute, "deciding@east/copy=4m0s"},
		{3 * time.Hour, ""},
	} {
		if got := strings.Join(words(l.Settled(step.at)), " "); got != step.want {
			t.Errorf("at %v %s, want %s", step.at, got, step.want)
		}
	}
	if len(l.unsettled) > 0 {
		t.Errorf("%v are still looked at", l.unsettled)
	}
}

// TestSettledAnyhow: in whatever order events come, and however often it is asked, the same is counted.
func TestSettledAnyhow(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(evaluated), "\n")
	whole := NewLog("home")
	hear(t, whole, evaluated)
	want := words(whole.Settled(3 * time.Hour))
	for seed := range uint64(50) {
		l := NewLog("home")
		mixed := slices.Clone(lines)
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		var got []Span
		for _, line := range mixed {
			hear(t, l, line)
			got = append(got, l.Settled(0)...) // nothing is over
		}
		for at := 31 * time.Minute; at < 3*time.Hour; at += 7 * time.Minute {
			got = append(got, l.Settled(at)...)
		}
		if !slices.Equal(words(got), want) {
			t.Fatalf("seed %d: %v, want %v", seed, words(got), want)
		}
	}
}

// TestSettledWithoutAnEnd: an evaluation whose end nobody says is over after an hour; without a commit nothing is said of ages; what another process has counted is not
// counted; and one at home has the home's name.
func TestSettledWithoutAnEnd(t *testing.T) {
	l := NewLog("home")
	hear(t, l, `
		-30m committed job=train identity=v0
		-20m evaluation-opened job=eval eval=old site=east
		-5m evaluation-loaded job=eval eval=old
		1m evaluation-result job=eval eval=old
		5m committed job=train identity=v1
		10m evaluation-opened job=eval eval=a site=home
		20m evaluation-result job=eval eval=a`)
	other := event(t, "10m evaluation-opened job=eval eval=b site=east")
	other.Path = "/elsewhere"
	l.Add(other)
	if got := words(l.Settled(time.Hour)); !slices.Equal(got, []string{"queue@home/home=5m0s"}) {
		t.Errorf("%v", got)
	}
	if got := words(l.Settled(2 * time.Hour)); !slices.Equal(got, []string{"computing@east/remote=6m0s", "reading and computing@home/home=10m0s"}) {
		t.Errorf("%v", got)
	}
}
