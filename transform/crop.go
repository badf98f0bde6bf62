package transform

// CenterCrop cuts the middle; what lies outside a smaller image is zero.
type CenterCrop struct {
	Height, Width int
}

func readCenterCrop(p *params) Op {
	h, w := pair(p.sizes("size"))
	return CenterCrop{Height: h, Width: w}
}

// Name implements [Op].
func (CenterCrop) Name() string { return "CenterCrop" }

func (o CenterCrop) params() map[string]any {
	return map[string]any{"size": [2]int{o.Height, o.Width}}
}

func (o CenterCrop) shape(_ string, in shape) (shape, error) {
	return shape{h: o.Height, w: o.Width, channels: in.channels}, nil
}

func (o CenterCrop) resolve(r *resolver, i int, _ Key) error {
	r.crop(i, o.box(r.w, r.h))
	return nil
}

func (CenterCrop) identities() []string { return []string{geometryIdentity} }
