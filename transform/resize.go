package transform

import "strconv"

// Resize scales with Pillow's arithmetic. Size has one entry (the short side; the long one is
// int(size*long/short), then limited by MaxSize) or two (height, width).
type Resize struct {
	Size    []int
	MaxSize int // 0 (default): no limit; only with a one-entry Size
	Resampling
}

// RandomResizedCrop cuts a drawn box and resizes it.
type RandomResizedCrop struct {
	Height, Width int
	Scale         [2]float64 // share of the area, default 0.08 to 1
	Ratio         [2]float64 // width / height, log-uniform, default 3/4 to 4/3
	Resampling
}

// Resampling is the algorithm of a resize.
type Resampling struct {
	Interpolation Filter // Bilinear (default), Nearest, BoxFilter, Bicubic or Lanczos
	Antialias     bool   // true (default); false is not offered. Nearest has none either way, as in Pillow
	Version       int    // pass order: 2 (default) is Pillow 13.0's, 1 is Pillow 12.1's and earlier
}

func readResampling(p *params) Resampling {
	r := Resampling{
		Interpolation: Filter(p.choice("interpolation", string(Bilinear), string(Nearest), string(BoxFilter), string(Bicubic), string(Lanczos))),
		Antialias:     p.boolean("antialias", true),
	}
	if !r.Antialias {
		p.fail("antialias", "false is not offered: pixels equal Pillow's, which always filters")
	}
	r.Version = p.integer("version", 2, 1, 2)
	return r
}

func (o Resampling) params(m map[string]any) map[string]any {
	m["interpolation"], m["antialias"], m["version"] = o.Interpolation, o.Antialias, o.Version
	return m
}

// identity names the filter and, where it shows, the order of its passes.
func (o Resampling) identity() string {
	if o.Interpolation == Nearest { // one look-up a pixel: there are no passes
		return "resize/pil-nearest@1"
	}
	return "resize/pil-" + string(o.Interpolation) + "@" + strconv.Itoa(o.Version)
}

func readResize(p *params) Op {
	r := Resize{Size: p.sizes("size", "[height, width]"), MaxSize: p.integer("max_size", 0, 1, maxSize), Resampling: readResampling(p)}
	if r.MaxSize != 0 && len(r.Size) == 2 {
		p.fail("max_size", "works only with a one-number size")
	}
	if r.MaxSize != 0 && r.MaxSize <= r.Size[0] {
		p.fail("max_size", "%d must be above size %d", r.MaxSize, r.Size[0])
	}
	return r
}

// Name implements [Op].
func (Resize) Name() string { return "Resize" }

func (o Resize) params() map[string]any {
	m := o.Resampling.params(map[string]any{"max_size": nil})
	if o.MaxSize != 0 {
		m["max_size"] = o.MaxSize
	}
	if m["size"] = o.Size; len(o.Size) == 1 {
		m["size"] = o.Size[0]
	}
	return m
}

func (o Resize) shape(_ string, in shape) (shape, error) {
	if in.w == 0 && len(o.Size) == 1 {
		return in, nil
	}
	out := shape{channels: in.channels}
	if w, h, allowed := o.size(in.w, in.h); allowed { // else no picture ever comes out
		out.w, out.h = w, h
	}
	return out, nil
}

func (o Resize) resolve(r *resolver, i int, _ Key) error {
	w, h, allowed := o.size(r.w, r.h)
	if !allowed {
		return r.tooLarge(i, o, w, h)
	}
	r.resize(i, w, h, o.Resampling)
	return nil
}

func (o Resize) identities() []string {
	return []string{geometryIdentity, placementIdentity, o.identity()}
}

func readRandomResizedCrop(p *params) Op {
	h, w := p.heightWidth()
	return RandomResizedCrop{
		Height: h, Width: w,
		// 100 and 65535 only keep the arithmetic far from overflow; no image fits such a box.
		Scale:      p.interval("scale", [2]float64{0.08, 1}, 0, 100),
		Ratio:      p.interval("ratio", [2]float64{3. / 4, 4. / 3}, 1./maxSize, maxSize),
		Resampling: readResampling(p),
	}
}

// Name implements [Op].
func (RandomResizedCrop) Name() string { return "RandomResizedCrop" }

func (o RandomResizedCrop) params() map[string]any {
	return o.Resampling.params(map[string]any{"size": [2]int{o.Height, o.Width}, "scale": o.Scale, "ratio": o.Ratio})
}

func (o RandomResizedCrop) shape(_ string, in shape) (shape, error) {
	return shape{h: o.Height, w: o.Width, channels: in.channels}, nil
}

func (o RandomResizedCrop) resolve(r *resolver, i int, key Key) error {
	r.crop(i, o.draw(r.w, r.h, newStream(key.Op(uint32(i)))), Border{Mode: PadConstant})
	r.resize(i, o.Width, o.Height, o.Resampling)
	return nil
}

func (o RandomResizedCrop) identities() []string {
	return []string{geometryIdentity, drawIdentity, placementIdentity, o.identity()}
}
