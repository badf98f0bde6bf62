package sampler

import (
	"bytes"
	"errors"
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
		"cut":              {`]}`, ``, "sources"},
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
		for _, r := range s.Rank(1<<40, 0, int(spec.GlobalBatch), nil) {
			if r.Sample >= spec.Sources[0].Samples {
				t.Fatalf("sample %d", r.Sample)
			}
		}
	})
}
