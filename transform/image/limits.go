package image

import (
	"errors"
	"fmt"
)

// Limits bounds what one image may cost. All of them are checked against the header, before memory
// is taken; the zero value means the defaults.
type Limits struct {
	MaxPixels int64 // pixels of the encoded picture and of any intermediate one; 0: 178,956,970 (Pillow's own limit)
	MaxInput  int64 // bytes of the encoded picture; 0: 1 GiB
	MaxOutput int64 // bytes of the result and of any intermediate picture; 0: 1 GiB
	MaxMemory int64 // bytes that the decoder and the resampler may hold at once; 0: 2 GiB
	MaxScans  int   // scans of a JPEG, each of which costs a pass over the picture; 0: 100
}

// Validate reports every field that is out of range.
func (l Limits) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxPixels", l.MaxPixels}, {"MaxInput", l.MaxInput}, {"MaxOutput", l.MaxOutput},
		{"MaxMemory", l.MaxMemory}, {"MaxScans", int64(l.MaxScans)},
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("image.Limits: %s is %d: use a positive number, or 0 for the default", f.name, f.value))
		}
	}
	return errors.Join(errs...)
}

func (l Limits) withDefaults() Limits {
	orDefault := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	orDefault(&l.MaxPixels, 178_956_970)
	orDefault(&l.MaxInput, 1<<30)
	orDefault(&l.MaxOutput, 1<<30)
	orDefault(&l.MaxMemory, 2<<30)
	if l.MaxScans == 0 {
		l.MaxScans = 100
	}
	return l
}
