package safetensors

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"
)

const metadataKey = "__metadata__"

// parser makes a Header of the header's JSON.
type parser struct {
	scanner
	h       *Header
	sawMeta bool
	last    Dtype
	dims    []int64 // of the shape that is being read
	room    []int64 // shapes are cut off here, many to an allocation
}

// header reads the whole header. The offsets of tensors are still relative to the data.
func (p *parser) header() error {
	if i := invalidUTF8(p.src); i >= 0 {
		p.pos = i
		return p.fail(RuleJSON, "the header is not UTF-8")
	}
	if err := p.expect('{'); err != nil {
		return err
	}
	p.h.Tensors = make([]Tensor, 0, len(p.src)/100)
	if err := p.list('}', p.entry); err != nil {
		return err
	}
	if p.peek(); p.pos < len(p.src) {
		return p.fail(RuleJSON, "%s behind the header's object", p.found())
	}
	return nil
}

func invalidUTF8(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i, r := range s {
		if _, n := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && n == 1 {
			return i
		}
	}
	return -1
}

// entry reads one member of the header: a tensor, or the metadata.
func (p *parser) entry() error {
	at := p.pos
	name, err := p.key()
	if err != nil {
		return err
	}
	if name == metadataKey {
		if p.sawMeta {
			p.pos = at
			return p.fail(RuleUnique, "%s is there twice", metadataKey)
		}
		p.sawMeta = true
		return p.metadata()
	}
	t := Tensor{Name: name}
	if err := p.tensor(&t); err != nil {
		if e, ok := err.(*Error); ok {
			e.Tensor = name
		}
		return err
	}
	p.h.Tensors = append(p.h.Tensors, t)
	return nil
}

func (p *parser) metadata() error {
	if p.peek() != '{' {
		return p.fail(RuleMetadata, "%s where the object of %s must be", p.found(), metadataKey)
	}
	p.pos++
	p.h.Metadata = map[string]string{}
	return p.list('}', func() error {
		name, err := p.key()
		if err != nil {
			return err
		}
		if p.peek() != '"' {
			return p.fail(RuleMetadata, "%s where the string of %s %q must be", p.found(), metadataKey, clip(name))
		}
		text, err := p.str()
		if err != nil {
			return err
		}
		if _, double := p.h.Metadata[name]; double {
			return p.fail(RuleMetadata, "%s has %q twice", metadataKey, clip(name))
		}
		p.h.Metadata[name] = text
		return nil
	})
}

// The members of a tensor.
const (
	hasDtype = 1 << iota
	hasShape
	hasOffsets
	hasAll = hasDtype | hasShape | hasOffsets
)

var members = map[int]string{hasDtype: "dtype", hasShape: "shape", hasOffsets: "data_offsets"}

// tensor reads a tensor's object. Members with other names are skipped, as other readers do.
func (p *parser) tensor(t *Tensor) error {
	if p.peek() != '{' {
		return p.fail(RuleTensor, "%s where the tensor's object must be", p.found())
	}
	p.pos++
	has := 0
	err := p.list('}', func() error {
		name, err := p.key()
		if err != nil {
			return err
		}
		member := 0
		switch name {
		case "dtype":
			member = hasDtype
		case "shape":
			member = hasShape
		case "data_offsets":
			member = hasOffsets
		default:
			return p.skip(1)
		}
		if has&member != 0 {
			return p.fail(RuleTensor, "%s is there twice", name)
		}
		has |= member
		return p.member(t, member)
	})
	for _, member := range []int{hasDtype, hasShape, hasOffsets} {
		if err == nil && has&member == 0 {
			err = p.fail(RuleTensor, "%s is missing", members[member])
		}
	}
	return err
}

func (p *parser) member(t *Tensor, member int) error {
	if member == hasDtype {
		return p.dtype(t)
	}
	if p.peek() != '[' {
		return p.fail(RuleTensor, "%s where the list of %s must be", p.found(), members[member])
	}
	p.pos++
	p.dims = p.dims[:0]
	err := p.list(']', func() error {
		v, err := p.uint()
		if err == nil && v > math.MaxInt64 {
			err = p.fail(RuleBytes, "%d in %s is more than any file has", v, members[member])
		}
		p.dims = append(p.dims, int64(v))
		return err
	})
	if err != nil {
		return err
	}
	if member == hasShape {
		t.Shape = p.keep(p.dims)
		return nil
	}
	if len(p.dims) != 2 {
		return p.fail(RuleTensor, "data_offsets has %d numbers, and must have 2", len(p.dims))
	}
	if p.dims[1] < p.dims[0] {
		return p.fail(RuleContiguous, "data_offsets end at %d before they begin at %d", p.dims[1], p.dims[0])
	}
	t.Off, t.Len = p.dims[0], p.dims[1]-p.dims[0]
	return nil
}

func (p *parser) dtype(t *Tensor) error {
	if p.peek() != '"' {
		return p.fail(RuleTensor, "%s where the name of a dtype must be", p.found())
	}
	at := p.pos
	name, err := p.str()
	if err != nil {
		return err
	}
	d := p.last // most tensors have the type of the one before
	if name != d.String() {
		d, _ = ParseDtype(name)
	}
	if d == 0 {
		p.pos = at
		return p.fail(RuleTensor, "dtype %q is none of %s: a later version of the format?", clip(name), dtypeNames())
	}
	t.Dtype, p.last = d, d
	return nil
}

// keep returns a copy of a shape.
func (p *parser) keep(shape []int64) []int64 {
	n := len(shape)
	if n > cap(p.room)-len(p.room) {
		p.room = make([]int64, 0, max(n, min(len(p.src)/64, 4096)))
	}
	at := len(p.room)
	p.room = append(p.room, shape...)
	return p.room[at:len(p.room):len(p.room)]
}

// place checks how tensors lie in a file of size bytes, makes their offsets those in the file and names them.
func (h *Header) place(size int64) error {
	order := func(a, b Tensor) int { return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.Len, b.Len)) }
	if !slices.IsSortedFunc(h.Tensors, order) {
		slices.SortStableFunc(h.Tensors, order)
	}
	h.byName = make(map[string]int32, len(h.Tensors))
	end := int64(0)
	for i := range h.Tensors {
		t := &h.Tensors[i]
		if err := t.check(end); err != nil {
			err.Off, err.Tensor = h.DataOff+min(t.Off, math.MaxInt64-h.DataOff), t.Name
			return err
		}
		end = t.Off + t.Len
		t.Off += h.DataOff // cannot overflow where the file is long enough, which is checked below
		h.byName[t.Name] = int32(i)
	}
	if left := size - h.DataOff; end != left {
		return &Error{Rule: RuleEnd, Off: size, Problem: fmt.Sprintf("tensors have %d bytes, the file has %d for them: it is cut, or something was appended", end, left)}
	}
	if len(h.byName) < len(h.Tensors) {
		return h.doubled()
	}
	return nil
}

// check compares a tensor with its place behind others that end at end, relative to the data.
func (t *Tensor) check(end int64) *Error {
	if t.Off != end {
		what := "a hole"
		if t.Off < end {
			what = "an overlap"
		}
		return &Error{Rule: RuleContiguous, Problem: fmt.Sprintf("%s: it begins at %d of the data, and what is before it ends at %d", what, t.Off, end)}
	}
	n := uint64(1)
	for _, d := range t.Shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 {
			return &Error{Rule: RuleBytes, Problem: fmt.Sprintf("the shape %s has more elements than can be counted", shapeText(t.Shape))}
		}
		n = lo
	}
	hi, lo := bits.Mul64(n, uint64(t.Dtype.Bits()))
	if hi != 0 || lo/8 > math.MaxInt64 {
		return &Error{Rule: RuleBytes, Problem: fmt.Sprintf("the shape %s of %s has more bytes than can be counted", shapeText(t.Shape), t.Dtype)}
	}
	if lo%8 != 0 {
		return &Error{Rule: RuleBytes, Problem: fmt.Sprintf("the shape %s of %s is not a whole number of bytes", shapeText(t.Shape), t.Dtype)}
	}
	if int64(lo/8) != t.Len {
		return &Error{Rule: RuleBytes, Problem: fmt.Sprintf("the shape %s of %s has %d bytes, data_offsets have %d", shapeText(t.Shape), t.Dtype, lo/8, t.Len)}
	}
	return nil
}

// shapeText writes a shape for a message.
func shapeText(shape []int64) string { return clip(fmt.Sprint(shape)) }

// doubled names a tensor that is there twice.
func (h *Header) doubled() error {
	for i, t := range h.Tensors {
		if h.byName[t.Name] != int32(i) {
			return &Error{Rule: RuleUnique, Off: t.Off, Tensor: t.Name, Problem: "two tensors have this name"}
		}
	}
	return nil
}
