package dcp

import (
	"errors"
	"fmt"

	"github.com/stepahead-io/stepahead/checkpoint/dcp/pickle"
)

var errState = errors.New("a state of another form than torch writes")

// attributes calls set with each attribute of a state. set returns false for a name that it does not know: a later torch may
// mean something by it that must not be overlooked.
func attributes(state any, set func(name string, v any) (known, fits bool)) error {
	dict, ok := state.(*pickle.Dict)
	if !ok {
		return errState
	}
	for _, p := range dict.Pairs {
		name, ok := p.Key.(string)
		if !ok {
			return errState
		}
		known, fits := set(name, p.Value)
		if !known {
			return fmt.Errorf("%w: the field %q is unknown: a later torch?", errState, clip(name))
		}
		if !fits {
			return fmt.Errorf("%w: the field %q has a value of another kind", errState, name)
		}
	}
	return nil
}

// SetState implements pickle.State.
func (x *index) SetState(state any) error {
	return attributes(state, func(name string, v any) (known, fits bool) {
		switch name {
		case "fqn":
			x.name, fits = v.(string)
		case "offset":
			x.offset, fits = asSize(v)
			fits = fits || v == nil
		case "index":
			_, fits = v.(int64)
			fits = fits || v == nil
		default:
			return false, false
		}
		return true, fits
	})
}

// SetState implements pickle.State.
func (c *chunk) SetState(state any) error {
	return attributes(state, func(name string, v any) (known, fits bool) {
		switch name {
		case "offsets":
			c.offsets, fits = asSize(v)
		case "sizes":
			c.sizes, fits = asSize(v)
		default:
			return false, false
		}
		return true, fits
	})
}

// SetState implements pickle.State. Fields that are None are left out by the writer.
func (i *info) SetState(state any) error {
	return attributes(state, func(name string, v any) (known, fits bool) {
		switch name {
		case "relative_path":
			i.path, fits = v.(string)
		case "offset":
			i.off, fits = v.(int64)
		case "length":
			i.len, fits = v.(int64)
		case "transform_descriptors":
			i.transforms, fits = texts(v)
		case "shape":
			_, fits = asSize(v)
			return i.inSafetensors, fits
		case "dtype":
			_, fits = dtypeOf(v)
			return i.inSafetensors, fits
		default:
			return false, false
		}
		return true, fits
	})
}

// texts returns a sequence of strings; None is an empty one.
func texts(v any) ([]string, bool) {
	var items []any
	switch v := v.(type) {
	case nil:
		return nil, true
	case pickle.Tuple:
		items = v
	case *pickle.List:
		items = v.Items
	default:
		return nil, false
	}
	found := make([]string, len(items))
	for i, item := range items {
		text, ok := item.(string)
		if !ok {
			return nil, false
		}
		found[i] = text
	}
	return found, true
}

var memoryFormats = [...]string{"contiguous", "channels_last", "preserve"}

// SetState implements pickle.State. Torch before 2.6 writes five fields, without strides.
func (p *properties) SetState(state any) error {
	fields, ok := state.(pickle.Tuple)
	if !ok {
		return errState
	}
	if len(fields) != 5 && len(fields) != 6 {
		return fmt.Errorf("%w: %d fields, and torch up to 2.15 writes 5 or 6: a later torch?", errState, len(fields))
	}
	var fits [6]bool
	p.dtype, fits[0] = dtypeOf(fields[0])
	p.layout, fits[1] = fields[1].(layout)
	p.requiresGrad, fits[2] = fields[2].(bool)
	p.memory, fits[3] = fields[3].(memoryFormat)
	_, fits[4] = fields[4].(bool)
	fits[5] = len(fields) == 5 || fields[5] == nil
	if !fits[5] {
		p.strides, fits[5] = asSize(fields[5])
	}
	for i, fit := range fits {
		if !fit {
			return fmt.Errorf("%w: field %d has a value of another kind", errState, i)
		}
	}
	return nil
}

// asSize returns a torch.Size, or a tuple that could be one.
func asSize(v any) (size, bool) {
	switch v := v.(type) {
	case size:
		return v, true
	case pickle.Tuple:
		s, err := integers(v)
		return s, err == nil
	}
	return nil, false
}

// SetState implements pickle.State.
func (r *record) SetState(state any) error {
	dict, ok := state.(*pickle.Dict)
	if !ok {
		return errState
	}
	if r.attrs == nil {
		r.attrs = make(map[string]any, len(dict.Pairs))
	}
	for _, p := range dict.Pairs {
		name, ok := p.Key.(string)
		if !ok {
			return errState
		}
		r.attrs[name] = p.Value
	}
	return nil
}
