package transform

import (
	"maps"
	"slices"
	"strings"
)

// Op is one operator of a plan with its parameters, defaults filled in. The concrete types bear the
// operators' names; names, defaults, parameter meaning and rounding are torchvision's.
type Op interface {
	// Name is the operator's name in plan JSON.
	Name() string
	params() map[string]any // canonical parameters, for JSON
}

// pixelOp is an operator that works on uint8 pixels and may change their size: it runs in workers.
type pixelOp interface {
	Op
	// shape returns what leaves the operator when in arrives, as far as that is known without a picture, and an
	// error that names where if a parameter does not fit.
	shape(where string, in shape) (shape, error)
	// resolve appends the operator's steps for one sample. i is its index: its place in the whole plan, or inner's.
	resolve(r *resolver, i int, key Key) error
	// identities names the versioned algorithms that decide the operator's pixels.
	identities() []string
}

// shape is what is known of a picture before there is one: sides of 0 are not known.
type shape struct {
	h, w, channels int
}

// readOp builds the operator called name from its parameters.
func readOp(name string, p *params) (Op, error) {
	readers := map[string]func(*params) Op{
		"DecodeImage":          readDecodeImage,
		"Resize":               readResize,
		"CenterCrop":           readCenterCrop,
		"RandomResizedCrop":    readRandomResizedCrop,
		"RandomCrop":           readRandomCrop,
		"Pad":                  readPad,
		"RandomHorizontalFlip": readRandomHorizontalFlip,
		"RandomVerticalFlip":   readRandomVerticalFlip,
		"Grayscale":            readGrayscale,
		"RandomGrayscale":      readRandomGrayscale,
		"ColorJitter":          readColorJitter,
		"GaussianBlur":         readGaussianBlur,
		"RandAugment":          readRandAugment,
		"RandomApply":          readRandomApply,
		"RandomErasing":        readRandomErasing,
		"Normalize":            readNormalize,
		"ToDtype":              readToDtype,
	}
	read, ok := readers[name]
	if !ok {
		known := slices.Sorted(maps.Keys(readers))
		if near, found := nearest(name, known); found {
			return nil, planError(p.where, "there is no such operator; did you mean %s?", near)
		}
		return nil, planError(p.where, "there is no such operator here; a newer stepahead may have it; known are %s", strings.Join(known, ", "))
	}
	op := read(p)
	return op, p.finish()
}
