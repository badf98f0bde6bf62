package execute

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
)

// TestMeter: the rate is that of the last seconds, whatever was found at the beginning, and falls while nothing comes.
func TestMeter(t *testing.T) {
	const second = time.Second
	m := &meter{total: 1000}
	check := func(at time.Duration, done, rate int64) {
		t.Helper()
		if got := m.progress(at); got != (plan.Progress{Done: done, Total: 1000, Rate: rate}) {
			t.Errorf("after %v: %+v, want %d done and %d a second", at, got, done, rate)
		}
	}
	check(0, 0, 0)
	m.told(500, 10*second) // of an earlier making
	check(10*second, 500, 0)
	check(11*second, 500, 0)
	m.told(510, 12*second)
	check(12*second, 510, 5)
	for i := range 40 { // ten a second, told a hundred times as often as is remembered
		for j := range 100 {
			m.told(510+int64(10*i)+int64(j/10), 13*second+time.Duration(i)*second+time.Duration(j)*10*time.Millisecond)
		}
	}
	if got := m.progress(53 * second); got.Done != 909 || got.Rate < 9 || got.Rate > 10 {
		t.Errorf("after a while %+v", got)
	}
	if len(m.seen) > keptSamples {
		t.Errorf("%d moments are kept", len(m.seen))
	}
	if got := m.progress(70 * second); got.Rate > 1 {
		t.Errorf("it has stood still, and is told to make %d a second", got.Rate)
	}
	if got := m.progress(time.Hour); got.Rate != 0 {
		t.Errorf("it has stood still for long, and is told to make %d a second", got.Rate)
	}
}

func TestProgress(t *testing.T) {
	if left, ok := (plan.Progress{Done: 100, Total: 400, Rate: 30}).Left(); !ok || left != 10*time.Second {
		t.Errorf("%v, %v", left, ok)
	}
	if _, ok := (plan.Progress{Done: 100, Total: 400}).Left(); ok {
		t.Error("nobody knows how long it takes")
	}
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", nil)
		r.tell(said("/ck/1", hints.Committed, nil))
		r.tell(said("/ck/1", hints.EvaluationScheduled, nil))
		for len(r.e.Progress()) == 0 { // its time comes
			time.Sleep(time.Second)
		}
		time.Sleep(7 * time.Second) // 1 GiB at 25 MB/s: the first quarter took 10.7 s
		synctest.Wait()
		if p := r.e.Progress()[1]; p.Total != 1<<30 || p.Done != 0 || p.Rate != 0 {
			t.Errorf("in the first quarter: %+v", p)
		}
		time.Sleep(26 * time.Second)
		synctest.Wait()
		if p := r.e.Progress()[1]; p.Done != 3<<28 || p.Rate < 20e6 || p.Rate > 30e6 {
			t.Errorf("after three quarters: %+v", p)
		}
		time.Sleep(time.Minute)
		if all := r.e.Progress(); len(all) != 0 || r.count("made") != 1 {
			t.Errorf("after its end: %+v, audited: %v", all, r.lines())
		}
		r.tell(plan.Revoke{})
		time.Sleep(5 * time.Minute)
		stop(t, r)
		w.empty()
	})
}
