package sampler

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func newExplicit(t rapid.TB) *Explicit {
	t.Helper()
	e, err := NewExplicit([]Source{{Name: "a", Samples: 100}, {Name: "b", Samples: 5}}, 2, 10)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// batches are n batches of 2 with the samples from first on.
func batches(n int, first uint64) [][]Pick {
	var out [][]Pick
	for i := range uint64(n) {
		out = append(out, []Pick{{0, first + 2*i}, {0, first + 2*i + 1}})
	}
	return out
}

func TestAnnouncementsExtendRepeatAndReplace(t *testing.T) {
	e := newExplicit(t)
	say := func(generation uint64, step int64, b [][]Pick, want error, text string) {
		t.Helper()
		err := e.Announce(Announcement{generation, step, b})
		if (err == nil) != (want == nil && text == "") || want != nil && !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("generation %d step %d: %v, want %v %q", generation, step, err, want, text)
		}
	}
	say(1, 10, batches(3, 0), nil, "")
	say(1, 10, batches(3, 0), nil, "") // again
	say(1, 11, batches(3, 2), nil, "") // overlaps and goes on
	say(1, 15, batches(1, 0), nil, "a gap: the steps before 14 are announced")
	say(1, 12, batches(1, 50), nil, "announce it with a higher generation")
	say(0, 12, batches(1, 50), ErrStale, "")
	e.Take(11)
	say(1, 10, batches(1, 0), ErrTaken, "the next is 11")
	say(2, 10, batches(1, 0), ErrTaken, "")
	say(2, 12, batches(1, 60), nil, "") // step 13 is void
	say(2, 13, [][]Pick{{{0, 1}}}, nil, "1 samples: a global batch has 2")
	say(2, 13, [][]Pick{{{0, 1}, {1, 5}}}, nil, "source 1 has no sample 5, only 0 to 4")
	say(2, 13, [][]Pick{{{0, 1}, {2, 0}}}, nil, "source 2: there are 2")
	say(2, 13, make([][]Pick, maxPicks), ErrFull, "")

	if g, end := e.Generation(); g != 2 || end != 13 {
		t.Errorf("generation %d, announced before %d", g, end)
	}
	for step, want := range map[int64][]uint64{10: nil, 11: {2, 3}, 12: {60, 61}, 13: nil} {
		refs, ok := e.Step(step, nil)
		if got := ids(refs); ok != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
		for i, r := range refs {
			if r.Epoch != uint64(step) || r.Position != int64(i) {
				t.Errorf("step %d: %+v", step, r)
			}
		}
	}
}

// What was announced last holds, however announcements are cut, repeated and late.
func TestExplicitHoldsWhatWasSaidLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newExplicit(t)
		model := map[int64][]Pick{}
		end, generation, next := int64(10), uint64(0), int64(10)
		for range rapid.IntRange(1, 30).Draw(t, "announcements") {
			if rapid.Bool().Draw(t, "take") {
				next = max(next, rapid.Int64Range(10, max(10, end)).Draw(t, "taken"))
				e.Take(next)
			}
			a := Announcement{Generation: generation, Step: end}
			if rapid.Bool().Draw(t, "replace") {
				a.Generation++
				a.Step = rapid.Int64Range(next, max(next, end)).Draw(t, "from")
			}
			a.Step = max(a.Step, next)
			a.Batches = batches(rapid.IntRange(0, 4).Draw(t, "steps"), rapid.Uint64Range(0, 80).Draw(t, "first"))
			if err := e.Announce(a); err != nil {
				t.Fatal(err)
			}
			generation, end = a.Generation, a.Step+int64(len(a.Batches))
			for i, b := range a.Batches {
				model[a.Step+int64(i)] = b
			}
			for step := next; step < end+3; step++ {
				refs, ok := e.Step(step, nil)
				if ok != (step < end) {
					t.Fatalf("step %d announced: %v; all before %d are", step, ok, end)
				}
				for i, r := range refs {
					if p := model[step][i]; r.Source != p.Source || r.Sample != p.Sample {
						t.Fatalf("step %d: %v, want %v", step, refs, model[step])
					}
				}
			}
		}
	})
}
