package megatron

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/sampler"
)

// fading is a context that ends after so many looks at it.
type fading struct {
	context.Context
	looks int
}

func (f *fading) Err() error {
	if f.looks--; f.looks < 0 {
		return context.Canceled
	}
	return nil
}

// fataler is what the helpers need of tests of all kinds.
type fataler interface {
	Fatal(...any)
	Context() context.Context
}

func piecesOf(t fataler, g *GPT, i int64) []sampler.Piece {
	pieces, err := g.Sample(t.Context(), i, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pieces
}

func turnOf(t fataler, b *blend, i int64) turn {
	got, err := b.turn(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// untilDone calls f with contexts that end later and later, until one lasts. All calls before fail by their context's end.
func untilDone(t *testing.T, f func(ctx context.Context) error) (calls int) {
	t.Helper()
	for ; ; calls++ {
		switch err := f(&fading{t.Context(), calls}); {
		case err == nil:
			return calls
		case !errors.Is(err, context.Canceled):
			t.Fatalf("after %d looks: %v", calls, err)
		}
	}
}

// Building ends with its context, wherever it is, and the next call builds what an undisturbed one does.
func TestCancelledBuilding(t *testing.T) {
	lengths := slices.Repeat(lengthList{5, 3, 8, 2}, 500)
	options := func() Options {
		return Options{
			Seed: 1234, SequenceLength: 4, Samples: [3]int64{9000, 0, 0}, Surplus: DefaultSurplus,
			PerSplit: [3]*Blend{{Sources: []sampler.Lengths{lengths, lengths[:900]}, Weights: []float64{3, 1}}},
		}
	}
	var disturbed [3]*Dataset
	if n := untilDone(t, func(ctx context.Context) (err error) {
		disturbed, err = Build(ctx, options())
		return err
	}); n < 2 {
		t.Errorf("Build looked %d times", n)
	}
	plain, err := Build(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	got, want := disturbed[Train], plain[Train]
	for _, i := range []int64{want.Len() - 1, 0, 5000} { // the last first: it needs all turns
		var source int
		var pieces []sampler.Piece
		untilDone(t, func(ctx context.Context) (err error) {
			source, pieces, err = got.Sample(ctx, i, nil)
			return err
		})
		wantSource, wantPieces, err := want.Sample(t.Context(), i, nil)
		if err != nil || source != wantSource || !slices.Equal(pieces, wantPieces) {
			t.Errorf("sample %d is %v of %d, want %v of %d (%v)", i, pieces, source, wantPieces, wantSource, err)
		}
	}
	for s, g := range got.Sources() {
		fresh, err := NewGPT(t.Context(), g.lengths, g.options)
		if err != nil {
			t.Fatal(err)
		}
		if n := untilDone(t, fresh.Prepare); n < 20 {
			t.Errorf("source %d: Prepare looked %d times", s, n)
		}
		whole, err := g.prepared(t.Context())
		if err != nil || !reflect.DeepEqual(fresh.indexes.Load(), whole) {
			t.Errorf("source %d: other indexes after cancelled calls (%v)", s, err)
		}
	}
}

// Whoever waits for another's building gives up with its own context.
func TestCancelledWaiting(t *testing.T) {
	g, err := NewGPT(t.Context(), lengthList{5, 3, 8, 2}, GPTOptions{Count: 4, SequenceLength: 4, Seed: 1234})
	if err != nil {
		t.Fatal(err)
	}
	g.turn <- struct{}{} // somebody builds
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Sample(ctx, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("while another builds: %v", err)
	}
	<-g.turn
	if pieces := piecesOf(t, g, 0); len(pieces) == 0 {
		t.Error("no pieces")
	}
}
