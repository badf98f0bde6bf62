package sampler

import (
	"errors"
	"fmt"
	"slices"
)

// maxPicks bounds what an Explicit holds.
const maxPicks = 1 << 24

// Errors of an Explicit.
var (
	// ErrStale says that an announcement is of a generation that a newer one has replaced.
	ErrStale = errors.New("announcement is of an older generation")
	// ErrTaken says that an announcement would change a step that was already taken.
	ErrTaken = errors.New("step was already taken")
	// ErrFull says that too many steps are announced ahead: take some first.
	ErrFull = errors.New("too many samples are announced ahead")
)

// A Pick is a sample that somebody chose.
type Pick struct {
	Source int32  `json:"source"`
	Sample uint64 `json:"sample"`
}

// An Announcement says which samples the steps from Step on take: one global batch a step.
type Announcement struct {
	// Generation orders announcements that contradict each other: a higher one makes void what lower
	// ones said about Step and all later steps.
	Generation uint64   `json:"generation"`
	Step       int64    `json:"step"`
	Batches    [][]Pick `json:"batches"`
}

// An Explicit is an order that is told from outside while the run goes on: online sampling,
// curricula, hard examples. It knows some steps from the next one on. It is not safe for concurrent
// use.
type Explicit struct {
	samples    []uint64 // by source
	batch      int
	generation uint64
	next       int64    // the first step that was not taken
	batches    [][]Pick // of next and the steps after it
}

// NewExplicit returns an order of batches of batch samples from sources, whose first step is step.
func NewExplicit(sources []Source, batch int64, step int64) (*Explicit, error) {
	if err := checkBatch("global_batch", batch); err != nil {
		return nil, fmt.Errorf("sampler.NewExplicit: %w", err)
	}
	if step < 0 || len(sources) == 0 {
		return nil, fmt.Errorf("sampler.NewExplicit: step %d, %d sources: the step must not be negative, and there is at least one source", step, len(sources))
	}
	e := &Explicit{batch: int(batch), next: step}
	for _, src := range sources {
		e.samples = append(e.samples, src.Samples)
	}
	return e, nil
}

// Announce takes up what a says, or nothing of it when it returns an error. Of the newest generation,
// an announcement may repeat what was said and must go on without a gap; of a newer one, it replaces
// all steps from a.Step on. Steps that were taken, and batches that were not taken but replaced,
// stay as they are to those who took them.
func (e *Explicit) Announce(a Announcement) error {
	if err := e.check(a); err != nil {
		return fmt.Errorf("sampler.Announce: generation %d, step %d: %w", a.Generation, a.Step, err)
	}
	known := e.batches
	if a.Generation > e.generation {
		known = known[:a.Step-e.next]
	}
	known = slices.Clip(known) // what is appended never lands in what was replaced
	for i, b := range a.Batches {
		if at := a.Step + int64(i) - e.next; at >= int64(len(known)) {
			known = append(known, slices.Clone(b))
		}
	}
	e.generation, e.batches = a.Generation, known
	return nil
}

// check tells why a cannot be taken up.
func (e *Explicit) check(a Announcement) error {
	switch end := e.next + int64(len(e.batches)); {
	case a.Generation < e.generation:
		return fmt.Errorf("%w: generation %d is known", ErrStale, e.generation)
	case a.Step < e.next:
		return fmt.Errorf("%w: the next is %d", ErrTaken, e.next)
	case a.Step > end:
		return fmt.Errorf("a gap: the steps before %d are announced", end)
	case len(a.Batches) > maxPicks/e.batch-int(a.Step-e.next):
		return fmt.Errorf("%w: %d steps of %d samples, at most %d samples", ErrFull, int(a.Step-e.next)+len(a.Batches), e.batch, maxPicks)
	}
	for i, b := range a.Batches {
		if err := e.checkPicks(b); err != nil {
			return fmt.Errorf("batches[%d]: %w", i, err)
		}
		at := a.Step + int64(i) - e.next
		if a.Generation == e.generation && at < int64(len(e.batches)) && !slices.Equal(b, e.batches[at]) {
			return fmt.Errorf("batches[%d]: step %d was announced otherwise: announce it with a higher generation", i, a.Step+int64(i))
		}
	}
	return nil
}

func (e *Explicit) checkPicks(picks []Pick) error {
	if len(picks) != e.batch {
		return fmt.Errorf("%d samples: a global batch has %d", len(picks), e.batch)
	}
	for i, p := range picks {
		if p.Source < 0 || int(p.Source) >= len(e.samples) {
			return fmt.Errorf("place %d: source %d: there are %d", i, p.Source, len(e.samples))
		}
		if n := e.samples[p.Source]; p.Sample >= n {
			return fmt.Errorf("place %d: source %d has no sample %d, only 0 to %d", i, p.Source, p.Sample, n-1)
		}
	}
	return nil
}

// Generation returns the newest generation, and the step before which all are announced.
func (e *Explicit) Generation() (generation uint64, end int64) {
	return e.generation, e.next + int64(len(e.batches))
}

// Step appends the global batch of step to dst and returns it, or false when step is not announced
// or was taken. The Epoch of a ref is its step, so that a sample that comes again is transformed anew.
func (e *Explicit) Step(step int64, dst []SampleRef) ([]SampleRef, bool) {
	at := step - e.next
	if at < 0 || at >= int64(len(e.batches)) {
		return dst, false
	}
	for i, p := range e.batches[at] {
		dst = append(dst, SampleRef{Source: p.Source, Epoch: uint64(step), Sample: p.Sample, Position: int64(i)})
	}
	return dst, true
}

// Take says that all steps before step were taken, and forgets them.
func (e *Explicit) Take(step int64) {
	if step <= e.next {
		return
	}
	e.batches = slices.Clone(e.batches[min(step-e.next, int64(len(e.batches))):])
	e.next = step
}
