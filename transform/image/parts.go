package image

import (
	"fmt"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/pixel"
)

// part is one pass over a picture: a stage, which C executes row by row, or a step on finished pixels.
type part struct {
	stage *stage // nil: step counts
	step  transform.Step
}

// size returns that of the picture it makes.
func (p part) size() (w, h int) {
	if p.stage != nil {
		return p.stage.outW, p.stage.outH
	}
	return p.step.Width, p.step.Height
}

// bytes returns the size of the picture it makes.
func (p part) bytes() int64 {
	w, h := p.size()
	return int64(w) * int64(h) * channels
}

// partsOf packs steps into as few parts as possible. The first is always a stage.
func partsOf(width, height int, steps []transform.Step) ([]part, error) {
	parts := []part{{stage: newStage(width, height)}}
	for _, step := range steps {
		last := parts[len(parts)-1]
		if last.stage != nil {
			fits, err := last.stage.add(step)
			if err != nil {
				return nil, err
			}
			if fits {
				continue
			}
		}
		w, h := last.size()
		next, err := partOf(w, h, step)
		if err != nil {
			return nil, err
		}
		parts = append(parts, next)
	}
	return parts, nil
}

// partOf makes a part of its own for a step.
func partOf(width, height int, step transform.Step) (part, error) {
	s := newStage(width, height)
	fits, err := s.add(step)
	switch {
	case err != nil || fits:
		return part{stage: s}, err
	case !pixel.Handles(step.Kind):
		return part{}, bad(step, "unknown step %q", step.Kind)
	case step.Kind == transform.StepCrop:
		width, height = step.Box.W, step.Box.H
	}
	if width < 1 || height < 1 {
		return part{}, bad(step, "%s to %d x %d pixels", step.Kind, width, height)
	}
	step.Width, step.Height = width, height
	return part{step: step}, nil
}

func bad(step transform.Step, detail string, args ...any) error {
	return &transform.Error{Kind: transform.KindPlan, Op: fmt.Sprintf("op %d", step.Op), Detail: fmt.Sprintf(detail, args...)}
}
