package loader

import (
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
)

func TestPeerBacksOff(t *testing.T) {
	p := newPeer("n", "a", false)
	now := time.Duration(0)
	want := []time.Duration{200, 400, 800, 1600, 3200, 5000, 5000}
	for i, w := range want {
		try, ok := p.allow(now, minBackOff)
		if !ok {
			t.Fatalf("failure %d: not allowed at %v", i, now)
		}
		if _, again := p.allow(now, minBackOff); again != (i == 0) {
			t.Fatalf("failure %d: a second caller is let in: %v", i, again)
		}
		p.failed(try, fetch.ReasonDeadline, now, minBackOff)
		p.failed(try, fetch.ReasonCorrupt, now, minBackOff) // at the same time: does not count
		if got := (p.retryAt - now) / time.Millisecond; got != w {
			t.Fatalf("back-off %d: %d ms, want %d", i, got, w)
		}
		if p.skipReason() != fetch.ReasonDeadline {
			t.Fatalf("reason %q", p.skipReason())
		}
		if _, ok := p.allow(p.retryAt-1, minBackOff); ok {
			t.Fatal("allowed too early")
		}
		now = p.retryAt
	}
	p.answered()
	if _, ok := p.allow(now, minBackOff); !ok || p.failures != 0 {
		t.Fatal("still held back after an answer")
	}
	p.quarantined = true
	if _, ok := p.allow(now+time.Hour, minBackOff); ok || p.skipReason() != fetch.ReasonCorrupt {
		t.Fatal("a quarantined agent is asked")
	}
}

func TestRosterKeepsWhatItKnows(t *testing.T) {
	var r roster
	if r.replace(nil) || r.generation != 0 {
		t.Fatal("nothing is a change")
	}
	if !r.replace([]peer{newPeer("b", "1", false), newPeer("a", "2", true)}) || r.generation != 1 || r.peers[0].Name != "a" {
		t.Fatalf("roster: %+v", r)
	}
	r.find("a").failures, r.find("b").quarantined = 3, true
	if r.replace([]peer{newPeer("a", "2", true), newPeer("b", "1", false)}) {
		t.Fatal("another order is no change")
	}
	if !r.replace([]peer{newPeer("a", "2", true), newPeer("b", "9", false)}) || r.generation != 2 {
		t.Fatal("another address is a change")
	}
	if r.find("a").failures != 3 || r.find("b").quarantined || r.find("c") != nil {
		t.Fatal("what is known was kept for the wrong agents")
	}
}
