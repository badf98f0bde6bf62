package sampler

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var photos = [32]byte{1, 2, 3}

func reload(t rapid.TB, st State) State {
	t.Helper()
	got, err := ParseState(st.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Saving what was just loaded gives the same bytes.
func TestStateSurvivesARoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mustNew(t, drawSpec(t, maxSamples))
		step := rapid.Int64Min(0).Draw(t, "step")
		policy := Policy{OnBad: rapid.SampledFrom([]string{"", OnBadSubstitute, OnBadRaise}).Draw(t, "on_bad")}
		saved := s.State(photos, step, policy)
		got := reload(t, saved)
		if err := got.Check(s, photos); err != nil {
			t.Fatal(err)
		}
		fresh := mustNew(t, s.Spec())
		if !bytes.Equal(fresh.State(photos, got.Step, got.Policy).Marshal(), saved.Marshal()) {
			t.Fatalf("%s saved again differs", saved.Marshal())
		}
	})
}

func TestStateBytes(t *testing.T) {
	s := mustParse(t, goodSpec)
	want := `{"dataset":"0102030000000000000000000000000000000000000000000000000000000000","epoch":1,` +
		`"policy":{"on_bad":"substitute"},"spec":` + string(s.Spec().Canonical()) +
		`,"spec_digest":"8b97fb7ca21effc5bb47165aa531d26f82a4f4632bff62375d5fd5b992404f96","state":1,"step":16}`
	if got := string(s.State(photos, 16, Policy{}).Marshal()); got != want {
		t.Fatalf("state %s\nwant  %s", got, want)
	}
}

// A state of an epoch's end starts the next epoch, and all of them are whole.
func TestAResumeAnywhereGivesTheUnbrokenRun(t *testing.T) {
	s := mustNew(t, testSpec(100, 16))
	var whole []SampleRef
	for step := range 3 * s.StepsPerEpoch() {
		whole = s.Step(step, whole)
	}
	for stop := range 3 * s.StepsPerEpoch() {
		st := reload(t, s.State(photos, stop, Policy{}))
		if want := stop / s.StepsPerEpoch(); st.Epoch != want {
			t.Fatalf("state before step %d is of epoch %d, want %d", stop, st.Epoch, want)
		}
		rest := []SampleRef{}
		for step := st.Step; step < 3*s.StepsPerEpoch(); step++ {
			rest = mustNew(t, s.Spec()).Step(step, rest)
		}
		if !slices.Equal(rest, whole[stop*16:]) {
			t.Fatalf("resumed at step %d the run differs", stop)
		}
	}
}

func TestStateStaysSmall(t *testing.T) {
	spec := testSpec(maxSamples, maxGlobalBatch)
	spec.Seed = 1<<64 - 1
	for _, name := range []string{"", strings.Repeat("x", maxNameBytes), strings.Repeat("\\", maxNameBytes)} {
		spec.Sources[0].Name = name
		s := mustNew(t, spec)
		st := s.State(photos, 1<<62, Policy{})
		if n := len(st.Marshal()); n > 1024 {
			t.Errorf("state of %d bytes", n)
		}
		if err := reload(t, st).Check(s, photos); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckNamesWhatDiffers(t *testing.T) {
	s := mustParse(t, goodSpec)
	saved := s.State(photos, 20, Policy{})
	other := Spec{Version: 1, Seed: 8, GlobalBatch: 32, Shuffle: ShuffleNone, Last: LastPad, Sources: []Source{{Name: "b", Samples: 999}}}
	diff := func(st State, s *Sampler, dataset [32]byte) []string {
		var mismatch *MismatchError
		if !errors.As(st.Check(s, dataset), &mismatch) {
			return nil
		}
		return mismatch.Diff
	}
	zero := strings.Repeat("0", 58)
	for name, c := range map[string]struct {
		got, want []string
	}{
		"nothing": {diff(saved, s, photos), nil},
		"the spec": {diff(saved, mustNew(t, other), photos), []string{
			"seed: 7 in the state, 8 here", "global batch: 64 in the state, 32 here", "shuffle: full in the state, none here",
			"last: drop in the state, pad here", `source name: "" in the state, "b" here`, "samples: 1000 in the state, 999 here"}},
		"the dataset": {diff(saved, s, [32]byte{9}), []string{"dataset: 010203" + zero + " in the state, 090000" + zero + " here"}},
		"the epoch":   {diff(State{Version: 1, SpecDigest: saved.SpecDigest, Dataset: saved.Dataset, Step: 20, Epoch: 7}, s, photos), []string{"epoch of step 20: 7 in the state, 1 here"}},
		"the step":    {diff(State{Version: 1, SpecDigest: saved.SpecDigest, Dataset: saved.Dataset, Step: -1}, s, photos), []string{"step: -1 in the state, 0 or more here"}},
		"the version": {diff(State{Version: 3, SpecDigest: saved.SpecDigest, Dataset: saved.Dataset}, s, photos), []string{"version: 3 in the state, 2 here"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
	saved.Spec = nil
	if got := diff(saved, mustNew(t, other), photos); len(got) != 1 || !strings.HasPrefix(got[0], "spec digest: "+saved.SpecDigest) {
		t.Errorf("without the spec: %q", got)
	}
}

func TestParseStateRefuses(t *testing.T) {
	good := string(mustParse(t, goodSpec).State(photos, 20, Policy{}).Marshal())
	for name, c := range map[string]struct{ old, new, want string }{
		"another version":  {`"state":1`, `"state":3`, "version 3: version is not known"},
		"needless version": {`"state":1`, `"state":2`, "what it says is of version 1"},
		"members of old":   {`"policy"`, `"members":["0123456789abcdef"],"policy"`, "what it says is of version 2"},
		"short member":     {`"policy"`, `"members":["0123"],"policy"`, "members[0]: "},
		"given no digest":  {`"policy"`, `"given":{"number":1},"policy"`, "given: digest: missing"},
		"given bad digest": {`"policy"`, `"given":{"number":1,"digest":"x"},"policy"`, "given.digest: "},
		"unknown key":      {`"epoch"`, `"rank":3,"epoch"`, `unknown key "rank"`},
		"missing key":      {`"step":20`, `"step":20`[:0], "step: missing"},
		"negative step":    {`"step":20`, `"step":-20`, "must not be negative"},
		"unknown policy":   {`substitute`, `skip`, "the values are substitute, raise"},
		"damaged spec":     {`"seed":7`, `"seed":8`, "spec_digest says"},
		"invalid spec":     {`"shuffle":"full"`, `"shuffle":"blick"`, "spec: shuffle"},
		"short digest":     {`"dataset":"01`, `"dataset":"`, "dataset: "},
		"upper-case digit": {`"dataset":"0102`, `"dataset":"010A`, "lower-case"},
		"too large":        {`{"dataset"`, strings.Repeat(" ", maxStateBytes) + `{"dataset"`, "a state has at most 16384"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if name == "missing key" {
			text = strings.Replace(good, `,"step":20`, ``, 1)
		}
		if _, err := ParseState([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestStateOfSeveral: what several datasets and given steps add makes a state of version 2, comes back as it was, and
// takes no more than there is room for.
func TestStateOfSeveral(t *testing.T) {
	s := mustParse(t, goodSpec)
	plain := s.State(photos, 20, Policy{})
	whole := plain.WithMembers([][32]byte{photos, {0xab}}).WithGiven(7, [32]byte{1})
	if plain.Version != 1 || whole.Version != 2 || whole.Members[1] != "ab00000000000000" || whole.Given.Number != 7 {
		t.Errorf("%+v", whole)
	}
	if again := reload(t, whole); !bytes.Equal(again.Marshal(), whole.Marshal()) || len(again.Members) != 2 || *again.Given != *whole.Given {
		t.Errorf("%s became %s", whole.Marshal(), again.Marshal())
	}
	if err := whole.Check(s, photos); err != nil {
		t.Errorf("%v", err)
	}
	if many := plain.WithMembers(make([][32]byte, 2000)).WithGiven(1, photos); many.Members != nil || len(many.Marshal()) > maxStateBytes {
		t.Errorf("%d bytes with the members of 2,000 datasets", len(many.Marshal()))
	}
}

func FuzzParseState(f *testing.F) {
	spec := testSpec(1000, 10)
	s, err := New(spec)
	if err != nil {
		f.Fatal(err)
	}
	st := s.State(photos, 12345, Policy{})
	f.Add(st.Marshal())
	st.Spec = nil
	f.Add(st.Marshal())
	f.Add([]byte(`{"state":1,"policy":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		st, err := ParseState(data)
		if err != nil {
			return
		}
		if len(st.Marshal()) <= maxStateBytes {
			if again := reload(t, st); !bytes.Equal(again.Marshal(), st.Marshal()) {
				t.Fatalf("%s became %s", st.Marshal(), again.Marshal())
			}
		}
		_ = st.Check(s, photos)
	})
}

func TestARunGoesOnWithAnotherMixture(t *testing.T) {
	spec := mixture(32, []uint64{1000, 50}, []float64{.9, .1})
	saved := mustNew(t, spec).State(photos, 200, Policy{})
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"a change to come":       {func(s *Spec) { s.Changes = []Change{{Step: 200, Weights: map[string]float64{"s1": .5}}} }, ""},
		"a change that is past":  {func(s *Spec) { s.Changes = []Change{{Step: 199, Weights: map[string]float64{"s1": .5}}} }, "number of changes: 0 in the state, 1 here"},
		"another batch":          {func(s *Spec) { s.Changes = []Change{{Step: 300, GlobalBatch: 64}} }, ""},
		"a source to come":       {func(s *Spec) { addSource(s, 0, 200) }, ""},
		"a source that was part": {func(s *Spec) { addSource(s, .5, 200) }, "number of sources: 2 in the state, 3 here"},
		"a weight":               {func(s *Spec) { s.Sources[1].Weight = .2 }, `weight of "s1": 0.1 in the state, 0.2 here`},
		"a limit":                {func(s *Spec) { s.Sources[1].MaxEpochs = 2 }, `max epochs of "s1": 0 in the state, 2 here`},
		"a name":                 {func(s *Spec) { s.Sources[1].Name = "b" }, `name of source 1: "s1" in the state, "b" here`},
		"a temperature":          {func(s *Spec) { s.Temperature = 2 }, `temperature: 1 in the state, 2 here`},
		"epochs":                 {func(s *Spec) { s.EpochSteps = 9 }, `epoch steps: 0 in the state, 9 here`},
	} {
		t.Run(name, func(t *testing.T) {
			other := spec.clone()
			c.change(&other)
			s := mustNew(t, other)
			for _, st := range []State{reload(t, saved), {Version: 1, SpecDigest: saved.SpecDigest, Dataset: saved.Dataset, Step: 200, Epoch: saved.Epoch}} {
				err := st.Check(s, photos)
				if (err == nil) != (c.want == "") || err != nil && st.Spec != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
			}
		})
	}
}

func addSource(s *Spec, weight float64, step int64) {
	s.Sources = append(s.Sources, Source{Name: "new", Samples: 70, Weight: weight})
	s.Changes = []Change{{Step: step, Weights: map[string]float64{"new": .3}}}
}

// A chain of resumes, each with another mixture, is the run of the last spec.
func TestChangesReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawMixture(t)
		if len(spec.Sources) == 1 {
			return
		}
		var run []SampleRef
		step := int64(0)
		for range rapid.IntRange(0, 4).Draw(t, "resumes") {
			s := mustNew(t, spec)
			until := step + rapid.Int64Range(1, 20).Draw(t, "steps")
			for ; step < until; step++ {
				run = s.Step(step, run)
			}
			st := reload(t, s.State(photos, step, Policy{}))
			spec = drawChange(t, spec, step)
			if err := st.Check(mustNew(t, spec), photos); err != nil {
				t.Fatal(err)
			}
		}
		s, l := mustNew(t, reloadSpec(t, spec)), newLedger(spec)
		var whole []SampleRef
		for i := range step {
			whole = s.Step(i, whole)
		}
		if !slices.Equal(run, whole) {
			t.Fatal("the resumed run is not that of the last spec")
		}
		l.take(t, whole)
	})
}

func drawChange(t *rapid.T, spec Spec, step int64) Spec {
	spec = spec.clone()
	c := Change{Step: step, Weights: map[string]float64{}}
	for _, src := range spec.Sources {
		if rapid.Bool().Draw(t, "reweight") {
			c.Weights[src.Name] = rapid.Float64Range(.01, 1).Draw(t, "weight")
		}
	}
	if len(c.Weights) == 0 || rapid.Bool().Draw(t, "batch") {
		c.GlobalBatch = rapid.Int64Range(1, 100).Draw(t, "global batch")
	}
	spec.Changes = append(spec.Changes, c)
	return spec
}

func TestChangesByTokensComeAtTheFirstStepBehindThem(t *testing.T) {
	spec := mixture(8, []uint64{1000, 1000}, nil)
	spec.SampleTokens = 100
	spec.Changes = []Change{
		{Tokens: 8001, GlobalBatch: 16},                             // 800 tokens a step: step 11
		{Tokens: 8800 + 1600, Weights: map[string]float64{"s0": 0}}, // 1,600 a step: step 12
		{Tokens: 8800 + 3201, GlobalBatch: 4},                       // step 14
	}
	s := mustNew(t, spec)
	for step, want := range map[int64]int64{10: 8, 11: 16, 13: 16, 14: 4} {
		if got := s.GlobalBatch(step); got != want {
			t.Errorf("step %d has a batch of %d, want %d", step, got, want)
		}
	}
	if has0 := slices.ContainsFunc(s.Step(11, nil), func(r SampleRef) bool { return r.Source == 0 }); !has0 {
		t.Error("step 11 has nothing of s0")
	}
	if has0 := slices.ContainsFunc(s.Step(12, nil), func(r SampleRef) bool { return r.Source == 0 }); has0 {
		t.Error("step 12 still has samples of s0")
	}
}

func TestTheStateAfterTheEndOfARun(t *testing.T) {
	spec := mixture(8, []uint64{30, 20}, nil)
	spec.Sources[0].MaxEpochs, spec.Sources[1].MaxEpochs = 1, 2
	s := mustNew(t, spec)
	steps, ends := s.Steps()
	if steps != 70/8 || !ends {
		t.Fatalf("%d steps, ends %v", steps, ends)
	}
	st := reload(t, s.State(photos, steps, Policy{}))
	if err := st.Check(s, photos); err != nil {
		t.Error(err)
	}
	st.Step++
	if err := st.Check(s, photos); err == nil || !strings.Contains(err.Error(), "step: 9 in the state, at most 8 here") {
		t.Error(err)
	}
}
