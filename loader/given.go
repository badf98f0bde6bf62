package loader

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/stepahead-io/stepahead/sampler"
)

// given is an order that the caller gives step by step, and the digest of what of it was delivered. Its
// methods may be called concurrently.
type given struct {
	mu     sync.Mutex
	number uint64
	end    int64 // the step after the last that was given
	steps  map[int64][]sampler.SampleRef
	digest [32]byte
}

// Give tells the samples of steps from first on, of a loader whose order is given (Options.Given). Each step
// has a whole global batch, in order of position: rank r of W gets the r-th of W equal parts. Every rank must
// be given the same; Source, Sample and Epoch of a SampleRef count, and Epoch, with them, keys what is random
// in the sample's transform.
//
// Steps follow each other: first is the step after the last that was given under the same number. A larger
// number takes back every step that was not delivered, here and from agents: first is then the next step to
// deliver (State().Step), and lists that were given for it and those behind it no longer count. A smaller
// number is an error. Give copies the lists; after an error nothing has changed. It waits for a Next that
// runs.
func (l *Loader) Give(number uint64, first int64, steps [][]sampler.SampleRef) error {
	if err := l.enter(context.Background()); err != nil {
		return fmt.Errorf("loader.Give: %w", err)
	}
	defer l.leave()
	if err := l.checkGiven(number, first, steps); err != nil {
		return fmt.Errorf("loader.Give: %w", err)
	}
	if number != l.given.numbered() {
		l.stopRun()
		l.waiting = false
	}
	l.given.add(number, first, steps)
	if l.run != nil {
		l.fill()
	}
	if l.agents.wanted {
		l.agents.hurry()
	}
	return nil
}

// NextGiven returns the number under which steps were given last, and the step to give next under it.
func (l *Loader) NextGiven() (number uint64, step int64) {
	if l.given == nil {
		return 0, 0
	}
	number, end := l.given.known()
	return number, max(end, l.position())
}

func (l *Loader) checkGiven(number uint64, first int64, steps [][]sampler.SampleRef) error {
	if l.given == nil {
		return misfit("the order of this loader is not given: make it with order=\"given\"")
	}
	known, end := l.given.known()
	position := l.position()
	switch {
	case number < known:
		return misfit("number %d: steps were given under number %d already: numbers do not fall", number, known)
	case number == known && first != max(end, position):
		return misfit("step %d: the next step to give is %d: to take back what was given, give it a larger number", first, max(end, position))
	case number > known && first != position:
		return misfit("step %d: a new number begins at the next step to deliver, which is %d", first, position)
	}
	for i, refs := range steps {
		if err := l.checkStep(refs); err != nil {
			return fmt.Errorf("step %d: %w", first+int64(i), err)
		}
	}
	return nil
}

func (l *Loader) checkStep(refs []sampler.SampleRef) error {
	if int64(len(refs)) != l.spec.GlobalBatch {
		return misfit("%d samples, the global batch is %d", len(refs), l.spec.GlobalBatch)
	}
	for i, ref := range refs {
		if ref.Source < 0 || int(ref.Source) >= len(l.spec.Sources) {
			return misfit("position %d: source %d: there are %d", i, ref.Source, len(l.spec.Sources))
		}
		if n := l.spec.Sources[ref.Source].Samples; ref.Sample >= n {
			return misfit("position %d: %s: the source has %d", i, l.nameOf(ref), n)
		}
	}
	return nil
}

// known returns the number, and the step after the last that was given.
func (g *given) known() (number uint64, end int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.number, g.end
}

func (g *given) numbered() uint64 {
	number, _ := g.known()
	return number
}

// stands returns the number, and the digest of what was delivered.
func (g *given) stands() (number uint64, digest [32]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.number, g.digest
}

func (g *given) has(step int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.steps[step] != nil
}

// refs appends the samples of a step to dst, nil if it was taken back or delivered.
func (g *given) refs(step int64, number uint64, dst []sampler.SampleRef) []sampler.SampleRef {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.number != number || g.steps[step] == nil {
		return nil
	}
	return append(dst, g.steps[step]...)
}

// share is a rank's part of a step.
func (g *given) share(step int64, rank, world int) []sampler.SampleRef {
	g.mu.Lock()
	defer g.mu.Unlock()
	each := len(g.steps[step]) / world
	return append([]sampler.SampleRef{}, g.steps[step][rank*each:(rank+1)*each]...)
}

func (g *given) add(number uint64, first int64, steps [][]sampler.SampleRef) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if number != g.number || g.steps == nil {
		g.steps = make(map[int64][]sampler.SampleRef)
	}
	for i, refs := range steps {
		own := append([]sampler.SampleRef{}, refs...)
		for position := range own {
			own[position].Position = int64(position)
		}
		g.steps[first+int64(i)] = own
	}
	g.number, g.end = number, first+int64(len(steps))
}

// delivered forgets a step and has the digest cover it.
func (g *given) delivered(step int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := sha256.New()
	h.Write(g.digest[:])
	b := binary.LittleEndian.AppendUint64(nil, uint64(step))
	for _, ref := range g.steps[step] {
		b = binary.LittleEndian.AppendUint32(b, uint32(ref.Source))
		b = binary.LittleEndian.AppendUint64(b, ref.Epoch)
		b = binary.LittleEndian.AppendUint64(b, ref.Sample)
	}
	h.Write(b) // never fails
	g.digest = [32]byte(h.Sum(nil))
	delete(g.steps, step)
}

// resume continues a run whose next step is step.
func (g *given) resume(step int64, number uint64, digest [32]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.number, g.end, g.steps, g.digest = number, step, nil, digest
}
