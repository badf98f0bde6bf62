package tokens

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/sampler"
)

// simpleFit is best fit decreasing as one would write it down: it returns the room that each pack has left.
func simpleFit(l lengths, length int64) (rooms []int64) {
	var ends []int64
	for _, n := range l {
		for range n / length {
			rooms = append(rooms, 0)
		}
		if n%length > 0 {
			ends = append(ends, n%length)
		}
	}
	slices.Sort(ends)
	slices.Reverse(ends)
	for _, n := range ends {
		best := -1
		for i, room := range rooms {
			if room >= n && (best < 0 || room < rooms[best]) {
				best = i
			}
		}
		if best < 0 {
			best = len(rooms)
			rooms = append(rooms, length)
		}
		rooms[best] -= n
	}
	return rooms
}

// Every token is exactly once an input of an epoch, no pack is too full, and packs are as full as those
// of the simple implementation.
func TestBestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLengths(t)
		o := drawOptions(t, BestFit)
		order := open(t, l, o, l.total())
		if order == nil {
			return
		}
		epoch := rapid.Uint64Range(0, 3).Draw(t, "epoch")
		var all []token
		var rooms []int64
		for _, s := range rapid.Permutation(upTo(order.Samples())).Draw(t, "samples") {
			pieces := piecesOf(t, order, epoch, s)
			checkPieces(t, l, pieces)
			checkEnds(t, l, o.SequenceLength, pieces)
			inputs := expand(pieces)
			all = append(all, inputs...)
			rooms = append(rooms, o.SequenceLength-int64(len(inputs)))
		}
		want := l.stream(upTo(l.Sequences()))
		slices.SortFunc(all, func(a, b token) int { return int(a.sequence-b.sequence)*1000 + int(a.off-b.off) })
		if !slices.Equal(all, want) {
			t.Fatalf("the inputs of an epoch are %v, want every token once: %v", all, want)
		}
		simple := simpleFit(l, o.SequenceLength)
		slices.Sort(rooms)
		slices.Sort(simple)
		if !slices.Equal(rooms, simple) {
			t.Fatalf("rooms left %v, those of the simple implementation %v", rooms, simple)
		}
	})
}

// checkEnds: a sample is a full piece of a sequence, or ends of sequences.
func checkEnds(t *rapid.T, l lengths, length int64, pieces []sampler.Piece) {
	var sum int64
	for _, p := range pieces {
		sum += p.Len
		if p.Off%length != 0 || p.Len != min(length, l[p.Sequence]-p.Off) {
			t.Fatalf("piece %+v: sequence %d is cut at other places than the multiples of %d", p, p.Sequence, length)
		}
	}
	if sum < 1 || sum > length {
		t.Fatalf("a sample of %d inputs, want 1 to %d", sum, length)
	}
}

// In other epochs other sequences meet, in packs of the same lengths; unshuffled all epochs are alike.
func TestPacksAreMixedByEpoch(t *testing.T) {
	l := make(lengths, 300)
	for i := range l {
		l[i] = int64(i%5) + 3
	}
	o := Options{SequenceLength: 16, Packing: BestFit, Shuffle: true, Seed: 5}
	order := mustNew(t, l, o)
	shapes := func(epoch uint64) (all, lens string) {
		for s := range order.Samples() {
			pieces := piecesOf(t, order, epoch, s)
			all += fmt.Sprint(pieces)
			for _, p := range pieces {
				lens += fmt.Sprint(p.Len, " ")
			}
		}
		return all, lens
	}
	first, lens := shapes(0)
	second, lens2 := shapes(1)
	if first == second || lens != lens2 {
		t.Errorf("epoch 1 equals epoch 0: %v; equal lengths: %v; want other sequences in the same lengths", first == second, lens == lens2)
	}
	o.Shuffle = false
	order = mustNew(t, l, o)
	first, _ = shapes(0)
	if second, _ = shapes(1); first != second {
		t.Error("epochs differ although nothing is shuffled")
	}
}

// The set of rooms answers as a sorted list does, over sizes with one, two, three and four levels.
func TestRoomSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int64{1, 2, 63, 64, 65, 4096, 4097, 1 << 18, 1<<18 + 1, MaxSequenceLength}).Draw(t, "size")
		number := rapid.OneOf(rapid.Int64Range(0, size-1), rapid.SampledFrom([]int64{0, size - 1, size / 2, size / 64 * 64 % size}))
		set, want := newRoomSet(size), map[int64]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"add":    func(t *rapid.T) { i := number.Draw(t, "i"); set.add(i); want[i] = true },
			"remove": func(t *rapid.T) { i := number.Draw(t, "i"); set.remove(i); delete(want, i) },
			"": func(t *rapid.T) {
				i, best := number.Draw(t, "from"), int64(-1)
				for n := range want {
					if n >= i && (best < 0 || n < best) {
						best = n
					}
				}
				if got := set.atLeast(i); got != best {
					t.Fatalf("atLeast(%d) is %d, want %d of %v", i, got, best, want)
				}
			},
		})
	})
}
