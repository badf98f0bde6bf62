package transform

import "fmt"

// RandomApply applies operators with probability P (default 0.5): all of them, in order, or none. It takes those that
// leave a picture its size and channels, so that a plan's output does not depend on what is drawn.
type RandomApply struct {
	Transforms []Op
	P          float64
}

// innerIndex is the distance between the indices, by which draws are keyed, of a RandomApply's operators and before the
// first of them. It is above any place in a plan.
const innerIndex = 1 << 16

// inner is the index of operator j of the RandomApply at place i.
func inner(i, j int) int { return i + (j+1)*innerIndex }

func readRandomApply(p *params) Op {
	o := RandomApply{P: p.float("p", 0.5, 0, 1)}
	v, given := p.take("transforms")
	list, ok := v.([]any)
	switch {
	case !given:
		p.fail("transforms", "is missing; give a list of operators")
	case !ok || len(list) == 0:
		p.fail("transforms", "%v is not a list of operators", show(v))
	}
	for j, entry := range list {
		op, err := readEntry(fmt.Sprintf("%s transforms[%d]", p.where, j), entry)
		if err == nil && !applicable(op) {
			err = planError(p.where, "transforms[%d]: %s is not one of those that are taken: ColorJitter, GaussianBlur, RandAugment, "+
				"RandomGrayscale, RandomHorizontalFlip, RandomVerticalFlip", j, op.Name())
		}
		if err != nil {
			if p.err == nil {
				p.err = err
			}
			break
		}
		o.Transforms = append(o.Transforms, op)
	}
	return o
}

func applicable(op Op) bool {
	switch op.(type) {
	case ColorJitter, GaussianBlur, RandAugment, RandomGrayscale, RandomHorizontalFlip, RandomVerticalFlip:
		return true
	}
	return false
}

// Name implements [Op].
func (RandomApply) Name() string { return "RandomApply" }

func (o RandomApply) params() map[string]any {
	return map[string]any{"p": o.P, "transforms": entries(o.Transforms)}
}

func (o RandomApply) shape(where string, in shape) (shape, error) {
	for j, op := range o.Transforms {
		if _, err := op.(pixelOp).shape(fmt.Sprintf("%s transforms[%d] %s", where, j, op.Name()), in); err != nil {
			return shape{}, err
		}
	}
	return in, nil
}

func (o RandomApply) resolve(r *resolver, i int, key Key) error {
	if newStream(key.Op(uint32(i))).uniform() >= o.P {
		return nil
	}
	for j, op := range o.Transforms {
		if err := op.(pixelOp).resolve(r, inner(i, j), key); err != nil {
			return err
		}
	}
	return nil
}

func (o RandomApply) identities() []string {
	ids := []string{drawIdentity, drawRandomApply}
	for _, op := range o.Transforms {
		ids = append(ids, op.(pixelOp).identities()...)
	}
	return ids
}
