package temporary

import (
	"context"
	"errors"
	"testing"
	"time"
)

// late is a context whose time has passed and whose timer has not run yet: that of a process that was stopped and goes on.
type late struct {
	context.Context
	end time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.end, true }

func TestATimerThatDidNotRunCounts(t *testing.T) {
	for end, want := range map[time.Time]error{time.Now().Add(-time.Millisecond): context.DeadlineExceeded, time.Now().Add(time.Hour): nil} {
		if err := over(late{t.Context(), end}); !errors.Is(err, want) {
			t.Errorf("ends %v: %v", end, err)
		}
	}
	if err := over(t.Context()); err != nil {
		t.Errorf("no end: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := over(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}
