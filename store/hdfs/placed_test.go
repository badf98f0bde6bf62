package hdfs

import (
	"errors"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
)

// placedFile writes a file of a lake, which has five DataNodes, on other nodes than those named.
func placedFile(t *testing.T, s *Store, name string, data []byte, replicas int, not ...string) error {
	t.Helper()
	w, err := s.CreatePlaced(t.Context(), name, store.Placement{Replicas: replicas, Exclude: func(off int64) []string {
		if off%fakeBlockSize != 0 {
			t.Errorf("asked for a block at offset %d", off)
		}
		return not
	}})
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Close()
}

// on are the names of the nodes that have blocks of a file.
func (c *lake) on(name string) (nodes []string) {
	for _, b := range c.entries[name].blocks {
		for _, i := range b.nodes {
			nodes = append(nodes, c.nodes[i].Addr())
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// TestPlacedApart: whether the nodes were heard of before, or the NameNode gives them first.
func TestPlacedApart(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	not := []string{c.nodes[1].Addr(), c.nodes[3].Addr()}
	for _, most := range []int{len(not), 0} { // the second time they are known
		if err := placedFile(t, s, "/f", random(3*fakeBlockSize+1, 1), 3, not...); err != nil {
			t.Fatal(err)
		}
		if got := c.on("/f"); len(got) != 3 || slices.Contains(got, not[0]) || slices.Contains(got, not[1]) {
			t.Errorf("it is on %v, which should be without %v", got, not)
		}
		if err := s.Remove(t.Context(), "/f"); err != nil {
			t.Fatal(err)
		}
		if n := c.called("abandonBlock"); n > most {
			t.Errorf("%d blocks were given back, want at most %d", n, most)
		}
	}
}

// called counts the calls of a method, and forgets all.
func (c *lake) called(method string) (n int) {
	for _, call := range c.calls {
		if call == method {
			n++
		}
	}
	c.calls = nil
	return n
}

// TestPlacedNowhere: with too few nodes the file fails at once, as something that may work later, and nothing is left.
func TestPlacedNowhere(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.Addr())
	}
	for _, not := range [][]string{all, all[:4], all[:3]} {
		c.calls = nil
		err := placedFile(t, s, "/f", random(100, 2), 3, not...)
		if !errors.Is(err, store.ErrUnavailable) || store.ClassOf(err) != store.Retryable {
			t.Errorf("without %d of 5: %v", len(not), err)
		}
		c.wantOnly(t)
		if n := c.called("addBlock"); n > len(not)+1 {
			t.Errorf("without %d of 5: the NameNode was asked %d times", len(not), n)
		}
	}
}

// TestPlacedAroundFailures: a DataNode that fails is left out beside those that are not to have the file; where too few are left then, it is tried again.
func TestPlacedAroundFailures(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	failed := map[int]int{}
	c.fault = func(node int, r fakedn.Request) fakedn.Fault {
		if r.Write == nil || node == 0 || failed[node] > 0 {
			return fakedn.Fault{}
		}
		failed[node]++
		return fakedn.Fault{Hangup: true}
	}
	not := c.nodes[0].Addr()
	for name, replicas := range map[string]int{"/three": 3, "/four": 4} {
		c.replicas = replicas
		clear(failed)
		if err := placedFile(t, s, name, random(2*fakeBlockSize, 3), replicas, not); err != nil {
			t.Fatal(err)
		}
		if got := c.on(name); slices.Contains(got, not) || len(failed) == 0 {
			t.Errorf("%s is on %v, %v failed", name, got, failed)
		}
	}
}
