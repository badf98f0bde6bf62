package transform

// Op is one operator of a plan with its parameters, defaults filled in. The concrete types are
// [DecodeImage], [Resize], [CenterCrop], [RandomResizedCrop], [RandomHorizontalFlip], [Normalize]
// and [ToDtype]; names, defaults and rounding are torchvision's.
type Op interface {
	// Name is the operator's name in plan JSON.
	Name() string
	params() map[string]any // canonical parameters, for JSON
}

// DecodeImage decodes a still image by its content, not its name, to 8-bit pixels. It is always the
// first operator of a plan.
type DecodeImage struct {
	Mode        string // "RGB" (default): alpha is dropped, grey repeated
	Orientation string // "stored" (default): pixels as they lie in the file, EXIF ignored
}

// Resize scales with Pillow's antialiased arithmetic. Size has one entry (the short side; the long one is
// int(size*long/short), then limited by MaxSize) or two (height, width).
type Resize struct {
	Size          []int
	MaxSize       int    // 0 (default): no limit; only with a one-entry Size
	Interpolation string // "bilinear" (default)
	Antialias     bool   // true (default); false is not offered
	Version       int    // pass order: 2 (default) is Pillow 13.0's, 1 is Pillow 12.1's and earlier
}

// CenterCrop cuts the middle; what lies outside a smaller image is zero.
type CenterCrop struct {
	Height, Width int
}

// RandomResizedCrop cuts a drawn box and resizes it.
type RandomResizedCrop struct {
	Height, Width int
	Scale         [2]float64 // share of the area, default 0.08 to 1
	Ratio         [2]float64 // width / height, log-uniform, default 3/4 to 4/3
	Interpolation string     // as in Resize
	Antialias     bool       // as in Resize
	Version       int        // as in Resize
}

// RandomHorizontalFlip mirrors left and right with probability P (default 0.5).
type RandomHorizontalFlip struct {
	P float64
}

// Normalize computes (x - Mean) / Std per channel in the dtype it meets (uint8 becomes float32).
// Scale says how a uint8 input becomes x: "divide" (default: x/255, as torchvision's ToTensor),
// "multiply" (x * float32(1/255), as ToDtype(scale=True)) or "none" (x as it is). The first two
// differ in the last bit of about half of all values. After a ToDtype only "none" is possible.
type Normalize struct {
	Mean, Std []float64
	Scale     string
}

// ToDtype casts. With Scale a uint8 input is multiplied by 1/255, as torchvision does.
type ToDtype struct {
	Dtype Dtype
	Scale bool // default false
}

// Name implements [Op].
func (DecodeImage) Name() string { return "DecodeImage" }

// Name implements [Op].
func (Resize) Name() string { return "Resize" }

// Name implements [Op].
func (CenterCrop) Name() string { return "CenterCrop" }

// Name implements [Op].
func (RandomResizedCrop) Name() string { return "RandomResizedCrop" }

// Name implements [Op].
func (RandomHorizontalFlip) Name() string { return "RandomHorizontalFlip" }

// Name implements [Op].
func (Normalize) Name() string { return "Normalize" }

// Name implements [Op].
func (ToDtype) Name() string { return "ToDtype" }
