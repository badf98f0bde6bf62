package hdfs

import (
	"testing"
	"time"
)

func TestBadNodesAreForgiven(t *testing.T) {
	var b badNodes
	n, other := &node{id: "a"}, &node{id: "b"}
	start := time.Unix(1000, 0)
	after := func(d time.Duration) time.Time { return start.Add(d) }
	want := func(when time.Duration, n *node, want int) {
		t.Helper()
		if got := b.badness(blockID{id: 1}, n, after(when)); got != want {
			t.Errorf("after %v, node %s is %d, want %d", when, n.id, got, want)
		}
	}
	want(0, n, fine)
	b.nodeFailed(n, after(0))
	b.nodeFailed(n, after(time.Second)) // of the same outage
	want(9*time.Second, n, nodeBad)
	want(0, other, fine)
	want(10*time.Second, n, fine)
	b.nodeFailed(n, after(11*time.Second)) // the second in a row
	want(30*time.Second, n, nodeBad)
	want(32*time.Second, n, fine)
	for i := range 40 { // never for longer than 5 minutes
		b.nodeFailed(n, after(time.Hour+time.Duration(i)*301*time.Second))
	}
	last := time.Hour + 39*301*time.Second
	want(last+299*time.Second, n, nodeBad)
	want(last+301*time.Second, n, fine)
	b.nodeFailed(n, after(last+302*time.Second))
	b.nodeWorked(n)
	want(last+303*time.Second, n, fine)
	b.nodeFailed(n, after(last+400*time.Second)) // the first again
	want(last+411*time.Second, n, fine)

	b.replicaFailed(blockID{id: 1}, other, after(0))
	want(9*time.Minute, other, replicaBad)
	want(10*time.Minute, other, fine)
	if got := b.badness(blockID{id: 2}, other, after(0)); got != fine {
		t.Errorf("another block on the node is %d", got)
	}
}

func TestBadNodesAreBounded(t *testing.T) {
	var b badNodes
	for i := range 3 * maxBad {
		b.nodeFailed(&node{}, time.Unix(int64(i), 0))
		b.replicaFailed(blockID{id: int64(i)}, nil, time.Unix(int64(i), 0))
	}
	if len(b.nodes) > maxBad || len(b.replicas) > maxBad {
		t.Errorf("%d nodes and %d replicas are remembered", len(b.nodes), len(b.replicas))
	}
}
