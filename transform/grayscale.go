package transform

// Grayscale replaces colours by Pillow's luma.
type Grayscale struct {
	Channels int // 1 (default) or 3 equal ones
}

// RandomGrayscale replaces colours by Pillow's luma with probability P (default 0.1); the number of channels stays.
type RandomGrayscale struct {
	P float64
}

func readGrayscale(p *params) Op {
	o := Grayscale{Channels: p.integer("num_output_channels", 1, 1, colours)}
	if o.Channels == 2 {
		p.fail("num_output_channels", "2 is not 1 or 3")
	}
	return o
}

func readRandomGrayscale(p *params) Op { return RandomGrayscale{P: p.float("p", 0.1, 0, 1)} }

// Name implements [Op].
func (Grayscale) Name() string { return "Grayscale" }

// Name implements [Op].
func (RandomGrayscale) Name() string { return "RandomGrayscale" }

func (o Grayscale) params() map[string]any {
	return map[string]any{"num_output_channels": o.Channels}
}

func (o RandomGrayscale) params() map[string]any { return map[string]any{"p": o.P} }

func (o Grayscale) shape(_ string, in shape) (shape, error) {
	in.channels = o.Channels
	return in, nil
}

func (RandomGrayscale) shape(_ string, in shape) (shape, error) { return in, nil }

func (o Grayscale) resolve(r *resolver, i int, _ Key) error {
	r.grayscale(i)
	r.channels = o.Channels
	return nil
}

func (o RandomGrayscale) resolve(r *resolver, i int, key Key) error {
	if newStream(key.Op(uint32(i))).uniform() < o.P {
		r.grayscale(i)
	}
	return nil
}

func (r *resolver) grayscale(i int) {
	if r.channels != 1 { // else it is grey already
		r.add(i, Step{Kind: StepGrayscale})
	}
}

func (Grayscale) identities() []string { return []string{"grayscale/pil@1"} }

func (RandomGrayscale) identities() []string { return []string{drawIdentity, "grayscale/pil@1"} }
