package transform

// RandomHorizontalFlip mirrors left and right with probability P (default 0.5).
type RandomHorizontalFlip struct {
	P float64
}

// RandomVerticalFlip mirrors top and bottom with probability P (default 0.5).
type RandomVerticalFlip struct {
	P float64
}

func readRandomHorizontalFlip(p *params) Op {
	return RandomHorizontalFlip{P: p.float("p", 0.5, 0, 1)}
}

func readRandomVerticalFlip(p *params) Op {
	return RandomVerticalFlip{P: p.float("p", 0.5, 0, 1)}
}

// Name implements [Op].
func (RandomHorizontalFlip) Name() string { return "RandomHorizontalFlip" }

// Name implements [Op].
func (RandomVerticalFlip) Name() string { return "RandomVerticalFlip" }

func (o RandomHorizontalFlip) params() map[string]any { return map[string]any{"p": o.P} }

func (o RandomVerticalFlip) params() map[string]any { return map[string]any{"p": o.P} }

func (RandomHorizontalFlip) shape(_ string, in shape) (shape, error) { return in, nil }

func (RandomVerticalFlip) shape(_ string, in shape) (shape, error) { return in, nil }

func (o RandomHorizontalFlip) resolve(r *resolver, i int, key Key) error {
	if newStream(key.Op(uint32(i))).uniform() < o.P {
		r.add(i, Step{Kind: StepFlip})
	}
	return nil
}

func (o RandomVerticalFlip) resolve(r *resolver, i int, key Key) error {
	if newStream(key.Op(uint32(i))).uniform() < o.P {
		r.add(i, Step{Kind: StepFlipVertical})
	}
	return nil
}

func (RandomHorizontalFlip) identities() []string { return []string{drawIdentity, placementIdentity} }

func (RandomVerticalFlip) identities() []string { return []string{drawIdentity, placementIdentity} }
