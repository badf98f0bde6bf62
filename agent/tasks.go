package agent

import (
	"context"
	"errors"
	"sync"

	"github.com/stepahead-io/stepahead/hints"
)

// tasks knows the current task of every job and the datasets that are open for them. It is safe for
// concurrent use; the zero value is ready.
type tasks struct {
	mu       sync.Mutex
	jobs     map[string]*task
	datasets map[datasetKey]*shared
}

// shared is a dataset and the number of its users.
type shared struct {
	*dataset
	users int
}

// of returns the current task of a run, nil if there is none.
func (s *tasks) of(job, run string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.jobs[job]; t != nil && t.run == run {
		return t
	}
	return nil
}

// set makes t the current task of its job and returns the one before. The account of a run goes on
// through its generations.
func (s *tasks) set(t *task) (before *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs == nil {
		s.jobs = make(map[string]*task)
	}
	before = s.jobs[t.job]
	t.ledger = new(hints.Ledger)
	if before != nil && before.run == t.run {
		t.ledger = before.ledger
	}
	s.jobs[t.job] = t
	return before
}

// drop forgets the task of a run and returns it.
func (s *tasks) drop(job, run string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.jobs[job]
	if t == nil || t.run != run {
		return nil
	}
	delete(s.jobs, job)
	return t
}

// open returns a version of a dataset, opened once for all its users. The caller releases it.
func (s *tasks) open(ctx context.Context, l lake, k datasetKey) (*dataset, error) {
	if d := s.use(k); d != nil {
		return d, nil
	}
	d, err := l.open(ctx, k)
	if err != nil {
		return nil, err
	}
	if known := s.keep(d); known != nil { // another caller was faster
		_ = d.close() // nothing was read from it
		return known, nil
	}
	return d, nil
}

// keep makes a dataset that was just opened the one for all users, unless there is one, which it
// returns with one more user.
func (s *tasks) keep(d *dataset) *dataset {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.datasets[d.datasetKey]; known != nil {
		known.users++
		return known.dataset
	}
	if s.datasets == nil {
		s.datasets = make(map[datasetKey]*shared)
	}
	s.datasets[d.datasetKey] = &shared{dataset: d, users: 1}
	return nil
}

// use counts one more user of an open dataset; nil if it is not open.
func (s *tasks) use(k datasetKey) *dataset {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.datasets[k]
	if d == nil {
		return nil
	}
	d.users++
	return d.dataset
}

// hold counts one more user of a dataset that somebody has opened; false if it was closed since.
func (s *tasks) hold(d *dataset) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.datasets[d.datasetKey]
	if known == nil || known.dataset != d { // another: opened anew under the same key
		return false
	}
	known.users++
	return true
}

// release counts one user less and closes the dataset after the last.
func (s *tasks) release(d *dataset) error {
	s.mu.Lock()
	known := s.datasets[d.datasetKey]
	if known == nil {
		s.mu.Unlock()
		return errors.New("agent: dataset released twice")
	}
	known.users--
	last := known.users == 0
	if last {
		delete(s.datasets, d.datasetKey)
	}
	s.mu.Unlock()
	if last {
		return d.close()
	}
	return nil
}
