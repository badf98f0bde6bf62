package transform

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// planFormat is the version of plan JSON. A parameter that a later version adds is left out of the canonical
// form while it has its default, so that digests of older plans stay.
const planFormat = 1

// Plan is a validated list of operators: DecodeImage, then geometric operators, then Normalize and
// ToDtype. It is immutable and safe for concurrent use.
type Plan struct {
	ops       []Op
	cut       int // ops[:cut] is the agent half
	canonical []byte
	digest    [32]byte
	agent     *Plan // the halves of Cut
	rest      *Plan
}

// seal makes a Plan and everything that follows from its operators.
func seal(ops []Op, cut int) *Plan {
	c := canonical(ops)
	p := &Plan{ops: ops, cut: cut, canonical: c, digest: sha256.Sum256(c)}
	switch {
	case len(ops) == 0:
		p.agent, p.rest = p, p
	case cut == 0:
		p.agent, p.rest = seal(nil, 0), p
	case cut == len(ops):
		p.agent, p.rest = p, seal(nil, 0)
	default:
		p.agent, p.rest = seal(ops[:cut:cut], cut), seal(ops[cut:], 0)
	}
	return p
}

// ParsePlan reads plan JSON. It is strict: an unknown operator, an unknown or doubled parameter, or
// a value out of range is an [*Error] of kind plan naming the operator's index and the parameter.
func ParsePlan(data []byte) (*Plan, error) {
	tree, err := parseTree(data)
	if err != nil {
		return nil, err
	}
	list, err := readEnvelope(tree)
	if err != nil {
		return nil, err
	}
	ops := make([]Op, len(list))
	for i, v := range list {
		if ops[i], err = readEntry(i, v); err != nil {
			return nil, err
		}
	}
	return assemble(ops)
}

// readEnvelope checks everything around the operators and returns their list.
func readEnvelope(tree any) ([]any, error) {
	m, ok := tree.(map[string]any)
	if !ok {
		return nil, planError(parseOp, `not an object; a plan is {"plan": 1, "ops": [...]}`)
	}
	p := &params{where: parseOp, left: m}
	v, _ := p.take("plan")
	if f, ok := number(v); !ok || f != planFormat {
		return nil, planError(parseOp, "plan: format %v is not %d, the only one known here", show(v), planFormat)
	}
	v, _ = p.take("ops")
	list, ok := v.([]any)
	if !ok || len(list) == 0 || len(list) > maxOps {
		return nil, planError(parseOp, "ops: must be a list of 1 to %d operators", maxOps)
	}
	return list, p.finish()
}

func readEntry(i int, v any) (Op, error) {
	where := "ops[" + strconv.Itoa(i) + "]"
	m, ok := v.(map[string]any)
	if !ok {
		return nil, planError(where, "%v is not an object", show(v))
	}
	p := &params{where: where, left: m}
	name, ok := m["op"].(string)
	if !ok {
		return nil, planError(where, `op: is missing; name the operator, as in {"op": "DecodeImage"}`)
	}
	delete(m, "op")
	p.where += " " + strings.Trim(show(name), `"`)
	return readOp(name, p)
}

// assemble checks the order of the operators and settles what depends on their neighbours.
func assemble(ops []Op) (*Plan, error) {
	cut, dtype := 0, Uint8
	for i, op := range ops {
		_, decodes := op.(DecodeImage)
		if decodes != (i == 0) {
			return nil, planError(place(i, op), "a plan has one DecodeImage, and it is the first operator")
		}
		t, tail := op.(tailOp)
		if !tail && cut != i {
			return nil, planError(place(i, op), "geometric operators come before Normalize and ToDtype, which end a plan")
		}
		if !tail {
			cut = i + 1
			continue
		}
		var err error
		if ops[i], dtype, err = t.settle(place(i, op), dtype); err != nil {
			return nil, err
		}
	}
	return seal(ops, cut), nil
}

func place(i int, op Op) string { return fmt.Sprintf("ops[%d] %s", i, op.Name()) }

// Canonical returns the plan's one spelling: sorted keys, defaults filled in, no spaces, numbers as
// in RFC 8785. The caller may keep and change it.
func (p *Plan) Canonical() []byte { return slices.Clone(p.canonical) }

// Digest returns the SHA-256 of the canonical form.
func (p *Plan) Digest() [32]byte { return p.digest }

func canonical(ops []Op) []byte {
	list := make([]map[string]any, len(ops))
	for i, op := range ops {
		list[i] = op.params()
		list[i]["op"] = op.Name()
	}
	// encoding/json sorts map keys and spells float64 as ECMAScript does, which is RFC 8785's rule; no
	// string here holds a character that it would escape.
	b, err := json.Marshal(map[string]any{"plan": planFormat, "ops": list})
	if err != nil {
		panic("transform: a validated plan has no canonical form: " + err.Error())
	}
	return b
}

// Len returns the number of operators.
func (p *Plan) Len() int { return len(p.ops) }

// Ops returns a copy of the operators in order. Slices inside them are shared and must not be changed.
func (p *Plan) Ops() []Op { return slices.Clone(p.ops) }

// Cut splits the plan where its bytes are fewest: agent holds everything up to the last geometric
// operator and gives uint8 pixels; rest holds the tail (Normalize, ToDtype) and may be empty.
// Operator indices, and so everything drawn, do not change by cutting.
func (p *Plan) Cut() (agent, rest *Plan) { return p.agent, p.rest }

// Fixed returns the plan's output when it does not depend on the input's size.
func (p *Plan) Fixed() (TensorSpec, bool) {
	var h, w int // 0: not known
	for _, op := range p.ops[:p.cut] {
		switch o := op.(type) {
		case CenterCrop:
			h, w = o.Height, o.Width
		case RandomResizedCrop:
			h, w = o.Height, o.Width
		case Resize:
			if len(o.Size) == 1 && w == 0 {
				continue
			}
			var err error
			if w, h, err = o.size(w, h); err != nil {
				return TensorSpec{}, false
			}
		}
	}
	if w == 0 {
		return TensorSpec{}, false
	}
	return TensorSpec{Dtype: p.dtype(), Shape: []int{h, w, channels}}, true
}

// Output returns the plan's output for one sample whose decoded image has the given size.
func (p *Plan) Output(width, height int, key Key) (TensorSpec, error) {
	r, err := p.Resolve(width, height, key)
	if err != nil {
		return TensorSpec{}, err
	}
	r.Output.Dtype = p.dtype()
	return r.Output, nil
}

// dtype returns the element type that the tail ends with.
func (p *Plan) dtype() Dtype {
	dtype := Uint8
	for _, op := range p.ops[p.cut:] {
		_, dtype, _ = op.(tailOp).settle("", dtype)
	}
	return dtype
}

// Identities returns, sorted, the versioned algorithms of the agent half: two places must share their
// golden digests before one may use the other's pixels. The tail runs at the consumer only and has none.
func (p *Plan) Identities() []string {
	var ids []string
	for _, op := range p.ops[:p.cut] {
		switch o := op.(type) {
		case DecodeImage:
			ids = append(ids, "jpeg/islow-fancy@1", "png/libpng@1")
		case Resize:
			ids = append(ids, geometryIdentity, resizeIdentity(o.Version))
		case RandomResizedCrop:
			ids = append(ids, geometryIdentity, drawIdentity, resizeIdentity(o.Version))
		case CenterCrop:
			ids = append(ids, geometryIdentity)
		case RandomHorizontalFlip:
			ids = append(ids, drawIdentity)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func resizeIdentity(version int) string { return "resize/pil-bilinear@" + strconv.Itoa(version) }
