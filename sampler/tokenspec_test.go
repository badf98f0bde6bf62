package sampler

import (
	"slices"
	"strings"
	"testing"
)

const tokenSpec = `{"global_batch":64,"last":"drop","seed":7,"shuffle":"full","sources":[{"name":"","samples":1000}],"spec":2,"tokens":{"packing":"chunk","sequence_length":4096}}`

func TestTokenSpec(t *testing.T) {
	s := mustParse(t, tokenSpec)
	if got := string(s.Spec().Canonical()); got != tokenSpec {
		t.Errorf("canonical form %s, want %s", got, tokenSpec)
	}
	if got := ids(s.Step(1, nil)); got[0] != 64 || !slices.IsSorted(got) {
		t.Errorf("chunks are not in their order: %v", got)
	}
	windows := mustParse(t, strings.Replace(tokenSpec, `"packing":"chunk",`, ``, 1))
	if got := ids(windows.Step(1, nil)); slices.IsSorted(got) {
		t.Errorf("windows are not shuffled: %v", got)
	}
	if got := string(windows.Spec().Canonical()); got != strings.Replace(tokenSpec, "chunk", "windows", 1) {
		t.Errorf("canonical form %s: windows are the default", got)
	}
	state := s.State([32]byte{}, 3, Policy{})
	for text, want := range map[string]string{
		strings.Replace(tokenSpec, "4096", "2048", 1):     "sequence length 4096, packing chunk in the state, sequence length 2048",
		strings.Replace(tokenSpec, "chunk", "windows", 1): "packing windows here",
		strings.Replace(strings.Replace(tokenSpec, `,"tokens":{"packing":"chunk","sequence_length":4096}`, "", 1), "2,", "1,", 1): "none here",
	} {
		if err := state.Check(mustParse(t, text), [32]byte{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("loaded by %s: %v, want %q", text, err, want)
		}
	}
}

const megatronSpec = `{"global_batch":64,"last":"drop","seed":7,"shuffle":"full","sources":[{"name":"","samples":1000}],"spec":2,` +
	`"tokens":{"megatron":{"part":"train","samples":900,"seed":1234,"split":"969,30,1","surplus":0.005,"weights":[0.7,0.3]},"packing":"megatron","sequence_length":4096}}`

func TestMegatronSpec(t *testing.T) {
	s := mustParse(t, megatronSpec)
	if got := string(s.Spec().Canonical()); got != megatronSpec {
		t.Errorf("canonical form %s, want %s", got, megatronSpec)
	}
	if got := ids(s.Step(1, nil)); got[0] != 64 || !slices.IsSorted(got) {
		t.Errorf("samples are not in their order: %v", got)
	}
	state := s.State([32]byte{}, 3, Policy{})
	for _, change := range [][2]string{{"1234", "1235"}, {"969,30,1", "970,29,1"}, {"0.7", "0.8"}, {"900", "901"}, {"0.005", "0.5"}, {`"train"`, `"valid"`}} {
		other := mustParse(t, strings.Replace(megatronSpec, change[0], change[1], 1))
		if err := state.Check(other, [32]byte{}); err == nil || !strings.Contains(err.Error(), change[1]) {
			t.Errorf("%s in place of %s: %v", change[1], change[0], err)
		}
	}
	for _, c := range [][3]string{
		{`"packing":"megatron",`, `"packing":"chunk",`, "no other has"},
		{`"train"`, `"all"`, "tokens.megatron.part"},
		{`900`, `-2`, "tokens.megatron.samples: -2"},
		{`0.7`, `-0.7`, "surplus and weights is -0.7"},
		{`"surplus":0.005,`, ``, "tokens: megatron: surplus: missing"},
		{`"seed":1234`, `"seed":4294967296`, "megatron: seed"},
	} {
		if _, err := ParseSpec([]byte(strings.Replace(megatronSpec, c[0], c[1], 1))); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: %v, want %q", c[1], err, c[2])
		}
	}
}

func TestTokenSpecRefuses(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"no length":      {`,"sequence_length":4096`, ``, "tokens: sequence_length: missing"},
		"length of 0":    {`4096`, `0`, "tokens.sequence_length: 0: must be 1 to"},
		"too long":       {`4096`, `16777217`, "tokens.sequence_length: 16777217"},
		"packing":        {`"chunk"`, `"first-fit"`, `tokens.packing: "first-fit"`},
		"unknown key":    {`"packing"`, `"pack"`, `tokens: unknown key "pack"`},
		"null":           {`{"packing":"chunk","sequence_length":4096}`, `null`, "tokens: null"},
		"old version":    {`"spec":2`, `"spec":1`, "need version 2"},
		"not an object":  {`{"packing":"chunk","sequence_length":4096}`, `[]`, "tokens: not a JSON object"},
		"negative":       {`4096`, `-1`, "tokens.sequence_length: -1"},
		"key given once": {`"sequence_length":4096`, `"sequence_length":4096,"sequence_length":4096`, "given twice"},
	} {
		if _, err := ParseSpec([]byte(strings.Replace(tokenSpec, c.old, c.new, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
