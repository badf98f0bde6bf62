package sampler

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func testSpec(samples uint64, batch int64) Spec {
	return Spec{Version: SpecVersion, Seed: 7, GlobalBatch: batch, Sources: []Source{{Samples: samples}}}
}

func mustNew(t rapid.TB, spec Spec) *Sampler {
	t.Helper()
	s, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustParse(t rapid.TB, text string) *Sampler {
	t.Helper()
	spec, err := ParseSpec([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return mustNew(t, spec)
}

func ids(refs []SampleRef) []uint64 {
	out := make([]uint64, len(refs))
	for i, r := range refs {
		out[i] = r.Sample
	}
	return out
}

// drawSpec draws a spec of at most most samples.
func drawSpec(t *rapid.T, most uint64) Spec {
	n := rapid.Uint64Range(1, most).Draw(t, "samples")
	return Spec{
		Version:     SpecVersion,
		Seed:        rapid.Uint64().Draw(t, "seed"),
		GlobalBatch: rapid.Int64Range(1, int64(min(n, 64))).Draw(t, "batch"),
		Shuffle:     rapid.SampledFrom([]string{ShuffleFull, ShuffleNone}).Draw(t, "shuffle"),
		Last:        rapid.SampledFrom([]string{LastDrop, LastPad}).Draw(t, "last"),
		Sources:     []Source{{Name: rapid.StringMatching(`[a-z]{0,8}`).Draw(t, "name"), Samples: n}},
	}
}

func TestAnEpochHoldsEverySampleOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mustNew(t, drawSpec(t, 3000))
		epoch := rapid.Int64Range(0, math.MaxInt64/s.StepsPerEpoch()-1).Draw(t, "epoch")
		count := make(map[uint64]int)
		total := 0
		for i := range s.StepsPerEpoch() {
			refs := s.Step(epoch*s.StepsPerEpoch()+i, nil)
			for p, r := range refs {
				if r.Position != int64(p) || r.Epoch != uint64(epoch) || r.Source != 0 {
					t.Fatalf("step %d place %d: %+v", i, p, r)
				}
				count[r.Sample]++
			}
			total += len(refs)
		}
		n := int(s.sources[0].samples)
		rest := total - n // more with pad, fewer with drop
		if len(count) != min(n, total) {
			t.Fatalf("%d different samples in an epoch of %d places and %d samples", len(count), total, n)
		}
		if rest > 0 {
			checkPadding(t, s, epoch, rest, count)
		}
	})
}

// checkPadding: the places beyond the last sample repeat the epoch's start.
func checkPadding(t *rapid.T, s *Sampler, epoch int64, rest int, count map[uint64]int) {
	first := s.Step(epoch*s.StepsPerEpoch(), nil)
	last := s.Step((epoch+1)*s.StepsPerEpoch()-1, nil)
	if !slices.Equal(ids(first[:rest]), ids(last[len(last)-rest:])) {
		t.Fatalf("padding %v, the epoch starts with %v", ids(last[len(last)-rest:]), ids(first[:rest]))
	}
	for id, c := range count {
		if c > 2 {
			t.Fatalf("sample %d occurs %d times", id, c)
		}
	}
}

// The global batch of a step does not depend on the world size, so neither does a resume.
func TestRanksDealTheSameGlobalBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t, 1<<62)
		world := rapid.IntRange(1, 16).Draw(t, "world")
		spec.GlobalBatch = int64(world) * rapid.Int64Range(1, 8).Draw(t, "each")
		spec.Sources[0].Samples = max(spec.Sources[0].Samples, uint64(spec.GlobalBatch))
		s := mustNew(t, spec)
		step := rapid.Int64Range(0, math.MaxInt64).Draw(t, "step")
		var dealt []SampleRef
		for r := range world {
			before := len(dealt)
			dealt = s.Rank(step, r, world, dealt)
			if len(dealt)-before != int(spec.GlobalBatch)/world {
				t.Fatalf("rank %d got %d samples", r, len(dealt)-before)
			}
		}
		if whole := s.Step(step, nil); !slices.Equal(dealt, whole) {
			t.Fatalf("ranks got %v, the step is %v", dealt, whole)
		}
		for _, r := range dealt {
			if r.Sample >= spec.Sources[0].Samples {
				t.Fatalf("sample %d of %d", r.Sample, spec.Sources[0].Samples)
			}
		}
	})
}

func TestRanksAppend(t *testing.T) {
	s := mustNew(t, testSpec(100, 8))
	kept := SampleRef{Sample: 12345}
	got := s.Rank(3, 1, 2, []SampleRef{kept})
	if got[0] != kept || !slices.Equal(got[1:], s.Step(3, nil)[4:]) {
		t.Fatalf("%v", got)
	}
}

func TestOrderWithoutShuffle(t *testing.T) {
	s := mustParse(t, `{"spec":1,"seed":7,"global_batch":4,"shuffle":"none","sources":[{"name":"","samples":10}]}`)
	for step, want := range [][]uint64{{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}} {
		if got := ids(s.Step(int64(step), nil)); !slices.Equal(got, want) {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
	}
}

func TestEpochsSeedsAndNamesHaveTheirOwnOrder(t *testing.T) {
	base := testSpec(1000, 1000)
	named, seeded := testSpec(1000, 1000), testSpec(1000, 1000)
	named.Sources[0].Name = "b"
	seeded.Seed = 8
	orders := [][]uint64{
		ids(mustNew(t, base).Step(0, nil)), ids(mustNew(t, base).Step(1, nil)),
		ids(mustNew(t, named).Step(0, nil)), ids(mustNew(t, seeded).Step(0, nil)),
	}
	for i := range orders {
		for j := range i {
			same := 0
			for k := range orders[i] {
				if orders[i][k] == orders[j][k] {
					same++
				}
			}
			if same > 10 { // of 1,000, about 1 is expected
				t.Errorf("orders %d and %d agree at %d of 1000 places", i, j, same)
			}
		}
	}
}

// A fresh object gives the remaining samples of an interrupted epoch.
func TestAFreshSamplerGivesTheSame(t *testing.T) {
	a, b := mustNew(t, testSpec(1e6+1, 32)), mustNew(t, testSpec(1e6+1, 32))
	for step := range int64(50) {
		a.Step(step, nil)
	}
	if !slices.Equal(a.Step(50, nil), b.Step(50, nil)) {
		t.Fatal("the order depends on what was asked before")
	}
}

func TestSubstitutesWalkOverAllOtherSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mustNew(t, drawSpec(t, 40))
		step := rapid.Int64().Filter(func(v int64) bool { return v >= 0 }).Draw(t, "step")
		refs := s.Step(step, nil)
		ref := refs[rapid.IntRange(0, len(refs)-1).Draw(t, "position")]
		n := int(s.sources[0].samples)
		seen := make(map[uint64]bool)
		for attempt := range n {
			got := s.Substitute(step, ref, attempt)
			if got.Epoch != ref.Epoch || got.Position != ref.Position || got.Source != ref.Source {
				t.Fatalf("attempt %d moved %+v to %+v", attempt, ref, got)
			}
			seen[got.Sample] = true
		}
		if len(seen) != n {
			t.Fatalf("%d attempts gave %d different samples", n, len(seen))
		}
		if n > 1 && s.Substitute(step, ref, n) != s.Substitute(step, ref, 1) {
			t.Fatal("attempts do not start again when all samples were tried")
		}
	})
}

func TestSubstitutesDifferByPlace(t *testing.T) {
	s := mustNew(t, Spec{Version: 1, GlobalBatch: 64, Shuffle: ShuffleNone, Sources: []Source{{Samples: 1 << 30}}})
	away := make(map[uint64]bool)
	for step := range int64(4) {
		for _, ref := range s.Step(step, nil) {
			sub := s.Substitute(step, ref, 1)
			away[(sub.Sample-ref.Sample)%(1<<30)] = true
		}
	}
	if len(away) < 250 {
		t.Fatalf("256 places have %d different distances to their substitutes", len(away))
	}
}

func TestCheckWorld(t *testing.T) {
	s := mustNew(t, testSpec(70, 64))
	for world, want := range map[int]string{
		1: "", 64: "", 8: "",
		0:   "world size 0",
		-1:  "world size -1",
		3:   "world size 3, global batch 64: the world size must divide",
		128: "world size 128, samples 70: fewer samples than ranks",
	} {
		got := ""
		if err := s.CheckWorld(world); err != nil {
			got = err.Error()
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("world %d: %q, want %q", world, got, want)
		}
	}
}

func TestMisusePanicsWithAReason(t *testing.T) {
	s := mustNew(t, testSpec(100, 10))
	for want, call := range map[string]func(){
		"step -1":       func() { s.Step(-1, nil) },
		"step -2":       func() { s.Epoch(-2) },
		"divide":        func() { s.Rank(0, 0, 3, nil) },
		"outside 0..1":  func() { s.Rank(0, 2, 2, nil) },
		"rank -1":       func() { s.Rank(0, -1, 2, nil) },
		"attempt -1 is": func() { s.Substitute(0, SampleRef{}, -1) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			call()
		}()
	}
}

func TestTheLargestNumbersDoNotOverflow(t *testing.T) {
	spec := testSpec(maxSamples, maxGlobalBatch-1) // leaves a rest
	spec.Last = LastPad
	s := mustNew(t, spec)
	for _, step := range []int64{1 << 40, s.StepsPerEpoch() - 1, s.StepsPerEpoch(), math.MaxInt64} {
		for _, r := range s.Rank(step, 0, int(spec.GlobalBatch), nil) {
			if r.Sample >= maxSamples {
				t.Errorf("step %d: sample %d", step, r.Sample)
			}
		}
	}
	if got := s.Epoch(s.StepsPerEpoch() - 1); got != 0 {
		t.Errorf("the last step of epoch 0 is in epoch %d", got)
	}
}

func TestASamplerMayBeUsedConcurrently(t *testing.T) {
	s := mustNew(t, testSpec(1e5, 64))
	want := s.Step(7, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := s.Step(7, nil); !reflect.DeepEqual(got, want) {
				t.Error("concurrent calls differ")
			}
		})
	}
	wg.Wait()
}

func TestLookUpsDoNotAllocate(t *testing.T) {
	s := mustNew(t, testSpec(1<<20+1, 64))
	dst := make([]SampleRef, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		dst = s.Step(1<<40, dst[:0])
		dst = s.Rank(1<<40, 3, 8, dst[:0])
		dst[0] = s.Substitute(1<<40, dst[0], 1)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestSpecIsACopy(t *testing.T) {
	spec := testSpec(100, 10)
	s := mustNew(t, spec)
	spec.Sources[0].Samples = 3
	s.Spec().Sources[0].Samples = 5
	if got := s.Spec().Sources[0].Samples; got != 100 {
		t.Fatalf("samples became %d", got)
	}
}
