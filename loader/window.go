package loader

import (
	"context"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/sampler"
)

const (
	// windowSteps is how many steps beyond those being built here an agent is told of: twice the window that it
	// prepares by default, so that a message serves about that window's length.
	windowSteps = 32
	// windowSamples bounds the ids of a message, at about 2 MB, but for a message of one step.
	windowSamples = 1 << 17
	// aheadSamples bounds the ids that an agent is told ahead: three quarters of what it holds of a job, which may lag behind.
	aheadSamples = 3 << 19
)

// window is what an agent was told, or is to be told, of the ids of steps.
type window struct {
	wanted     bool // the agent needs them, though the order has a specification
	cut        bool // the steps behind them are for the next message
	number     uint64
	first, end int64 // of the steps; end 0: nothing
}

// take notes what the agent has accepted.
func (w *window) take(told window) {
	if told.end > 0 {
		told.wanted = w.wanted
		*w = told
	}
}

// possible tells whether a schedule can be made of it: with all that it needs.
func (w window) possible() bool { return !w.wanted || w.end > 0 }

// more is what an agent must be told of ids at a position: in a schedule all from there on, else what follows what it
// knows, once half of that is used up. The agents' mutex is held.
func (h *herald) more(p *peer, step int64) window {
	if !p.window.wanted && h.l.given == nil && h.l.groups == nil {
		return window{}
	}
	number, known := h.l.known(step)
	if step >= known { // the run is over, or its next step was not given
		return window{wanted: true}
	}
	batch := h.l.sampler.GlobalBatch(step)
	ahead := min(int64(h.l.o.Prefetch+windowSteps), max(1, h.l.o.testing.ahead/batch))
	w := window{wanted: true, number: number, first: step, end: min(known, step+ahead)}
	if p.told == h.l.agents.roster.generation && p.window.number == number {
		if w.first = max(step, p.window.end); p.window.end-step > ahead/2 {
			w.end = 0
		}
	}
	if w.first >= w.end {
		w.end = 0
		return w
	}
	if most := max(1, h.l.o.testing.window/batch); w.end-w.first > most {
		w.end, w.cut = w.first+most, true
	}
	return w
}

// withWindows puts the ids into the hints that carry some. Agents that are told the same share them.
func (h *herald) withWindows(ctx context.Context, due []dueHint) []dueHint {
	made := map[window]*hints.Window{}
	ready := due[:0]
	for _, d := range due {
		if d.ids.end > 0 {
			w := made[d.ids]
			if w == nil {
				w = h.l.windowOf(ctx, d.ids)
				made[d.ids] = w
			}
			if w == nil { // void already, or not to be had: the next round has others
				h.l.agents.mu.Lock()
				d.peer.hinted = -1
				h.l.agents.mu.Unlock()
				continue
			}
			if d.generation > 0 {
				d.hint.Schedule.Spec, d.hint.Schedule.Window = nil, w
			} else {
				d.hint = h.hint(hints.Hint{Window: w})
			}
		}
		ready = append(ready, d)
	}
	return ready
}

// windowOf lists the ids of steps, nil if they are not known any more, or cannot be found out now.
func (l *Loader) windowOf(ctx context.Context, w window) *hints.Window {
	out := &hints.Window{Epoch: w.number, FirstStep: w.first}
	var refs []sampler.SampleRef
	for step := w.first; step < w.end; step++ {
		var err error
		if refs, err = l.refs(ctx, step, w.number, refs[:0]); err != nil {
			l.o.Log.Warn("cannot find out the samples of a step ahead: agents are not told of it yet", zap.Int64("step", step), zap.Error(err))
		}
		if refs == nil {
			return nil
		}
		samples := make([]hints.WindowSample, len(refs))
		for i, ref := range refs {
			samples[i] = hints.WindowSample{Source: uint32(ref.Source), Epoch: ref.Epoch, Sample: ref.Sample}
		}
		out.Steps = append(out.Steps, samples)
	}
	return out
}
