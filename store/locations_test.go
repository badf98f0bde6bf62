package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

var rows = []store.Replica{{Node: "a", Off: 0, Len: 10}, {Node: "b", Off: 0, Len: 10}, {Node: "c", Off: 10, Len: 5}}

func TestBlocks(t *testing.T) {
	b := store.BlocksOf(rows)
	for off, want := range map[int64]string{-1: "[]", 0: "[a b]", 9: "[a b]", 10: "[c]", 14: "[c]", 15: "[]"} {
		if got := b.Holders(off); fmt.Sprint(got) != want {
			t.Errorf("byte %d: %v, want %s", off, got, want)
		}
	}
	if !b.On("b") || !b.On("c") || b.On("d") || store.BlocksOf(nil).On("a") {
		t.Error("On is wrong")
	}
}

// Holders gives what Locate gives for that byte alone.
func TestHoldersAgreeWithLocate(t *testing.T) {
	s := newCluster(t)
	const size = 200_000
	storetest.Put(t, s, "/f", random(size))
	all, err := s.Locate(t.Context(), "/f", 0, size)
	must(t, err)
	blocks := store.BlocksOf(all)
	rapid.Check(t, func(t *rapid.T) {
		off := rapid.Int64Range(0, size-1).Draw(t, "off")
		one, err := s.Locate(context.Background(), "/f", off, 1)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, r := range one {
			want = append(want, r.Node)
		}
		if got := blocks.Holders(off); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("byte %d: %v, Locate says %v", off, got, want)
		}
	})
}

func TestLocations(t *testing.T) {
	var now time.Duration
	var fail error
	asked := 0
	l := store.NewLocations(func() time.Duration { return now }, func(context.Context, int) ([]store.Replica, error) {
		asked++
		return rows, fail
	})
	of := func(wantAsked, wantBlocks int, wantErr error) {
		t.Helper()
		b, err := l.Of(t.Context(), 1)
		if asked != wantAsked || len(b) != wantBlocks || !errors.Is(err, wantErr) {
			t.Fatalf("at %v: asked %d times, %v, %v; want %d, %d blocks, %v", now, asked, b, err, wantAsked, wantBlocks, wantErr)
		}
	}
	of(1, 2, nil)
	now += 10*time.Minute - 1
	of(1, 2, nil)
	now, fail = now+1, store.ErrUnavailable
	of(2, 0, store.ErrUnavailable)
	of(2, 0, nil) // only the one who asked is told
	now, fail = now+5*time.Second, nil
	of(3, 2, nil)

	now += 10 * time.Minute
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	fail = context.Canceled
	if _, err := l.Of(cancelled, 1); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	fail = nil
	of(5, 2, nil) // the one who gave up says nothing about the store
}
