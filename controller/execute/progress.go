package execute

import (
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
)

const (
	// sampleEvery is how far apart the moments are that a meter remembers, lately how far back the rate of a making is looked at, and keptSamples how many moments
	// that takes.
	sampleEvery = time.Second
	lately      = 15 * time.Second
	keptSamples = int(lately/sampleEvery) + 1
)

// meter is how far the making of a placement is, and how fast it was lately.
type meter struct {
	mu          sync.Mutex
	done, total int64
	seen        []sample
}

// sample is how many bytes were made at a moment.
type sample struct {
	at    time.Duration
	bytes int64
}

// told takes how many bytes are made. What a maker tells first it may have found, so that the rate is of what follows.
func (m *meter) told(bytes int64, now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = bytes
	if n := len(m.seen); n > 0 && now < m.seen[n-1].at+sampleEvery {
		return
	}
	m.seen = append(m.seen, sample{now, bytes})
	m.seen = m.seen[max(len(m.seen)-keptSamples, 0):]
}

// progress is how far it is at a moment: the rate is of the last seconds, and falls towards 0 while nothing comes.
func (m *meter) progress(now time.Duration) plan.Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := plan.Progress{Done: m.done, Total: m.total}
	if len(m.seen) == 0 {
		return p
	}
	from := m.seen[len(m.seen)-1]
	for _, s := range m.seen {
		if now-s.at <= lately {
			from = s
			break
		}
	}
	if took := now - from.at; took > 0 && m.done > from.bytes {
		p.Rate = int64(float64(m.done-from.bytes) / took.Seconds())
	}
	return p
}

// measure has a making measured until it ends.
func (e *Engine) measure(t *task) (m *meter, end func()) {
	m = &meter{total: t.on.Make.Content}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.meters[t.id] = m
	return m, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.meters[t.id] == m { // it may have been given up, and begun anew
			delete(e.meters, t.id)
		}
	}
}

// Progress returns how far the makings under way are, as far as their makers tell.
func (e *Engine) Progress() map[plan.ID]plan.Progress {
	now := e.o.Clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[plan.ID]plan.Progress, len(e.meters))
	for id, m := range e.meters {
		all[id] = m.progress(now)
	}
	return all
}
