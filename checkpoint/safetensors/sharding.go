package safetensors

import "fmt"

// shardingKey is where torch's distributed checkpoint writes, in a file's metadata, which part of each tensor the file holds.
const shardingKey = "DCP_SHARDING_INFO"

// Sharding returns where each tensor of a file begins in the whole tensor, of a file that torch's distributed checkpoint wrote as
// one of several; false if it did not. What is wrong with it is an *Error.
func (h *Header) Sharding() (map[string][]int64, bool, error) {
	text, ok := h.Metadata[shardingKey]
	if !ok {
		return nil, false, nil
	}
	offsets := map[string][]int64{}
	p := &indexParser{scanner: scanner{src: text}}
	err := p.object(shardingKey, func(tensor string) error {
		t, known := h.Lookup(tensor)
		if _, double := offsets[tensor]; double || !known {
			return p.fail(RuleMetadata, "tensor %q is there twice, or not in the file", clip(tensor))
		}
		at, err := p.savedOffsets(tensor)
		if err == nil && len(at) != len(t.Shape) {
			err = p.fail(RuleMetadata, "tensor %q has %d offsets and %d dimensions", clip(tensor), len(at), len(t.Shape))
		}
		offsets[tensor] = at
		return err
	})
	p.peek()
	if err == nil && (p.pos < len(p.src) || len(offsets) != len(h.Tensors)) {
		err = p.fail(RuleMetadata, "offsets of %d tensors, and the file holds %d", len(offsets), len(h.Tensors))
	}
	if err != nil {
		if e, isError := err.(*Error); isError { // offsets in a text of the metadata say nothing about the file
			err = &Error{Rule: RuleMetadata, Off: prefix, Problem: shardingKey + ": " + e.Problem}
		}
		return nil, false, err
	}
	return offsets, true, nil
}

func (p *indexParser) savedOffsets(tensor string) ([]int64, error) {
	var at []int64
	saw := false
	err := p.object(fmt.Sprintf("%q", clip(tensor)), func(name string) error {
		if name != "saved_offsets" || p.peek() != '[' || saw {
			return p.fail(RuleMetadata, "tensor %q must have saved_offsets, once, as a list", clip(tensor))
		}
		saw = true
		p.pos++
		return p.list(']', func() error {
			v, err := p.uint()
			if err == nil && v > 1<<63-1 {
				err = p.fail(RuleMetadata, "the offset %d of tensor %q is more than any tensor has", v, clip(tensor))
			}
			at = append(at, int64(v))
			return err
		})
	})
	if err == nil && !saw {
		err = p.fail(RuleMetadata, "tensor %q has no saved_offsets", clip(tensor))
	}
	return at, err
}
