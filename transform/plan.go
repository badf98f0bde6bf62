package transform

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// planFormat is the version of plan JSON. A parameter that a later version adds is left out of the canonical
// form while it has its default, so that digests of older plans stay.
const planFormat = 1

// Plan is a validated list of operators: DecodeImage, then operators on pixels, then Normalize, ToDtype and
// what may follow them. It is immutable and safe for concurrent use.
type Plan struct {
	ops       []Op
	cut       int     // ops[:cut] is the agent half, each a pixelOp; the others are tailOps
	first     int     // index of ops[0] in the whole plan
	pixels    shape   // what the agent half gives
	arrives   []Dtype // what arrives at each operator
	dtype     Dtype   // what the last one gives
	canonical []byte
	digest    [32]byte
	agent     *Plan // the halves of Cut
	rest      *Plan
}

// seal makes whole, which has everything but what follows from its operators, a Plan.
func seal(whole Plan) *Plan {
	p := &whole
	p.canonical = canonical(p.ops)
	p.digest = sha256.Sum256(p.canonical)
	switch p.cut {
	case len(p.ops):
		p.agent, p.rest = p, p
		if p.cut > 0 {
			p.rest = seal(Plan{first: p.cut, pixels: p.pixels, dtype: Uint8})
		}
	case 0:
		p.agent, p.rest = seal(Plan{dtype: Uint8}), p
	default:
		p.agent = seal(Plan{ops: p.ops[:p.cut:p.cut], cut: p.cut, pixels: p.pixels, arrives: p.arrives[:p.cut:p.cut], dtype: Uint8})
		p.rest = seal(Plan{ops: p.ops[p.cut:], first: p.cut, pixels: p.pixels, arrives: p.arrives[p.cut:], dtype: p.dtype})
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
		if ops[i], err = readEntry(fmt.Sprintf("ops[%d]", i), v); err != nil {
			return nil, err
		}
	}
	if n := count(ops); n > maxOps {
		return nil, planError(parseOp, "ops: %d operators, those of each RandomApply counted; at most %d", n, maxOps)
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

// count returns how many operators there are, those within others counted too.
func count(ops []Op) int {
	n := len(ops)
	for _, op := range ops {
		if a, ok := op.(RandomApply); ok {
			n += len(a.Transforms)
		}
	}
	return n
}

// readEntry reads the operator that stands at a place.
func readEntry(where string, v any) (Op, error) {
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
	p := Plan{ops: ops, arrives: make([]Dtype, len(ops)), dtype: Uint8}
	for i, op := range ops {
		p.arrives[i] = p.dtype
		_, decodes := op.(DecodeImage)
		if decodes != (i == 0) {
			return nil, planError(place(i, op), "a plan has one DecodeImage, and it is the first operator")
		}
		var err error
		px, pixels := op.(pixelOp) // a RandomErasing is both: where it stands decides
		t, tail := op.(tailOp)
		switch {
		case pixels && p.cut == i:
			p.pixels, err = px.shape(place(i, op), p.pixels)
			p.cut = i + 1
		case tail:
			ops[i], p.dtype, err = t.settle(place(i, op), p.dtype, p.pixels.channels)
		default:
			err = planError(place(i, op), "operators on pixels come before Normalize and ToDtype, which end a plan")
		}
		if err != nil {
			return nil, err
		}
	}
	return seal(p), nil
}

// place names the operator of an index, as in a plan or in a RandomApply of one.
func place(i int, op Op) string {
	if i < innerIndex {
		return fmt.Sprintf("ops[%d] %s", i, op.Name())
	}
	return fmt.Sprintf("ops[%d] RandomApply transforms[%d] %s", i%innerIndex, i/innerIndex-1, op.Name())
}

// Canonical returns the plan's one spelling: sorted keys, defaults filled in, no spaces, numbers as
// in RFC 8785. The caller may keep and change it.
func (p *Plan) Canonical() []byte { return slices.Clone(p.canonical) }

// Digest returns the SHA-256 of the canonical form.
func (p *Plan) Digest() [32]byte { return p.digest }

// entries are operators as they stand in canonical JSON.
func entries(ops []Op) []map[string]any {
	list := make([]map[string]any, len(ops))
	for i, op := range ops {
		list[i] = op.params()
		list[i]["op"] = op.Name()
	}
	return list
}

func canonical(ops []Op) []byte {
	// encoding/json sorts map keys and spells float64 as ECMAScript does, which is RFC 8785's rule; no
	// string here holds a character that it would escape.
	b, err := json.Marshal(map[string]any{"plan": planFormat, "ops": entries(ops)})
	if err != nil {
		panic("transform: a validated plan has no canonical form: " + err.Error())
	}
	return b
}

// Len returns the number of operators.
func (p *Plan) Len() int { return len(p.ops) }

// Cut splits the plan where its bytes are fewest: agent holds everything up to the last operator on
// pixels and gives uint8; rest holds the tail (Normalize, ToDtype and what follows them) and may be
// empty. Operator indices, and so everything drawn, do not change by cutting.
func (p *Plan) Cut() (agent, rest *Plan) { return p.agent, p.rest }

// Fixed returns the plan's output when it does not depend on the input's size.
func (p *Plan) Fixed() (TensorSpec, bool) {
	if p.cut == 0 || p.pixels.w == 0 {
		return TensorSpec{}, false
	}
	return TensorSpec{Dtype: p.dtype, Shape: []int{p.pixels.h, p.pixels.w, p.pixels.channels}}, true
}

// Output returns the plan's output for one sample whose decoded image has the given size.
func (p *Plan) Output(width, height int, key Key) (TensorSpec, error) {
	r, err := p.Resolve(width, height, key)
	if err != nil {
		return TensorSpec{}, err
	}
	r.Output.Dtype = p.dtype
	return r.Output, nil
}

// OutputStored returns the plan's output for one sample of which only the size is known that its file names, before EXIF
// orientation turns it. exact is false when a turned picture would give another output; then spec is the larger one.
func (p *Plan) OutputStored(width, height int, key Key) (spec TensorSpec, exact bool, err error) {
	spec, err = p.Output(width, height, key)
	if p.cut == 0 || p.ops[0].(DecodeImage).Orientation != "apply" {
		return spec, err == nil, err
	}
	turned, turnedErr := p.Output(height, width, key)
	switch {
	case err != nil && turnedErr != nil:
		return TensorSpec{}, false, err
	case err != nil || turnedErr == nil && turned.Bytes() > spec.Bytes():
		return turned, false, nil
	}
	return spec, turnedErr == nil && turned.Equal(spec), nil
}

// Identities returns, sorted, the versioned algorithms of the agent half: two places must share their
// golden digests before one may use the other's pixels. The tail runs at the consumer only and has none.
func (p *Plan) Identities() []string {
	var ids []string
	for _, op := range p.ops[:p.cut] {
		ids = append(ids, op.(pixelOp).identities()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
