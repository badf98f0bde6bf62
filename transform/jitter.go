package transform

// ColorJitter changes brightness, contrast, saturation and hue by drawn amounts in a drawn order.
type ColorJitter struct {
	Brightness Jitter // factor around 1
	Contrast   Jitter // factor around 1
	Saturation Jitter // factor around 1
	Hue        Jitter // share of the colour circle around 0, from -0.5 to 0.5
}

// Jitter is a range to draw from. Off (default) draws nothing.
type Jitter struct {
	On        bool
	Low, High float64
}

// maxFactor keeps factors, and what they are multiplied with, far from overflow.
const maxFactor = 1000

func readColorJitter(p *params) Op {
	return ColorJitter{
		Brightness: p.jitter("brightness", 1, 0, maxFactor),
		Contrast:   p.jitter("contrast", 1, 0, maxFactor),
		Saturation: p.jitter("saturation", 1, 0, maxFactor),
		Hue:        p.jitter("hue", 0, -0.5, 0.5),
	}
}

// jitter reads a distance from centre, which ends at 0 where lo is 0, or [low, high], both in [lo, hi].
func (p *params) jitter(key string, centre, lo, hi float64) Jitter {
	j := Jitter{Low: centre, High: centre}
	if _, list := p.left[key].([]any); list {
		pair := p.interval(key, [2]float64{centre, centre}, lo, hi)
		j.Low, j.High = pair[0], pair[1]
	} else if d := p.float(key, 0, 0, hi-centre); d > 0 {
		j.Low, j.High = max(centre-d, lo), centre+d
	}
	j.On = j.Low != centre || j.High != centre
	return j
}

// Name implements [Op].
func (ColorJitter) Name() string { return "ColorJitter" }

func (o ColorJitter) params() map[string]any {
	return map[string]any{
		"brightness": o.Brightness.param(), "contrast": o.Contrast.param(), "saturation": o.Saturation.param(), "hue": o.Hue.param(),
	}
}

func (o Jitter) param() any {
	if !o.On {
		return nil
	}
	return [2]float64{o.Low, o.High}
}

func (ColorJitter) shape(_ string, in shape) (shape, error) { return in, nil }

func (o ColorJitter) resolve(r *resolver, i int, key Key) error {
	s := newStream(key.Op(uint32(i)))
	order := s.permutation()
	var steps [4]Step
	for n, j := range [4]Jitter{o.Brightness, o.Contrast, o.Saturation, o.Hue} {
		if j.On {
			steps[n] = jitterStep(n, s.between(j.Low, j.High))
		}
	}
	for _, n := range order {
		if steps[n].Kind != "" && (n < 2 || r.channels != 1) { // a grey picture has neither saturation nor hue
			r.add(i, steps[n])
		}
	}
	return nil
}

// jitterStep returns the step of what torchvision counts as number n, or none if it has no effect.
func jitterStep(n int, amount float64) Step {
	if n == 3 { // as an 8-bit number it may be 0, but the way to hue and back still rounds
		return Step{Kind: StepHue, Level: int(amount*255) & 255}
	}
	if amount == 1 {
		return Step{}
	}
	return Step{Kind: [3]StepKind{StepBrightness, StepContrast, StepSaturation}[n], Factor: amount}
}

// permutation returns 0 to 3 in a drawn order: from the last place to the second, each changes with one up to itself.
func (s *stream) permutation() [4]int {
	order := [4]int{0, 1, 2, 3}
	for i := len(order) - 1; i > 0; i-- {
		j := s.below(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	return order
}

func (o ColorJitter) identities() []string {
	ids := []string{drawIdentity, drawColorJitter}
	if o.Brightness.On || o.Contrast.On || o.Saturation.On {
		ids = append(ids, colourIdentity)
	}
	if o.Hue.On {
		ids = append(ids, "hue/pil@1")
	}
	return ids
}

const colourIdentity = "colour/pil@1"
