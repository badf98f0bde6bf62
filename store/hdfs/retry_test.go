package hdfs

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

func placeOn(id string) place { return place{node: &node{id: id}} }

func TestMoves(t *testing.T) {
	names := map[move]string{nextPlace: "next", samePlace: "same", renewAndSame: "renew, same", renewAndNext: "renew, next"}
	for _, c := range []struct {
		causes []cause
		want   []string
	}{
		{[]cause{byConnect, byBroken, bySlow, byChecksum, byProtocol, byRefused}, []string{"next", "next", "next", "next", "next", "next"}},
		{[]cause{byToken, byToken, byToken}, []string{"renew, same", "next", "next"}},
		{[]cause{byKey, byKey}, []string{"same", "next"}},
		{[]cause{byMissing, byMissing, byLength}, []string{"renew, next", "next", "next"}},
		{[]cause{byLength, byToken, byMissing}, []string{"renew, next", "renew, same", "next"}},
	} {
		var tr trial
		for i, cause := range c.causes {
			if got := names[tr.after(placeOn(fmt.Sprint(i)), cause, errors.New("x"))]; got != c.want[i] {
				t.Errorf("%v: move %d is %q, want %q", c.causes, i, got, c.want[i])
			}
		}
	}
}

func TestRounds(t *testing.T) {
	var tr trial
	tr.after(placeOn("a"), byMissing, errors.New("x"))
	var pauses []time.Duration
	for {
		pause, more := tr.next(0.5)
		if !more {
			break
		}
		pauses = append(pauses, pause)
		if got := tr.after(placeOn("a"), byMissing, errors.New("x")); got != renewAndNext {
			t.Errorf("round %d does not ask for the block again: %v", tr.round, got)
		}
	}
	if want := "[1.5s 6s]"; fmt.Sprint(pauses) != want {
		t.Errorf("pauses %v, want %s", pauses, want)
	}
}

func TestErrorOfABlock(t *testing.T) {
	b := &block{id: blockID{id: 7, stamp: 1001}, off: 4096}
	for _, c := range []struct {
		causes []cause
		want   error
	}{
		{nil, store.ErrUnavailable},
		{[]cause{byChecksum, byChecksum}, store.ErrCorrupt},
		{[]cause{byChecksum, byConnect}, store.ErrUnavailable},
		{[]cause{byMissing, byMissing}, store.ErrUnavailable},
	} {
		var tr trial
		for i, cause := range c.causes {
			tr.after(placeOn(fmt.Sprint(i)), cause, fmt.Errorf("it said: %w", store.ErrCorrupt))
		}
		err := tr.error(b)
		if !errors.Is(err, c.want) || store.ClassOf(err) != store.ClassOf(c.want) {
			t.Errorf("%v: %v, want %v", c.causes, err, c.want)
		}
	}
}
