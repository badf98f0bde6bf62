package pybind

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/loader"
	"github.com/stepahead-io/stepahead/sampler/megatron"
)

// What is said twice is refused by name, also where it is 0.
func TestOptionsSaidTwice(t *testing.T) {
	for text, want := range map[string]string{
		`{"url": "/x", "spec": {"spec": 1}, "seed": 0}`:                                         "spec: seed=0: the seed is in the specification",
		`{"sources": [{"url": "/x", "name": "a", "weight": 0}], "spec": {"spec": 1}}`:           `the weight of the source "a"`,
		`{"url": "/x", "spec": {"spec": 1}, "chunk": 4}`:                                        "chunk, window",
		`{"url": "/x", "seed": 0, "tokens": {"sequence_length": 4, "order": {"part": "test"}}}`: "seed: 0: Megatron's order has its own",
	} {
		o, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var lo loader.Options
		for range o.Sources {
			lo.Sources = append(lo.Sources, loader.Source{})
		}
		if err := errors.Join(o.seedTwice(), o.whole(&lo)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What the Python Tokens and megatron.Order send.
func TestTokenOptions(t *testing.T) {
	const text = `{"tokens": {"sequence_length": 4096, "packing": "windows", "order": {"samples": -1, "seed": 1234, "part": "valid", ` +
		`"split": "969,30,1", "weights": [0.7, 0.3], "surplus": 0.005, "micro_batch": 2}}}`
	o, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := o.Tokens.loader()
	if err != nil {
		t.Fatal(err)
	}
	m := got.Megatron
	if got.SequenceLength != 4096 || m.Part != megatron.Valid || m.Samples != megatron.OneEpoch || m.Seed != 1234 || m.Split != "969,30,1" ||
		!slices.Equal(m.Weights, []float64{0.7, 0.3}) || m.Surplus != 0.005 || m.MicroBatch != 2 {
		t.Errorf("got %+v, %+v", got, m)
	}
	o, err = parse(strings.Replace(text, "valid", "all", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Tokens.loader(); err == nil || !strings.Contains(err.Error(), `"all"`) {
		t.Errorf("an unknown part: %v", err)
	}
	if o, err := (*tokenOptions)(nil).loader(); o != nil || err != nil {
		t.Errorf("no tokens: %v, %v", o, err)
	}
}
