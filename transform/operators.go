package transform

// readOp builds the operator called name from its parameters.
func readOp(name string, p *params) (Op, error) {
	read, ok := map[string]func(*params) Op{
		"DecodeImage":          readDecodeImage,
		"Resize":               readResize,
		"CenterCrop":           readCenterCrop,
		"RandomResizedCrop":    readRandomResizedCrop,
		"RandomHorizontalFlip": readRandomHorizontalFlip,
		"Normalize":            readNormalize,
		"ToDtype":              readToDtype,
	}[name]
	if !ok {
		return nil, planError(p.where, "there is no such operator here; a newer stepahead may have it")
	}
	op := read(p)
	return op, p.finish()
}

func readDecodeImage(p *params) Op {
	return DecodeImage{Mode: p.choice("mode", "RGB"), Orientation: p.choice("orientation", "stored")}
}

func readResize(p *params) Op {
	r := Resize{Size: p.sizes("size"), MaxSize: p.integer("max_size", 0, 1, maxSize)}
	r.Interpolation, r.Antialias, r.Version = readKernel(p)
	if r.MaxSize != 0 && len(r.Size) == 2 {
		p.fail("max_size", "works only with a one-number size")
	}
	if r.MaxSize != 0 && r.MaxSize <= r.Size[0] {
		p.fail("max_size", "%d must be above size %d", r.MaxSize, r.Size[0])
	}
	return r
}

// readKernel reads what Resize and RandomResizedCrop share: the resampling algorithm.
func readKernel(p *params) (interpolation string, antialias bool, version int) {
	interpolation = p.choice("interpolation", "bilinear")
	if antialias = p.boolean("antialias", true); !antialias {
		p.fail("antialias", "false is not offered: pixels equal Pillow's, which always filters")
	}
	return interpolation, antialias, p.integer("version", 2, 1, 2)
}

func readCenterCrop(p *params) Op {
	h, w := pair(p.sizes("size"))
	return CenterCrop{Height: h, Width: w}
}

func readRandomResizedCrop(p *params) Op {
	h, w := pair(p.sizes("size"))
	r := RandomResizedCrop{
		Height: h, Width: w,
		// 100 and 65535 only keep the arithmetic far from overflow; no image fits such a box.
		Scale: p.interval("scale", [2]float64{0.08, 1}, 0, 100),
		Ratio: p.interval("ratio", [2]float64{3. / 4, 4. / 3}, 1./maxSize, maxSize),
	}
	r.Interpolation, r.Antialias, r.Version = readKernel(p)
	return r
}

func readRandomHorizontalFlip(p *params) Op {
	return RandomHorizontalFlip{P: p.float("p", 0.5, 0, 1)}
}

func readNormalize(p *params) Op {
	n := Normalize{Mean: p.floats("mean", 3), Std: p.floats("std", 3)}
	for _, s := range n.Std {
		if float32(s) == 0 {
			p.fail("std", "is zero, and nothing can be divided by it")
		}
	}
	if p.given("scale") {
		n.Scale = p.choice("scale", "divide", "multiply", "none")
	}
	return n
}

func readToDtype(p *params) Op {
	if !p.given("dtype") {
		p.fail("dtype", "is missing; use float32, float16, bfloat16 or uint8")
	}
	dtype := p.choice("dtype", string(Float32), string(Float16), string(BFloat16), string(Uint8))
	return ToDtype{Dtype: Dtype(dtype), Scale: p.boolean("scale", false)}
}

func pair(size []int) (h, w int) { return size[0], size[len(size)-1] }

func (o DecodeImage) params() map[string]any {
	return map[string]any{"mode": o.Mode, "orientation": o.Orientation}
}

func (o Resize) params() map[string]any {
	m := map[string]any{"max_size": nil, "interpolation": o.Interpolation, "antialias": o.Antialias, "version": o.Version}
	if o.MaxSize != 0 {
		m["max_size"] = o.MaxSize
	}
	if m["size"] = o.Size; len(o.Size) == 1 {
		m["size"] = o.Size[0]
	}
	return m
}

func (o CenterCrop) params() map[string]any {
	return map[string]any{"size": [2]int{o.Height, o.Width}}
}

func (o RandomResizedCrop) params() map[string]any {
	return map[string]any{
		"size": [2]int{o.Height, o.Width}, "scale": o.Scale, "ratio": o.Ratio,
		"interpolation": o.Interpolation, "antialias": o.Antialias, "version": o.Version,
	}
}

func (o RandomHorizontalFlip) params() map[string]any { return map[string]any{"p": o.P} }

func (o Normalize) params() map[string]any {
	return map[string]any{"mean": o.Mean, "std": o.Std, "scale": o.Scale}
}

func (o ToDtype) params() map[string]any {
	return map[string]any{"dtype": o.Dtype, "scale": o.Scale}
}
