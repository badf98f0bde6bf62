package transform

// GaussianBlur blurs with a drawn standard deviation, equal in both directions. A picture whose side is not larger
// than half the window is an error of kind plan, as in torchvision: its borders are mirrored.
type GaussianBlur struct {
	KernelX, KernelY int        // taps across and along, odd
	Sigma            [2]float64 // pixels, default 0.1 to 2
}

// The limits of a blur. A window of 255 is three times what a deviation of 40 pixels needs to either side; below a
// thousandth of a pixel nothing moves.
const (
	maxKernel = 255
	minSigma  = 0.001
	maxSigma  = 1000
)

func readGaussianBlur(p *params) Op {
	k := p.sizes("kernel_size", "[across, along]")
	for _, n := range k {
		if n%2 == 0 || n > maxKernel {
			p.fail("kernel_size", "%d is not an odd number from 1 to %d", n, maxKernel)
		}
	}
	o := GaussianBlur{KernelX: k[0], KernelY: k[len(k)-1], Sigma: [2]float64{0.1, 2}}
	if _, list := p.left["sigma"].([]any); list {
		o.Sigma = p.interval("sigma", o.Sigma, minSigma, maxSigma)
	} else if p.given("sigma") {
		s := p.float("sigma", 0, minSigma, maxSigma)
		o.Sigma = [2]float64{s, s}
	}
	return o
}

// Name implements [Op].
func (GaussianBlur) Name() string { return "GaussianBlur" }

func (o GaussianBlur) params() map[string]any {
	return map[string]any{"kernel_size": [2]int{o.KernelX, o.KernelY}, "sigma": o.Sigma}
}

func (GaussianBlur) shape(_ string, in shape) (shape, error) { return in, nil }

func (o GaussianBlur) resolve(r *resolver, i int, key Key) error {
	if o.KernelX/2 >= r.w || o.KernelY/2 >= r.h {
		return planError(place(i, o), "kernel_size: a window of %d x %d does not fit a picture of %d x %d; half of it must be smaller",
			o.KernelX, o.KernelY, r.w, r.h)
	}
	if o.KernelX == 1 && o.KernelY == 1 {
		return nil
	}
	sigma := newStream(key.Op(uint32(i))).between(o.Sigma[0], o.Sigma[1])
	r.add(i, Step{Kind: StepBlur, Blur: Blur{KernelX: o.KernelX, KernelY: o.KernelY, SigmaX: sigma, SigmaY: sigma}})
	return nil
}

func (GaussianBlur) identities() []string { return []string{drawIdentity, "blur/fixed-point@1"} }
