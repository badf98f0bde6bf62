package transform

// CenterCrop cuts the middle; what lies outside a smaller image is zero.
type CenterCrop struct {
	Height, Width int
}

// RandomCrop pads and cuts a box at a drawn place. A picture that stays smaller than the box is an error of kind
// plan.
type RandomCrop struct {
	Height, Width int
	Padding       Padding // added first, default none
	PadIfNeeded   bool    // default false; true: a side that is still too short grows on both ends by what it lacks
	Border
}

func readCenterCrop(p *params) Op {
	h, w := p.heightWidth()
	return CenterCrop{Height: h, Width: w}
}

func readRandomCrop(p *params) Op {
	h, w := p.heightWidth()
	return RandomCrop{
		Height: h, Width: w,
		Padding:     p.padding("padding"),
		PadIfNeeded: p.boolean("pad_if_needed", false),
		Border:      readBorder(p),
	}
}

// Name implements [Op].
func (CenterCrop) Name() string { return "CenterCrop" }

// Name implements [Op].
func (RandomCrop) Name() string { return "RandomCrop" }

func (o CenterCrop) params() map[string]any {
	return map[string]any{"size": [2]int{o.Height, o.Width}}
}

func (o RandomCrop) params() map[string]any {
	return o.Border.params(map[string]any{
		"size": [2]int{o.Height, o.Width}, "padding": o.Padding.params(), "pad_if_needed": o.PadIfNeeded,
	})
}

func (o CenterCrop) shape(_ string, in shape) (shape, error) {
	return shape{h: o.Height, w: o.Width, channels: in.channels}, nil
}

func (o RandomCrop) shape(where string, in shape) (shape, error) {
	return shape{h: o.Height, w: o.Width, channels: in.channels}, checkFill(where, o.Fill, in)
}

func (o CenterCrop) resolve(r *resolver, i int, _ Key) error {
	r.crop(i, o.box(r.w, r.h), Border{Mode: PadConstant})
	return nil
}

func (o RandomCrop) resolve(r *resolver, i int, key Key) error {
	b, fits := o.draw(r.w, r.h, newStream(key.Op(uint32(i))))
	if !fits {
		return planError(place(i, o), "size: %d x %d (height x width) is larger than this picture, %d x %d with its padding; "+
			"use pad_if_needed, or a Resize before", o.Height, o.Width, r.h+o.Padding.Top+o.Padding.Bottom, r.w+o.Padding.Left+o.Padding.Right)
	}
	r.crop(i, b, o.Border)
	return nil
}

// draw returns the box, which may reach into the padding, in a w x h input. Row before column, each only if there
// is a choice.
func (o RandomCrop) draw(w, h int, s *stream) (b Box, fits bool) {
	pad := o.Padding
	fullW, fullH := pad.size(w, h)
	if lack := o.Height - fullH; lack > 0 && o.PadIfNeeded {
		pad.Top, fullH = pad.Top+lack, fullH+2*lack
	}
	if lack := o.Width - fullW; lack > 0 && o.PadIfNeeded {
		pad.Left, fullW = pad.Left+lack, fullW+2*lack
	}
	if fullW < o.Width || fullH < o.Height {
		return Box{}, false
	}
	b = Box{X: -pad.Left, Y: -pad.Top, W: o.Width, H: o.Height}
	if fullH > o.Height {
		b.Y += s.below(fullH - o.Height + 1)
	}
	if fullW > o.Width {
		b.X += s.below(fullW - o.Width + 1)
	}
	return b, true
}

func (CenterCrop) identities() []string { return []string{geometryIdentity, placementIdentity} }

func (o RandomCrop) identities() []string {
	ids := []string{drawIdentity, drawRandomCrop, placementIdentity}
	if o.PadIfNeeded || o.Padding != (Padding{}) {
		ids = append(ids, padIdentity)
	}
	return ids
}
