package tokens

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

// Planning ends with its context, wherever it is, and the next call plans what an undisturbed one does.
func TestCancelledPlanning(t *testing.T) {
	l := slices.Repeat(lengths{5, 3, 0, 8, 2, 21}, every/2) // three stretches of sequences, more than two of ends
	for packing, least := range map[string]int{Windows: 3, Chunk: 3, BestFit: 3 + 3 + 2 + 2} {
		o := Options{SequenceLength: 16, Packing: packing, Shuffle: true, Seed: 7}
		var order *Order
		if n := untilDone(t, func(ctx context.Context) (err error) {
			order, err = New(ctx, l, o)
			return err
		}); n < least {
			t.Errorf("%s: New looked %d times, want %d or more", packing, n, least)
		}
		plain := mustNew(t, l, o)
		for _, epoch := range []uint64{0, 4} {
			for s := range order.Samples() / 1000 {
				got, want := piecesOf(t, order, epoch, s*1000), piecesOf(t, plain, epoch, s*1000)
				if !slices.Equal(got, want) {
					t.Fatalf("%s: epoch %d, sample %d: %v, want %v", packing, epoch, s*1000, got, want)
				}
			}
		}
	}
}

// So does the order of another epoch's chunks, and what is kept of those in use stays.
func TestCancelledEpoch(t *testing.T) {
	l := slices.Repeat(lengths{5, 3, 0, 8, 2, 21}, every/2)
	order := mustNew(t, l, Options{SequenceLength: 16, Packing: Chunk, Shuffle: true})
	plain := mustNew(t, l, Options{SequenceLength: 16, Packing: Chunk, Shuffle: true})
	var pieces []sampler.Piece
	if n := untilDone(t, func(ctx context.Context) (err error) {
		if pieces, err = order.Pieces(ctx, 9, 11, nil); err != nil {
			if got, err := order.Pieces(&fading{t.Context(), 0}, 0, 11, nil); err != nil || len(got) == 0 {
				t.Errorf("epoch 0, which is kept: %v, %v", got, err)
			}
		}
		return err
	}); n < 3 {
		t.Errorf("Pieces looked %d times, want 3 or more", n)
	}
	if want := piecesOf(t, plain, 9, 11); !reflect.DeepEqual(pieces, want) {
		t.Errorf("%v, want %v", pieces, want)
	}
}

// Whoever waits while another makes an epoch's order gives up with its own context.
func TestCancelledWaiting(t *testing.T) {
	c := &chunker{lengths: lengths{5, 3, 8, 2}, shuffle: sampler.NewShuffle(domain, 7, ""), shuffled: true, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{} // somebody makes an order
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.stream(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("while another makes an order: %v", err)
	}
	<-c.turn
	if s, err := c.stream(t.Context(), 1); err != nil || s == nil {
		t.Error(err)
	}
}
