package transform

import "fmt"

// Box is a rectangle of whole pixels: columns [X, X+W), rows [Y, Y+H).
type Box struct {
	X, Y, W, H int
}

// StepKind says what a [Step] does.
type StepKind string

// The kinds of [Step]. Pixels are 8-bit RGB throughout.
const (
	StepCrop         StepKind = "crop"          // take Box; what lies outside the input is made by Pad and Fill
	StepResize       StepKind = "resize"        // scale to Width x Height by Filter, passes in the order of Version
	StepFlip         StepKind = "flip"          // mirror left and right
	StepFlipVertical StepKind = "flip-vertical" // mirror top and bottom
	StepBlur         StepKind = "blur"          // Gaussian of Blur, borders reflected without repeating the edge
	StepAffine       StepKind = "affine"        // pixel (x, y) is taken from Matrix * (x, y) by Filter; outside it is Fill
	StepErase        StepKind = "erase"         // Box, inside the input, becomes Fill, or noise drawn from Key if Noise
	StepGrayscale    StepKind = "grayscale"     // all channels become Pillow's luma
	StepBrightness   StepKind = "brightness"    // by Factor; this and the next three as Pillow's ImageEnhance
	StepContrast     StepKind = "contrast"
	StepSaturation   StepKind = "saturation"
	StepSharpness    StepKind = "sharpness"
	StepHue          StepKind = "hue"          // Level is added to Pillow's 8-bit hue, modulo 256
	StepInvert       StepKind = "invert"       // this and the next four as Pillow's ImageOps
	StepPosterize    StepKind = "posterize"    // Level bits are kept
	StepSolarize     StepKind = "solarize"     // values >= Level are inverted
	StepAutoContrast StepKind = "autocontrast" // per channel
	StepEqualize     StepKind = "equalize"     // per channel
)

// Filter is a resampling filter, by torchvision's name.
type Filter string

// The filters of a resize; an affine step knows Nearest and Bilinear.
const (
	Nearest   Filter = "nearest"
	BoxFilter Filter = "box"
	Bilinear  Filter = "bilinear"
	Bicubic   Filter = "bicubic"
	Lanczos   Filter = "lanczos"
)

// PadMode says what lies outside a picture that is cropped beyond its borders, by torchvision's name.
type PadMode string

// The padding modes. Reflect leaves the border pixel out, symmetric repeats it.
const (
	PadConstant  PadMode = "constant"
	PadEdge      PadMode = "edge"
	PadReflect   PadMode = "reflect"
	PadSymmetric PadMode = "symmetric"
)

// Blur is a Gaussian window: odd numbers of taps, standard deviations in pixels.
type Blur struct {
	KernelX, KernelY int
	SigmaX, SigmaY   float64
}

// Step is one pixel operation with every parameter known. Width and Height are its output's size; of the
// other fields only those count that its kind names.
type Step struct {
	Kind          StepKind
	Op            int // place in the plan of the operator it comes from, for messages
	Box           Box // in the step's input; only a crop's may reach outside it
	Width, Height int
	Version       int // of a resize: 1 or 2
	Filter        Filter
	Pad           PadMode
	Fill          [3]uint8
	Factor        float64
	Level         int
	Matrix        [6]float64 // row by row: x = m0*x' + m1*y' + m2, y = m3*x' + m4*y' + m5; m2 and m5 for pixel corners, as Pillow's AFFINE
	Blur          Blur
	Noise         bool
	Key           [16]byte
}

// Resolved is the agent half of a plan for one sample: decode, then Steps in order. Steps without an
// effect (no flip drawn, a crop of everything, a resize to the same size) are left out.
type Resolved struct {
	Decode DecodeImage
	Steps  []Step
	Output TensorSpec // uint8, height x width x channels
}

// Resolve draws the random parameters of one sample whose decoded image has the given size. It is a
// pure function of the plan, the size and the key, equal to the bit on every architecture. The tail
// plays no part. An error is an [*Error] of kind plan or limit.
func (p *Plan) Resolve(width, height int, key Key) (Resolved, error) {
	if p.cut == 0 {
		return Resolved{}, planError("Plan.Resolve", "the rest of a cut plan decodes nothing; use the agent half")
	}
	if width < 1 || height < 1 || width > maxSide || height > maxSide {
		return Resolved{}, &Error{Kind: KindLimit, Op: "DecodeImage", Detail: fmt.Sprintf("%d x %d pixels; sides must be from 1 to %d", width, height, maxSide)}
	}
	r := resolver{w: width, h: height, channels: colours, steps: make([]Step, 0, p.cut)}
	for i, op := range p.ops[:p.cut] {
		if err := op.(pixelOp).resolve(&r, i, key); err != nil {
			return Resolved{}, err
		}
	}
	return Resolved{
		Decode: p.ops[0].(DecodeImage),
		Steps:  r.steps,
		Output: TensorSpec{Dtype: Uint8, Shape: []int{r.h, r.w, r.channels}},
	}, nil
}

// maxSide is PNG's largest side; it keeps every product below 2^62.
const maxSide = 1<<31 - 1

// resolver follows the picture's size and channels through the operators.
type resolver struct {
	w, h, channels int
	steps          []Step
}

// add appends a step of operator i. A step that does not say its output's size keeps the input's.
func (r *resolver) add(i int, s Step) {
	if s.Width == 0 {
		s.Width, s.Height = r.w, r.h
	}
	s.Op = i % innerIndex
	r.w, r.h = s.Width, s.Height
	r.steps = append(r.steps, s)
}

func (r *resolver) crop(i int, b Box, around Border) {
	if b != (Box{W: r.w, H: r.h}) {
		r.add(i, Step{Kind: StepCrop, Box: b, Width: b.W, Height: b.H, Pad: around.Mode, Fill: around.Fill})
	}
}

func (r *resolver) resize(i, w, h int, how Resampling) {
	if w != r.w || h != r.h {
		r.add(i, Step{Kind: StepResize, Width: w, Height: h, Version: how.Version, Filter: how.Interpolation})
	}
}

// tooLarge refuses what operator i would make of the picture.
func (r *resolver) tooLarge(i int, op Op, w, h int) error {
	return &Error{Kind: KindLimit, Op: place(i, op), Detail: fmt.Sprintf(
		"an image of %d x %d pixels would become %d x %d; sides must be from 1 to %d", r.w, r.h, w, h, maxSize)}
}
