package sampler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lengthOf is a length for every sample, with many that are equal.
func lengthOf(ref SampleRef) (uint64, error) {
	return (ref.Sample*2654435761 + uint64(ref.Source)*977) % 37, nil
}

func drawGrouped(t *rapid.T) Spec {
	spec := drawMixture(t)
	if rapid.Bool().Draw(t, "plain") {
		spec = drawSpec(t, 3000)
	} else if rapid.Bool().Draw(t, "ends") {
		for i := range spec.Sources {
			spec.Sources[i].MaxEpochs = rapid.Uint64Range(1, 3).Draw(t, "max epochs")
		}
	}
	spec.GroupByLength = &GroupByLength{Column: "length", Steps: rapid.Int64Range(1, 20).Draw(t, "group steps")}
	return spec
}

// A window is permuted: batches have lengths of their own, keep the order of the Spec within, and are found from any
// step of the window, by any rank.
func TestGroupsPermuteTheirWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mustNew(t, drawGrouped(t))
		run, _ := s.Steps()
		if run == 0 {
			return
		}
		first, steps := s.Window(rapid.Int64Range(0, min(run, 1<<40)-1).Draw(t, "step"))
		g, err := s.Group(first+rapid.Int64Range(0, steps-1).Draw(t, "of the window"), lengthOf)
		if err != nil {
			t.Fatal(err)
		}
		var before, after []SampleRef
		var ranges [][2]uint64
		for step := first; step < first+steps; step++ {
			before = s.Step(step, before)
			batch := g.Step(step, nil)
			ranges = append(ranges, rangeOf(batch))
			for i, ref := range batch {
				if ref.Position != int64(i) {
					t.Fatalf("step %d: position %d at %d", step, ref.Position, i)
				}
			}
			if world := worldOf(t, s); !slices.Equal(ranksOf(g, step, world), batch) {
				t.Fatalf("step %d: the parts of %d ranks are not the step", step, world)
			}
			after = append(after, batch...)
		}
		places := make([]int, len(after))
		for i, from := range g.from {
			places[i] = int(from)
			if want := before[from]; !sameSample(after[i], want) {
				t.Fatalf("place %d: %+v, before %+v", i, after[i], want)
			}
		}
		checkBatches(t, places, int(g.batch))
		slices.SortFunc(ranges, func(a, b [2]uint64) int { return int(a[0]+a[1]) - int(b[0]+b[1]) })
		for i := range ranges[1:] {
			if ranges[i][1] > ranges[i+1][0] {
				t.Fatalf("the lengths of two steps overlap: %v", ranges)
			}
		}
	})
}

func sameSample(a, b SampleRef) bool {
	return a.Source == b.Source && a.Epoch == b.Epoch && a.Sample == b.Sample
}

// checkBatches checks that every place comes once, and those of a batch in order.
func checkBatches(t *rapid.T, places []int, batch int) {
	for from := 0; from < len(places); from += batch {
		if !slices.IsSorted(places[from : from+batch]) {
			t.Fatalf("batch %v leaves the order", places[from:from+batch])
		}
	}
	slices.Sort(places)
	for i, p := range places {
		if p != i {
			t.Fatalf("places %v", places)
		}
	}
}

func rangeOf(batch []SampleRef) [2]uint64 {
	r := [2]uint64{1 << 62, 0}
	for _, ref := range batch {
		n, _ := lengthOf(ref)
		r[0], r[1] = min(r[0], n), max(r[1], n)
	}
	return r
}

// worldOf draws a number of ranks that may take the batches of s.
func worldOf(t *rapid.T, s *Sampler) int {
	worlds := []int{1}
	for w := 2; w <= 8; w++ {
		if s.CheckWorld(w) == nil {
			worlds = append(worlds, w)
		}
	}
	return rapid.SampledFrom(worlds).Draw(t, "world")
}

func ranksOf(g *Grouped, step int64, world int) (dealt []SampleRef) {
	for r := range world {
		dealt = g.Rank(step, r, world, dealt)
	}
	return dealt
}

// The windows of a run lie side by side: within an epoch, cut at changes, up to the end of the run.
func TestWindows(t *testing.T) {
	spec := mixture(8, []uint64{100, 60}, nil) // 20 steps an epoch
	spec.Sources[0].MaxEpochs, spec.Sources[1].MaxEpochs = 3, 3
	spec.Changes = []Change{{Step: 10, GlobalBatch: 4}, {Step: 26, Weights: map[string]float64{"s0": 1}}} // 80 samples before step 10, then 4 a step: 110 steps
	spec.GroupByLength = &GroupByLength{Column: "n", Steps: 8}
	s := mustNew(t, spec)
	var got []string
	for step := int64(0); step < 110; {
		first, n := s.Window(step)
		for k := range n {
			if f, m := s.Window(step + k); f != first || m != n {
				t.Fatalf("step %d: window from %d of %d, want from %d of %d", step+k, f, m, first, n)
			}
		}
		got = append(got, fmt.Sprint(first, "+", n))
		step = first + n
	}
	want := "0+8 8+2 10+6 16+4 20+6 26+2 28+8 36+4 40+8 48+8 56+4 60+8 68+8 76+4 80+8 88+8 96+4 100+8 108+2"
	if strings.Join(got, " ") != want {
		t.Errorf("%v\nwant %s", got, want)
	}
	plain := mustNew(t, Spec{Version: 2, GlobalBatch: 3, Last: LastPad, Sources: []Source{{Samples: 20}}, GroupByLength: &GroupByLength{Column: "n", Steps: 4}})
	for step, want := range map[int64][2]int64{0: {0, 4}, 3: {0, 4}, 4: {4, 3}, 6: {4, 3}, 7: {7, 4}} {
		if first, n := plain.Window(step); first != want[0] || n != want[1] {
			t.Errorf("step %d: from %d, %d steps; want %v", step, first, n, want)
		}
	}
	if first, n := mustNew(t, testSpec(100, 10)).Window(7); first != 7 || n != 1 {
		t.Errorf("without groups: from %d, %d steps", first, n)
	}
}

// A bad sample's substitute is that of the place where the order had it.
func TestGroupsKeepSubstitutes(t *testing.T) {
	spec := mixture(4, []uint64{50, 30}, nil)
	spec.GroupByLength = &GroupByLength{Column: "n", Steps: 5}
	s := mustNew(t, spec)
	g, err := s.Group(7, lengthOf)
	if err != nil {
		t.Fatal(err)
	}
	for step := int64(5); step < 10; step++ {
		for _, ref := range g.Step(step, nil) {
			found := 0
			for was := int64(5); was < 10; was++ {
				for _, before := range s.Step(was, nil) {
					if !sameSample(before, ref) {
						continue
					}
					found++
					want, got := s.Substitute(was, before, 2), g.Substitute(step, ref, 2)
					if !sameSample(got, want) || got.Position != ref.Position {
						t.Errorf("step %d: %+v, want the sample of %+v", step, got, want)
					}
				}
			}
			if found != 1 {
				t.Errorf("%+v is %d times in its window", ref, found)
			}
		}
	}
}

// The order of groups is a promise like that of samples.
func TestGroupsVector(t *testing.T) {
	if got, want := exchange([]uint64{5, 1, 9, 3, 7, 2, 8, 4}, 2, 7, 3), []int32{3, 7, 1, 5, 2, 6, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestGroupsTellOfLengthsThatAreNotThere(t *testing.T) {
	spec := mixture(4, []uint64{50, 30}, nil)
	spec.GroupByLength = &GroupByLength{Column: "n"}
	gone := errors.New("gone")
	if _, err := mustNew(t, spec).Group(0, func(SampleRef) (uint64, error) { return 0, gone }); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

func TestGroupsInSpecs(t *testing.T) {
	const text = `{"spec":2,"seed":7,"global_batch":8,"sources":[{"name":"","samples":1000}],"group_by_length":{"column":"n"}}`
	want := `{"global_batch":8,"group_by_length":{"column":"n","steps":50},"last":"drop","seed":7,"shuffle":"full","sources":[{"name":"","samples":1000}],"spec":2}`
	if got := string(mustParse(t, text).Spec().Canonical()); got != want {
		t.Errorf("canonical %s\nwant      %s", got, want)
	}
	for old, c := range map[string][2]string{
		`"n"}`:              {`""}`, "group_by_length.column: empty"},
		`"column"`:          {`"key"`, `group_by_length: unknown key "key"`},
		`{"column":"n"}`:    {`{}`, "group_by_length: column: missing"},
		`"n"`:               {`"n","steps":-1`, "group_by_length.steps: -1: must be at least 1"},
		`:{"column":"n"`:    {`:{"column":"n","steps":524289`, "group_by_length.steps: 524289: must be at least 1, and times the global batch of 8 at most 4194304"},
		`"spec":2`:          {`"spec":1`, "need version 2"},
		`,"group_by_length`: {`,"tokens":{"sequence_length":4},"group_by_length`, "samples made of tokens are of one length"},
	} {
		if _, err := ParseSpec([]byte(strings.Replace(text, old, c[0], 1))); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s for %s: %v, want %q", c[0], old, err, c[1])
		}
	}
}

// A run takes up another future from the end of the window that it is in, and no sooner: what came depends on all of it.
func TestARunInGroupsGoesOnWithAnotherMixture(t *testing.T) {
	spec := mixture(32, []uint64{1000, 50}, []float64{.9, .1})
	spec.EpochSteps, spec.GroupByLength = 1000, &GroupByLength{Column: "n", Steps: 20}
	s := mustNew(t, spec)
	for _, c := range []struct {
		state, change int64
		want          string
	}{
		{200, 200, ""},
		{203, 220, ""},
		{203, 203, "the steps up to 219 exchange samples, and the state is of step 203: changes can come from step 220 on"},
		{203, 210, "changes can come from step 220 on"},
		{220, 219, "number of changes: 0 in the state, 1 here"},
		{0, 1, ""},
	} {
		other := spec.clone()
		other.Changes = []Change{{Step: c.change, Weights: map[string]float64{"s1": .5}}}
		here := mustNew(t, other)
		saved := s.State(photos, c.state, Policy{})
		for _, st := range []State{reload(t, saved), {Version: 1, SpecDigest: saved.SpecDigest, Dataset: saved.Dataset, Step: c.state}} {
			err := st.Check(here, photos)
			if (err == nil) != (c.want == "") || err != nil && st.Spec != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("state of step %d, change at %d: %v, want %q", c.state, c.change, err, c.want)
			}
		}
		back := here.State(photos, c.state, Policy{})
		if err := reload(t, back).Check(s, photos); (err == nil) != (c.want == "") {
			t.Errorf("state of step %d of a run with a change at %d, without it: %v", c.state, c.change, err)
		}
	}
	other := spec.clone()
	other.GroupByLength.Steps = 10
	if err := s.State(photos, 200, Policy{}).Check(mustNew(t, other), photos); err == nil || !strings.Contains(err.Error(), `group by length: column "n", 20 steps in the state, column "n", 10 steps here`) {
		t.Errorf("%v", err)
	}
}
