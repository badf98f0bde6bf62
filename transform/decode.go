package transform

// DecodeImage decodes a still image by its content, not its name, to 8-bit pixels. It is always the
// first operator of a plan.
type DecodeImage struct {
	Mode        string // "RGB" (default): alpha is dropped, grey repeated
	Orientation string // "stored" (default): pixels as they lie in the file; "apply": turned as EXIF says
	JPEG        string // "exact" (default); "dct-scaled": decoded smaller where a resize follows, faster, other pixels
	Truncated   string // "raise" (default): a file that ends early is an error; "fill": what is missing is grey or black
}

func readDecodeImage(p *params) Op {
	return DecodeImage{
		Mode:        p.choice("mode", "RGB"),
		Orientation: p.choice("orientation", "stored", "apply"),
		JPEG:        p.choice("jpeg", "exact", "dct-scaled"),
		Truncated:   p.choice("truncated", "raise", "fill"),
	}
}

// Decode returns the plan's first operator; for the rest of a cut plan, which decodes nothing, the zero value.
func (p *Plan) Decode() DecodeImage {
	if p.cut == 0 {
		return DecodeImage{}
	}
	return p.ops[0].(DecodeImage)
}

// Name implements [Op].
func (DecodeImage) Name() string { return "DecodeImage" }

func (o DecodeImage) params() map[string]any {
	m := map[string]any{"mode": o.Mode, "orientation": o.Orientation}
	unless(m, "jpeg", o.JPEG, "exact")
	unless(m, "truncated", o.Truncated, "raise")
	return m
}

// unless adds a parameter that plans did not always have: only while it differs from its default, so that the
// digests of older plans stay.
func unless[T comparable](m map[string]any, key string, v, absent T) {
	if v != absent {
		m[key] = v
	}
}

func (o DecodeImage) shape(string, shape) (shape, error) { return shape{channels: colours}, nil }

func (DecodeImage) resolve(*resolver, int, Key) error { return nil }

func (o DecodeImage) identities() []string {
	var ids []string
	for _, d := range decoders {
		ids = append(ids, o.decoder(d.media))
	}
	if o.Orientation == "apply" {
		ids = append(ids, "exif/orientation@1")
	}
	if o.Truncated == "fill" {
		ids = append(ids, "truncated/pil-fill@1")
	}
	return ids
}
