package execute

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/store"
)

// TestStoppedBetweenFenceAndCall stops a controller after it has read its lease and before it changes the world, at each of its changes. Another takes over, with a journal of
// its own or with the same one, and undoes what it finds; then the first goes on and does what it was about to do. Within one period nothing of it is left.
func TestStoppedBetweenFenceAndCall(t *testing.T) {
	for _, means := range append([]plan.Means{plan.Copy}, everyMeans...) {
		for _, same := range []bool{false, true} {
			points := 0
			for n := 1; ; n++ {
				reached := false
				in(t, func(t *testing.T, w *world, c *bubble) { reached = stoppedAt(t, w, c, means, same, n) })
				if t.Failed() {
					t.Fatalf("%s, stopped at change %d, the same journal: %v", means, n, same)
				}
				if !reached {
					break
				}
				points++
			}
			if points < 2 {
				t.Errorf("%s was stopped at %d points", means, points)
			}
		}
	}
}

func stoppedAt(t *testing.T, w *world, c *bubble, means plan.Means, same bool, n int) (reached bool) {
	const period = time.Minute
	name := fmt.Sprintf("/hot/%s/1", means)
	w.sources[name], w.replicas[name] = "v1", 3
	j := &memory{}
	first := w.start(c, j, "one", func(p *process, _ *Options) { p.pauses(n) })
	if means == plan.Copy {
		first.tell(said("/ck/1", hints.Committed, nil))
		first.tell(said("/ck/1", hints.EvaluationScheduled, nil))
	} else {
		first.tell(starts("train", name, nil))
	}
	limit := time.After(10 * time.Minute)
	select {
	case <-first.stopped:
	case <-limit:
		if err := first.end(); err != nil {
			t.Error(err)
		}
		return false
	}
	secondName, its := "two", Journal(&memory{})
	if same {
		secondName, its = "one", j
	}
	second := w.start(c, its, secondName, nil)
	time.Sleep(5 * time.Minute)
	close(first.stop)
	if err := <-first.done; !errors.Is(err, store.ErrNotHeld) {
		t.Errorf("the first ended with %v", err)
	}
	time.Sleep(period + time.Second)
	w.empty()
	time.Sleep(2 * period)
	if err := second.end(); err != nil {
		t.Error(err)
	}
	w.empty()
	return true
}
