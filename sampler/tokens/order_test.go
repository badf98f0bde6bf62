package tokens

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/sampler"
)

// lengths are sequences whose offsets are not known.
type lengths []int64

func (l lengths) Sequences() int64     { return int64(len(l)) }
func (l lengths) Length(i int64) int64 { return l[i] }

// offsets are sequences whose offsets are.
type offsets struct {
	lengths
	sums []int64
}

func (o offsets) Offset(i int64) int64 { return o.sums[i] }

func withOffsets(l lengths) offsets {
	o := offsets{lengths: l, sums: make([]int64, len(l)+1)}
	for i, n := range l {
		o.sums[i+1] = o.sums[i] + n
	}
	return o
}

func (l lengths) total() (sum int64) {
	for _, n := range l {
		sum += n
	}
	return sum
}

// A token is one token of a dataset by its place.
type token struct{ sequence, off int64 }

// stream is the simple implementation: every token in its place.
func (l lengths) stream(order []int64) (out []token) {
	for _, i := range order {
		for off := range l[i] {
			out = append(out, token{i, off})
		}
	}
	return out
}

func expand(pieces []sampler.Piece) (out []token) {
	for _, p := range pieces {
		for k := range p.Len {
			out = append(out, token{p.Sequence, p.Off + k})
		}
	}
	return out
}

func drawLengths(t *rapid.T) lengths {
	most := rapid.SampledFrom([]int64{0, 1, 3, 20, 200}).Draw(t, "most")
	return rapid.SliceOfN(rapid.Int64Range(0, most), 0, 60).Draw(t, "lengths")
}

func drawOptions(t *rapid.T, packing string) Options {
	return Options{
		SequenceLength: rapid.Int64Range(1, 70).Draw(t, "length"),
		Packing:        packing,
		Shuffle:        rapid.Bool().Draw(t, "shuffle"),
		Seed:           rapid.Uint64().Draw(t, "seed"),
		Source:         rapid.SampledFrom([]string{"", "web"}).Draw(t, "source"),
	}
}

// open makes an order, or checks that there cannot be one: then it returns nil.
func open(t *rapid.T, l sampler.Lengths, o Options, total int64) *Order {
	order, err := New(t.Context(), l, o)
	least := o.SequenceLength + 1
	if o.Packing == BestFit {
		least = 1
	}
	if total < least {
		if !errors.Is(err, ErrTooShort) {
			t.Fatalf("%d tokens, length %d: %v, want ErrTooShort", total, o.SequenceLength, err)
		}
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return order
}

// checkPieces holds what every sample promises.
func checkPieces(t *rapid.T, l lengths, pieces []sampler.Piece) {
	for _, p := range pieces {
		if p.Len < 1 || p.Sequence < 0 || p.Sequence >= l.Sequences() || p.Off < 0 || p.Off+p.Len > l[p.Sequence] {
			t.Fatalf("piece %+v is outside its sequence or empty", p)
		}
	}
}

// Windows and chunks are the stream cut in pieces that share one token; the simple implementation
// writes the whole stream down.
func TestStreamsAreCutAsTheyLie(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLengths(t)
		o := drawOptions(t, rapid.SampledFrom([]string{Windows, Chunk}).Draw(t, "packing"))
		var from sampler.Lengths = l
		if rapid.Bool().Draw(t, "offsets") {
			from = withOffsets(l)
		}
		order := open(t, from, o, l.total())
		if order == nil {
			return
		}
		if want := (l.total() - 1) / o.SequenceLength; order.Samples() != want {
			t.Fatalf("%d samples, want %d", order.Samples(), want)
		}
		epoch := rapid.Uint64Range(0, 3).Draw(t, "epoch")
		all := l.stream(documents(l, o, epoch))
		// In any order: a seek equals a scan.
		for _, s := range rapid.Permutation(upTo(order.Samples())).Draw(t, "samples") {
			pieces := piecesOf(t, order, epoch, s)
			checkPieces(t, l, pieces)
			first := s * o.SequenceLength
			if want := all[first : first+o.SequenceLength+1]; !slices.Equal(expand(pieces), want) {
				t.Fatalf("epoch %d, sample %d: %v, want %v", epoch, s, pieces, want)
			}
		}
	})
}

// documents are the sequences in the order in which a stream has them.
func documents(l lengths, o Options, epoch uint64) []int64 {
	order := upTo(l.Sequences())
	if o.Packing == Chunk && o.Shuffle {
		at := sampler.NewShuffle(domain, o.Seed, o.Source).Permutation(epoch, 0, uint64(len(l)))
		for i := range order {
			order[i] = int64(at.At(uint64(i)))
		}
	}
	return order
}

func upTo(n int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}

// Chunks of different epochs come from different orders, those of one epoch always from the same.
func TestChunksAreShuffledByEpoch(t *testing.T) {
	l := make(lengths, 40)
	for i := range l {
		l[i] = int64(i%7) + 1
	}
	o := Options{SequenceLength: 8, Packing: Chunk, Shuffle: true, Seed: 5}
	read := func(order *Order, epoch uint64) string { return fmt.Sprint(piecesOf(t, order, epoch, 3)) }
	a, b := mustNew(t, l, o), mustNew(t, l, o)
	seen := map[string]uint64{}
	for epoch := range uint64(6) {
		got := read(a, epoch)
		if before, twice := seen[got]; twice {
			t.Errorf("epochs %d and %d have the same chunk", before, epoch)
		}
		seen[got] = epoch
	}
	for _, epoch := range []uint64{5, 0, 3, 0, 1, 5} { // beyond what is kept
		if seen[read(b, epoch)] != epoch || seen[read(a, epoch)] != epoch {
			t.Errorf("epoch %d changed", epoch)
		}
	}
	o.Seed = 6
	if _, same := seen[read(mustNew(t, l, o), 0)]; same {
		t.Error("another seed gives the same order")
	}
}

// tester is what the functions below need of tests of all kinds.
type tester interface {
	Fatal(...any)
	Context() context.Context
}

func piecesOf(t tester, order *Order, epoch uint64, sample int64) []sampler.Piece {
	pieces, err := order.Pieces(t.Context(), epoch, sample, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pieces
}

func mustNew(t *testing.T, l sampler.Lengths, o Options) *Order {
	t.Helper()
	order, err := New(t.Context(), l, o)
	if err != nil {
		t.Fatal(err)
	}
	return order
}

// Documents without a token own nothing, at every place, and nothing loops over them.
func TestEmptySequences(t *testing.T) {
	l := lengths{0, 5, 0, 0, 7}
	want := map[string][][]sampler.Piece{
		Windows: {{{Sequence: 1, Len: 5}}, {{Sequence: 1, Off: 4, Len: 1}, {Sequence: 4, Len: 4}}},
		BestFit: {
			{{Sequence: 1, Len: 4}}, {{Sequence: 4, Len: 4}},
			{{Sequence: 4, Off: 4, Len: 3}, {Sequence: 1, Off: 4, Len: 1}},
		},
	}
	want[Chunk] = want[Windows]
	for packing, samples := range want {
		o := Options{SequenceLength: 4, Packing: packing}
		order := mustNew(t, l, o)
		if order.Samples() != int64(len(samples)) {
			t.Errorf("%s: %d samples, want %d", packing, order.Samples(), len(samples))
			continue
		}
		for s, pieces := range samples {
			if got := piecesOf(t, order, 0, int64(s)); !slices.Equal(got, pieces) {
				t.Errorf("%s: sample %d: %v, want %v", packing, s, got, pieces)
			}
		}
		for _, none := range []lengths{{}, {0}, {0, 0, 0}} {
			if _, err := New(t.Context(), none, o); !errors.Is(err, ErrTooShort) {
				t.Errorf("%s of %v: %v, want ErrTooShort", packing, none, err)
			}
		}
	}
}

func TestWrongOptions(t *testing.T) {
	for _, o := range []Options{{}, {SequenceLength: -1}, {SequenceLength: MaxSequenceLength + 1}, {SequenceLength: 4, Packing: "first-fit"}} {
		if _, err := New(t.Context(), lengths{9}, o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v, want ErrOptions", o, err)
		}
	}
	for _, packing := range []string{Windows, Chunk, BestFit} {
		for _, l := range []lengths{{4, -1}, {math.MaxInt64, math.MaxInt64}} {
			if _, err := New(t.Context(), l, Options{SequenceLength: 2, Packing: packing}); !errors.Is(err, ErrLengths) {
				t.Errorf("%s of %v: %v, want ErrLengths", packing, l, err)
			}
		}
	}
}

func TestNoSuchSample(t *testing.T) {
	for _, packing := range []string{Windows, Chunk, BestFit} {
		order := mustNew(t, lengths{9}, Options{SequenceLength: 2, Packing: packing})
		for _, s := range []int64{-1, order.Samples()} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: sample %d exists", packing, s)
					}
				}()
				piecesOf(t, order, 0, s)
			}()
		}
	}
}
