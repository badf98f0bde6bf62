package transform

// padIdentity names what a crop takes from outside a picture, by mode and fill.
const padIdentity = "pad/torchvision@1"

// Pad adds a border.
type Pad struct {
	Padding Padding
	Border
}

// Padding is what is added at each side, in pixels, in torchvision's order.
type Padding struct {
	Left, Top, Right, Bottom int
}

// Border says what lies outside a picture. Reflection goes back and forth where the border is wider than the
// picture, as torchvision's on PIL images.
type Border struct {
	Fill [3]uint8 // RGB, default black; only where Mode is constant
	Mode PadMode  // default constant
}

func readPad(p *params) Op {
	if !p.given("padding") {
		p.fail("padding", "is missing; give a number, [left and right, top and bottom] or [left, top, right, bottom]")
	}
	return Pad{Padding: p.padding("padding"), Border: readBorder(p)}
}

func readBorder(p *params) Border {
	mode := p.choice("padding_mode", string(PadConstant), string(PadEdge), string(PadReflect), string(PadSymmetric))
	return Border{Fill: p.fill("fill"), Mode: PadMode(mode)}
}

// padding reads a whole number for all sides, a list of one, of two (across, along) or of four.
func (p *params) padding(key string) Padding {
	v, given := p.take(key)
	if !given {
		return Padding{}
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	n := make([]int, len(list))
	for i, e := range list {
		n[i] = p.whole(key, e, 0, maxSize)
	}
	switch len(n) {
	case 1:
		return Padding{n[0], n[0], n[0], n[0]}
	case 2:
		return Padding{n[0], n[1], n[0], n[1]}
	case 4:
		return Padding{n[0], n[1], n[2], n[3]}
	}
	p.fail(key, "has %d entries; give a number, [left and right, top and bottom] or [left, top, right, bottom]", len(n))
	return Padding{}
}

// fill reads a colour: a whole number for all channels, or a list of one or three.
func (p *params) fill(key string) (rgb [3]uint8) {
	v, given := p.take(key)
	if !given {
		return rgb
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) != 1 && len(list) != colours {
		p.fail(key, "has %d entries; give a number from 0 to 255, or [red, green, blue]", len(list))
		return rgb
	}
	for i := range rgb {
		rgb[i] = uint8(p.whole(key, list[i%len(list)], 0, 255))
	}
	return rgb
}

func (o Padding) params() [4]int { return [4]int{o.Left, o.Top, o.Right, o.Bottom} }

func (o Border) params(m map[string]any) map[string]any {
	m["fill"], m["padding_mode"] = fillParam(o.Fill), o.Mode
	return m
}

// fillParam is the one spelling of a colour: a number where all channels are equal.
func fillParam(rgb [3]uint8) any {
	if grey(rgb) {
		return rgb[0]
	}
	return [3]int{int(rgb[0]), int(rgb[1]), int(rgb[2])}
}

func grey(rgb [3]uint8) bool { return rgb[0] == rgb[1] && rgb[1] == rgb[2] }

// checkFill refuses a colour for a picture without colours.
func checkFill(where string, rgb [3]uint8, in shape) error {
	if in.channels == 1 && !grey(rgb) {
		return planError(where, "fill: three numbers for one channel; give one")
	}
	return nil
}

// Name implements [Op].
func (Pad) Name() string { return "Pad" }

func (o Pad) params() map[string]any {
	return o.Border.params(map[string]any{"padding": o.Padding.params()})
}

func (o Pad) shape(where string, in shape) (shape, error) {
	if in.w != 0 {
		in.w, in.h = o.Padding.size(in.w, in.h)
	}
	if max(in.w, in.h) > maxSize { // no picture ever comes out
		in.w, in.h = 0, 0
	}
	return in, checkFill(where, o.Fill, in)
}

func (o Padding) size(w, h int) (int, int) { return w + o.Left + o.Right, h + o.Top + o.Bottom }

func (o Pad) resolve(r *resolver, i int, _ Key) error {
	w, h := o.Padding.size(r.w, r.h)
	if o.Padding != (Padding{}) && max(w, h) > maxSize {
		return r.tooLarge(i, o, w, h)
	}
	r.crop(i, Box{X: -o.Padding.Left, Y: -o.Padding.Top, W: w, H: h}, o.Border)
	return nil
}

func (Pad) identities() []string { return []string{padIdentity, placementIdentity} }
