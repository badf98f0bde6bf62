package oracle

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/transform"
)

// Whatever the fuzzer writes into the control bytes is a plan that the worker runs.
func TestEveryDrawIsAPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, in := Split(rapid.SliceOfN(rapid.Byte(), 0, 2*Control).Draw(t, "data"))
		for _, text := range []string{c.whole(), c.decode(), c.rest()} {
			if !isAgents(text) {
				_, err := transform.ParsePlan([]byte(text))
				t.Fatalf("%s: %v", text, err)
			}
		}
		if len(in) > Control {
			t.Fatalf("%d bytes are left", len(in))
		}
	})
}

// A way that differs, an error without a name, an input written to and a region unlike the whole are all found.
func TestFaultsAreFound(t *testing.T) {
	fine := func(plan *transform.Plan, _ transform.Key, in, out []byte) (transform.TensorSpec, error) {
		if len(in) == 0 {
			return transform.TensorSpec{}, &transform.Error{Kind: transform.KindTruncated, Op: "DecodeImage", Detail: "0 bytes"}
		}
		clear(out[:12])
		return transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{2, 2, 3}}, nil
	}
	other := func(plan *transform.Plan, key transform.Key, in, out []byte) (transform.TensorSpec, error) {
		spec, err := fine(plan, key, in, out)
		out[5] = 1
		return spec, err
	}
	for want, p := range map[string]Pipeline{
		"":                  {Run: fine, Same: []Way{{"again", fine}}},
		"byte 5 of [2 2 3]": {Run: fine, Same: []Way{{"other", other}}},
		"is no named error": {Run: failing(errors.New("oops"))},
		"says nothing":      {Run: failing(&transform.Error{Kind: transform.KindCrash, Op: "a", Detail: "b"})},
		"names no":          {Run: failing(&transform.Error{Kind: transform.KindDecode})},
		"cannot be shown":   {Run: failing(&transform.Error{Kind: transform.KindDecode, Op: "a", Detail: "\x1b"})},
		"the input was": {Run: func(_ *transform.Plan, k transform.Key, in, out []byte) (transform.TensorSpec, error) {
			in[0]++
			return fine(nil, k, in, out)
		}},
		"a region decoded, an": {Run: func(p *transform.Plan, k transform.Key, in, out []byte) (transform.TensorSpec, error) {
			if in[0] == 'x' && p.Len() > 1 {
				return other(p, k, in, out)
			}
			return fine(p, k, in, out)
		}},
	} {
		p.MaxOutput = 12
		data := append(make([]byte, Control), 'x')
		for i := range Control {
			data[i] = 1
		}
		err := p.Check(data)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func failing(err error) Func {
	return func(*transform.Plan, transform.Key, []byte, []byte) (transform.TensorSpec, error) {
		return transform.TensorSpec{}, err
	}
}

// A plan that nobody can draw any more, because a parameter has another name, is missed.
func TestEveryOperatorIsDrawn(t *testing.T) {
	if o := offered(); len(o.ops) != len(operators()) || len(o.decode) != 3 {
		t.Errorf("%d of %d operators and %d ways to decode are plans", len(o.ops), len(operators()), len(o.decode))
	}
}
