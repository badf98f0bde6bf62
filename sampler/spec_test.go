package sampler

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const goodSpec = `{"spec":1,"seed":7,"global_batch":64,"shuffle":"full","last":"drop","sources":[{"name":"","samples":1000}]}`

func TestParseSpecRefuses(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"another version":  {`"spec":1`, `"spec":3,"new":1`, "version 3: version is not known: this program knows versions 1 to 2"},
		"no version":       {`"spec":1,`, ``, "spec: missing"},
		"unknown key":      {`"seed"`, `"sead":1,"seed"`, `unknown key "sead"`},
		"another case":     {`"seed"`, `"Seed"`, `unknown key "Seed"`},
		"key given twice":  {`"seed":7`, `"seed":7,"seed":8`, "seed: given twice"},
		"null":             {`"seed":7`, `"seed":null`, "seed: null"},
		"negative seed":    {`"seed":7`, `"seed":-7`, "seed: "},
		"seed too large":   {`"seed":7`, `"seed":18446744073709551616`, "seed: "},
		"fraction":         {`"global_batch":64`, `"global_batch":64.5`, "global_batch: "},
		"batch of 0":       {`"global_batch":64`, `"global_batch":0`, "global_batch: 0: must be 1 to 4194304"},
		"giant batch":      {`"global_batch":64`, `"global_batch":4194305`, "global_batch: 4194305"},
		"block shuffle":    {`"full"`, `"block"`, "need version 2"},
		"unknown shuffle":  {`"full"`, `"fuII"`, `shuffle: "fuII": value is not supported: the values are full, none, block`},
		"unknown last":     {`"drop"`, `"keep"`, `last: "keep": value is not supported: the values are drop, pad, carry`},
		"no sources":       {`{"name":"","samples":1000}`, ``, "sources: 0 given"},
		"a mixture":        {`{"name":"","samples":1000}`, `{"name":"a","samples":1000},{"name":"b","samples":1}`, `last: "drop": several sources`},
		"weights":          {`"samples":1000`, `"samples":1000,"weight":1`, "one source has no share to weigh"},
		"megatron's order": {`"seed":7`, `"order":"megatron","seed":7`, `unknown key "order"`},
		"no samples":       {`1000`, `0`, "sources[0].samples: 0"},
		"too many samples": {`1000`, `4611686018427387905`, "sources[0].samples: 4611686018427387905"},
		"small source":     {`1000`, `63`, "global_batch: 64, sources[0].samples: 63: fewer samples than one global batch"},
		"newline in name":  {`"name":""`, `"name":"a\nb"`, "U+000A is not printable"},
		"long name":        {`"name":""`, `"name":"` + strings.Repeat("x", 256) + `"`, "256 bytes"},
		"trailing data":    {`]}`, `]} {}`, "more data"},
		"cut":              {`]}`, ``, "sources: the JSON ends too early"},
		"only a brace":     {goodSpec, `{`, "the JSON ends too early"},
		"text of a number": {`"samples":1000`, `"samples":"1000"`, "sources[0]: samples: string: must be a whole number from 0 to 2^64-1"},
		"seed below 0":     {`"seed":7`, `"seed":-7`, "seed: number -7: must be a whole number from 0 to 2^64-1"},
		"name of bytes":    {`"name":""`, "\"name\":\"\xff\"", "not UTF-8"},
		"half a pair":      {`"name":""`, `"name":"\ud800"`, "half of a surrogate pair"},
		"not an object":    {goodSpec, `[1]`, "not a JSON object"},
		"empty":            {goodSpec, ``, "not a JSON object"},
		"huge":             {goodSpec, strings.Repeat(" ", maxSpecBytes+1), "a spec has at most 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodSpec, c.old, c.new, 1)
			if _, err := ParseSpec([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s\ngives %v, want %q", text, err, c.want)
			}
		})
	}
}

// The character that stands for wrong ones is one itself.
func TestReplacementCharacterIsAName(t *testing.T) {
	for _, name := range []string{"\uFFFD", `\ufffd`, `\uFFFD`} {
		spec, err := ParseSpec([]byte(strings.Replace(goodSpec, `"name":""`, `"name":"`+name+`"`, 1)))
		if err != nil || spec.Sources[0].Name != "\uFFFD" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateReportsAllProblemsAtOnce(t *testing.T) {
	err := Spec{Version: 1, Shuffle: "blick", Last: "x"}.Validate()
	for _, want := range []string{"shuffle", "last", "global_batch", "sources"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v is not ErrUnsupported", err)
	}
	if err := (Spec{}).Validate(); !errors.Is(err, ErrVersion) {
		t.Errorf("the zero Spec gives %v, want ErrVersion", err)
	}
	if _, err := New(Spec{Version: 1}); err == nil {
		t.Error("New takes an invalid spec")
	}
}

func TestSpecDefaultsAndCanonicalForm(t *testing.T) {
	short, err := ParseSpec([]byte(` {"sources":[{"samples":1000,"name":"a<b>&"}],"global_batch":64,"seed":7,"spec":1} `))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"global_batch":64,"last":"drop","seed":7,"shuffle":"full","sources":[{"name":"a<b>&","samples":1000}],"spec":1}`
	if got := string(short.Canonical()); got != want {
		t.Errorf("canonical %s\nwant      %s", got, want)
	}
	written := Spec{Version: 1, Seed: 7, GlobalBatch: 64, Sources: []Source{{Name: "a<b>&", Samples: 1000}}}
	if written.Digest() != short.Digest() {
		t.Error("defaults change the digest")
	}
}

func TestSpecSurvivesARoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t, maxSamples)
		got, err := ParseSpec(spec.Canonical())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Canonical(), spec.Canonical()) {
			t.Fatalf("%s became %s", spec.Canonical(), got.Canonical())
		}
	})
}

func FuzzParseSpec(f *testing.F) {
	f.Add([]byte(goodSpec))
	f.Add([]byte(`{"spec":3}`))
	f.Add([]byte(`{"spec":1,"seed":18446744073709551615,"global_batch":1,"sources":[{"name":"\u00e9","samples":1}]}`))
	f.Add([]byte(`{"spec":1,"spec":1`))
	f.Add([]byte(`{"spec":2,"seed":1,"global_batch":9,"sources":[{"name":"a","samples":7,"weight":0.5,"max_epochs":3},{"name":"b","samples":1,"weight":1e-9}],` +
		`"temperature":1.7,"sample_tokens":9,"changes":[{"tokens":100,"weights":{"b":0}},{"step":7,"global_batch":2}]}`))
	f.Add([]byte(`{"spec":2,"seed":1,"global_batch":3,"shuffle":"block","chunk":2,"window":3,"last":"pad","sources":[{"name":"","samples":7}]}`))
	f.Add([]byte(`{"spec":2,"seed":1,"global_batch":3,"epoch_steps":4,"sources":[{"name":"a","samples":7,"upsample":0.5},{"name":"b","samples":4611686018427387904}]}`))
	f.Add([]byte(`{"spec":2,"seed":1,"global_batch":3,"sources":[{"name":"","samples":70}],"group_by_length":{"column":"n","steps":7}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := ParseSpec(data)
		if err != nil {
			return
		}
		again, err := ParseSpec(spec.Canonical())
		if err != nil || again.Digest() != spec.Digest() {
			t.Fatalf("%s: %v", spec.Canonical(), err)
		}
		s, err := New(spec)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Explain()
		steps, _ := s.Steps()
		for _, step := range []int64{0, min(1<<40, steps-1), steps - 1} {
			if step < 0 || s.GlobalBatch(step) > 1<<12 {
				continue
			}
			if first, n := s.Window(step); first > step || n < 1 || uint64(first+n) <= uint64(step) || uint64(first+n) > s.last {
				t.Fatalf("step %d is of the %d steps from %d on", step, n, first)
			}
			for _, r := range s.Step(step, nil) {
				if r.Sample >= spec.Sources[r.Source].Samples {
					t.Fatalf("sample %d of source %d", r.Sample, r.Source)
				}
			}
		}
	})
}

// Weights that no mixture can have, and what they mean where they can.
func TestWeightsAreRefusedOrDefined(t *testing.T) {
	for name, c := range map[string]struct {
		weights []float64
		want    string // of the error
	}{
		"negative":     {[]float64{-1, 2}, "sources[0].weight: -1: must be 0, or 1e-18 to 1e+18"},
		"NaN":          {[]float64{math.NaN(), 2}, "sources[0].weight: NaN: must be"},
		"infinite":     {[]float64{math.Inf(1), 2}, "sources[0].weight: +Inf: must be"},
		"too small":    {[]float64{1e-19, 2}, "must be 0, or 1e-18"},
		"zero":         {[]float64{0, 2}, ""},
		"sum is not 1": {[]float64{20, 60}, ""},
	} {
		s, err := New(mixture(8, []uint64{10, 10}, c.weights))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
			continue
		}
		if err == nil {
			want := []uint64{uint64(100 * c.weights[0] / (c.weights[0] + c.weights[1]) * 8), 0}
			want[1] = 800 - want[0]
			if got := s.Counts(100); !slices.Equal(got, want) {
				t.Errorf("%s: %v of 800 samples, want %v", name, got, want)
			}
		}
	}
}

func TestCanonicalFormOfMixtures(t *testing.T) {
	got := mustParse(t, `{"spec":2,"seed":7,"global_batch":8,"temperature":1,"last":"carry","shuffle":"block","sources":[{"name":"b","samples":9,"weight":1e-7,`+
		`"max_epochs":2},{"name":"a","samples":9,"weight":-0.0}],"changes":[{"step":1,"weights":{"b":1e17,"a":0.25}}]}`).Spec().Canonical()
	want := `{"changes":[{"step":1,"weights":{"a":0.25,"b":100000000000000000}}],"chunk":1024,"global_batch":8,"last":"carry","seed":7,"shuffle":"block",` +
		`"sources":[{"max_epochs":2,"name":"b","samples":9,"weight":1e-7},{"name":"a","samples":9,"weight":0}],"spec":2,"window":32}`
	if string(got) != want {
		t.Errorf("canonical %s\nwant      %s", got, want)
	}
	if got := mustParse(t, `{"spec":2,"seed":7,"global_batch":8,"sources":[{"name":"","samples":9,"upsample":1}]}`).Spec(); got.Version != 1 {
		t.Errorf("what version 1 can say has version %d", got.Version)
	}
}

func TestParseSpecRefusesMixtures(t *testing.T) {
	const good = `{"spec":2,"seed":7,"global_batch":8,"sources":[{"name":"a","samples":9,"weight":1},{"name":"b","samples":9,"weight":1}],"changes":[{"step":5,"weights":{"a":2}}]}`
	mustParse(t, good)
	for name, c := range map[string]struct{ old, new, want string }{
		"an emptied source":   {`"samples":9,"weight":1}]`, `"samples":0,"weight":1}]`, "sources[1].samples: 0: nothing could be drawn from it: leave out a source that is empty"},
		"a negative weight":   {`"b","samples":9,"weight":1`, `"b","samples":9,"weight":-1`, "sources[1].weight: -1: must be"},
		"a weight of NaN":     {`"b","samples":9,"weight":1`, `"b","samples":9,"weight":NaN`, "sources"},
		"a change to less":    {`{"a":2}`, `{"a":-2}`, `changes[0].weights["a"]: -2: must be`},
		"some weights":        {`,"weight":1},{`, `},{`, "1 of 2 have a weight"},
		"all weights zero":    {`"weight":1},{"name":"b","samples":9,"weight":1`, `"weight":0},{"name":"b","samples":9,"weight":0`, "all weights are 0"},
		"a change to zero":    {`{"a":2}`, `{"a":0,"b":0}`, "changes[0] (step 5): weights: all weights are 0"},
		"weight and upsample": {`"weight":1}`, `"weight":1,"upsample":2}`, "sources[0].upsample: 2: it stands for a weight"},
		"equal names":         {`"name":"b"`, `"name":"a"`, `sources[1].name: "a": sources[0] has the same name`},
		"no name":             {`"name":"b"`, `"name":""`, "sources[1].name: empty"},
		"unknown name":        {`{"a":2}`, `{"c":2}`, `changes[0].weights["c"]: no source has this name`},
		"a name twice":        {`{"a":2}`, `{"a":2,"a":3}`, "a: given twice"},
		"a weight of null":    {`{"a":2}`, `{"a":null}`, `"a": null is not a number`},
		"step 0":              {`"step":5`, `"step":0`, "changes[0]: give either step or tokens"},
		"steps back":          {`]}`, `],"x":0}`, `unknown key "x"`},
		"two at a step":       {`{"a":2}}`, `{"a":2}},{"step":5,"global_batch":3}`, "changes[1]: step 5: the change before it"},
		"nothing":             {`,"weights":{"a":2}`, ``, "changes[0]: changes nothing"},
		"tokens of what":      {`"step":5`, `"tokens":5`, "sample_tokens: missing"},
		"tokens of nothing":   {`"seed"`, `"sample_tokens":5,"seed"`, "sample_tokens: 5: only changes"},
		"far":                 {`"step":5`, `"step":9007199254740992`, ""},
		"too far":             {`"step":5`, `"step":9007199254740993`, "changes[0].step"},
		"temperature":         {`"seed"`, `"temperature":0.001,"seed"`, "temperature: 0.001: must be 0.01 to 1e+06"},
		"a change behind":     {`"weight":1}`, `"weight":1,"max_epochs":1}`, ""},
		"the run ends before": {`"weight":1},{"name":"b","samples":9,"weight":1}`, `"weight":1,"max_epochs":1},{"name":"b","samples":9,"weight":1,"max_epochs":1}`, "the run ends before"},
		"drop":                {`"seed"`, `"last":"drop","seed"`, `last: "drop": several sources`},
		"chunk of full":       {`"seed"`, `"chunk":3,"seed"`, "only shuffle \"block\" uses them"},
		"version 1":           {`"spec":2`, `"spec":1`, "need version 2"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		_, err := ParseSpec([]byte(text))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s\ngives %v, want %q", name, text, err, c.want)
		}
	}
}
