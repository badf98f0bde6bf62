package hints

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLedgerCounts(t *testing.T) {
	var l Ledger
	l.Prepared(1000, 2*time.Second)
	l.Prepared(500, time.Second)
	l.Unused(500, time.Second)
	l.Hit("dn1", 3*time.Millisecond)
	l.Hit("dn1", 5*time.Second)
	l.Late("dn2")
	l.Miss("dn2", "cpu")
	l.Miss("dn1", "cpu")
	l.Miss("", "no-agent")

	got := l.Snapshot()
	want := LedgerSnapshot{
		Hits: 2, Late: 1, Misses: 3,
		Prepared:  Work{Count: 2, Bytes: 1500, CPUSeconds: 3},
		Unused:    Work{Count: 1, Bytes: 500, CPUSeconds: 1},
		Fallbacks: map[string]uint64{"cpu": 2, "no-agent": 1},
		Nodes: map[string]*NodeAccount{
			"dn1": {Hits: 2, Fallbacks: map[string]uint64{"cpu": 1}},
			"dn2": {Late: 1, Fallbacks: map[string]uint64{"cpu": 1}},
			"":    {Fallbacks: map[string]uint64{"no-agent": 1}},
		},
	}
	want.Lead.Buckets[2], want.Lead.Buckets[13], want.Lead.Seconds = 1, 1, 5.003
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %s\nwant %s", text(got), text(want))
	}
	if got.HitRate() != 0.5 {
		t.Errorf("hit rate %v, want 0.5", got.HitRate())
	}
	l.Miss("dn1", "cpu")
	if !reflect.DeepEqual(got, want) {
		t.Error("a snapshot changed after it was taken")
	}
	var back LedgerSnapshot
	if err := json.Unmarshal([]byte(text(got)), &back); err != nil || !reflect.DeepEqual(back, got) {
		t.Errorf("JSON: %v, %s", err, text(back))
	}
}

func TestLeadTimes(t *testing.T) {
	var lead LeadTimes
	if lead.Quantile(0.5) != 0 {
		t.Error("nothing observed, yet a median")
	}
	for _, d := range []time.Duration{-1, 0, time.Millisecond, time.Millisecond + 1, 2 * time.Millisecond, 100 * time.Hour} {
		lead.observe(d)
	}
	if lead.Buckets[0] != 3 || lead.Buckets[1] != 2 || lead.Buckets[leadBuckets-1] != 1 {
		t.Errorf("buckets %v", lead.Buckets)
	}
	if q := lead.Quantile(0.5); q != time.Millisecond {
		t.Errorf("median %s", q)
	}
	if q := lead.Quantile(0.8); q != 2*time.Millisecond {
		t.Errorf("q80 %s", q)
	}
	if q := lead.Quantile(1); q != LeadBound(leadBuckets-1) {
		t.Errorf("maximum %s", q)
	}
}

// TestMergeIsSum: it does not matter which of two ledgers counted what.
func TestMergeIsSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var whole, a, b Ledger
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			part := &a
			if rapid.Bool().Draw(t, "to b") {
				part = &b
			}
			node := rapid.SampledFrom([]string{"dn1", "dn2"}).Draw(t, "node")
			lead := time.Duration(rapid.IntRange(0, 1<<20).Draw(t, "lead")) * time.Millisecond
			kind := rapid.IntRange(0, 4).Draw(t, "kind")
			for _, l := range []*Ledger{&whole, part} {
				record(l, kind, node, lead)
			}
		}
		sum, want := a.Snapshot().Merge(b.Snapshot()), whole.Snapshot()
		if diff := sum.Lead.Seconds - want.Lead.Seconds; diff > 1e-6 || diff < -1e-6 {
			t.Fatalf("lead times add to %v, want %v", sum.Lead.Seconds, want.Lead.Seconds)
		}
		sum.Lead.Seconds, want.Lead.Seconds = 0, 0
		if text(sum) != text(want) {
			t.Fatalf("got %s\nwant %s", text(sum), text(want))
		}
	})
}

func record(l *Ledger, kind int, node string, lead time.Duration) {
	switch kind {
	case 0:
		l.Hit(node, lead)
	case 1:
		l.Late(node)
	case 2:
		l.Miss(node, "queue")
	case 3:
		l.Prepared(64, time.Second)
	case 4:
		l.Unused(64, time.Second)
	}
}

// TestLedgerIsBounded: a peer that invents node names cannot fill the memory.
func TestLedgerIsBounded(t *testing.T) {
	var l Ledger
	for i := range 3 * ledgerNodes {
		l.Hit(fmt.Sprint(i), 0)
	}
	s := l.Snapshot()
	if len(s.Nodes) != ledgerNodes+1 || s.Nodes[otherNode].Hits != 2*ledgerNodes {
		t.Errorf("%d nodes, %+v in others", len(s.Nodes), s.Nodes[otherNode])
	}
}

func TestLedgerConcurrent(t *testing.T) {
	var l Ledger
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				l.Hit("dn1", time.Second)
				l.Miss("dn2", "cpu")
				l.Snapshot()
			}
		})
	}
	wg.Wait()
	if s := l.Snapshot(); s.Hits != 2000 || s.Misses != 2000 {
		t.Errorf("got %s", text(s))
	}
}

func text(s LedgerSnapshot) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}
