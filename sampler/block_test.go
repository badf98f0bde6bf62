package sampler

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

func blockSource(seed, samples, chunk, window uint64) *source {
	s := newSources(&Spec{Seed: seed, Shuffle: ShuffleBlock, Chunk: chunk, Window: window, Sources: []Source{{Samples: samples}}})
	return &s[0]
}

// line returns the samples of all places of an epoch.
func line(s *source, epoch uint64) []uint64 {
	refs := make([]SampleRef, s.samples)
	for i := range refs {
		refs[i].Sample = uint64(i)
	}
	s.order(epoch, refs)
	return ids(refs)
}

func TestBlockShuffleIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 3000).Draw(t, "samples")
		s := blockSource(rapid.Uint64().Draw(t, "seed"), n, rapid.Uint64Range(1, 400).Draw(t, "chunk"), rapid.Uint64Range(1, 20).Draw(t, "window"))
		seen := make([]bool, n)
		for _, id := range line(s, rapid.Uint64().Draw(t, "epoch")) {
			if seen[id] {
				t.Fatalf("sample %d of %d twice, chunk %d, window %d", id, n, s.chunk, s.window)
			}
			seen[id] = true
		}
	})
}

func TestBlockShuffleForEverySmallSize(t *testing.T) {
	for n := uint64(1); n <= 40; n++ {
		for chunk := uint64(1); chunk <= n+1; chunk++ {
			for window := uint64(1); window <= 5; window++ {
				seen := make(map[uint64]bool)
				for _, id := range line(blockSource(1, n, min(chunk, n), window), 3) {
					seen[id] = true
				}
				if uint64(len(seen)) != n {
					t.Fatalf("n=%d chunk=%d window=%d: %d different samples", n, chunk, window, len(seen))
				}
			}
		}
	}
}

func TestBlockShuffleAroundPowersOfTwo(t *testing.T) {
	for k := 4; k <= 14; k++ {
		blockShuffleAround(t, k)
	}
}

func TestBlockShuffleAroundLargePowersOfTwo(t *testing.T) {
	testdata.Soak(t)
	for k := 15; k <= 24; k++ {
		blockShuffleAround(t, k)
	}
}

func blockShuffleAround(t *testing.T, k int) {
	t.Helper()
	for d := range uint64(3) {
		n := uint64(1)<<k - 1 + d
		seen := make([]bool, n)
		for _, id := range line(blockSource(1, n, 1<<(k/3), 5), 2) {
			if seen[id] {
				t.Fatalf("n=%d: sample %d twice", n, id)
			}
			seen[id] = true
		}
	}
}

// What block shuffle is for: a window of the order reads no more than its chunks, each whole.
func TestAWindowTouchesOnlyItsChunks(t *testing.T) {
	const chunk, window = 100, 7
	order := line(blockSource(3, 10_030, chunk, window), 0)
	for _, size := range []int{chunk * window, 10_030} {
		chunks := make(map[uint64]int)
		for _, id := range order[:size] {
			chunks[id/chunk]++
		}
		if want := int(math.Ceil(float64(size)/chunk)) + 1; len(chunks) > want {
			t.Errorf("the first %d places touch %d chunks, want at most %d", size, len(chunks), want)
		}
	}
	order2 := line(blockSource(3, 10_030, chunk, window), 1)
	same := 0
	for i := range order {
		if order[i] == order2[i] {
			same++
		}
	}
	if same > 40 {
		t.Errorf("two epochs agree at %d of %d places", same, len(order))
	}
}

// A restored run gives the same stream, on the same object and on a new one.
func TestBlockShuffleResumes(t *testing.T) {
	spec := Spec{Version: SpecVersion, Seed: 7, GlobalBatch: 16, Shuffle: ShuffleBlock, Chunk: 10, Window: 3, Sources: []Source{{Samples: 1003}}}
	s := mustNew(t, spec)
	var whole, again []SampleRef
	for step := range int64(200) {
		whole = s.Step(step, whole)
	}
	for step := range int64(200) {
		again = mustNew(t, reloadSpec(t, s.Spec())).Step(step, again)
	}
	for i := range whole {
		if whole[i] != again[i] {
			t.Fatalf("place %d: %+v, then %+v", i, whole[i], again[i])
		}
	}
}

func reloadSpec(t rapid.TB, s Spec) Spec {
	t.Helper()
	got, err := ParseSpec(s.Canonical())
	if err != nil {
		t.Fatal(err)
	}
	return got
}
