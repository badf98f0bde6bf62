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

// LO-5, and the promise of equal bytes: saving what was just loaded gives the same bytes.
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

// LO-2, LO-3, LO-4: a state of an epoch's end starts the next epoch, and all of them are whole.
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
		if n := len(st.Marshal()); n > maxStateBytes {
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
		"the version": {diff(State{Version: 3, SpecDigest: saved.SpecDigest, Dataset: saved.Dataset}, s, photos), []string{"version: 3 in the state, 1 here"}},
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
		"another version":  {`"state":1`, `"state":2`, "version 2: version is not known"},
		"unknown key":      {`"epoch"`, `"rank":3,"epoch"`, `unknown key "rank"`},
		"missing key":      {`"step":20`, `"step":20`[:0], "step: missing"},
		"negative step":    {`"step":20`, `"step":-20`, "must not be negative"},
		"unknown policy":   {`substitute`, `skip`, "the values are substitute, raise"},
		"damaged spec":     {`"seed":7`, `"seed":8`, "spec_digest says"},
		"invalid spec":     {`"shuffle":"full"`, `"shuffle":"block"`, "spec: shuffle"},
		"short digest":     {`"dataset":"01`, `"dataset":"`, "dataset: "},
		"upper-case digit": {`"dataset":"0102`, `"dataset":"010A`, "lower-case"},
		"too large":        {`{"dataset"`, strings.Repeat(" ", maxStateBytes) + `{"dataset"`, "a state has at most 1024"},
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
