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
	return placedBlocks(t, s, name, data, replicas, func(int64) []string { return not })
}

// placedBlocks is placedFile with nodes to leave out for each block.
func placedBlocks(t *testing.T, s *Store, name string, data []byte, replicas int, not func(block int64) []string) error {
	t.Helper()
	w, err := s.CreatePlaced(t.Context(), name, store.Placement{Replicas: replicas, Exclude: func(off int64) []string {
		if off%fakeBlockSize != 0 {
			t.Errorf("asked for a block at offset %d", off)
		}
		return not(off / fakeBlockSize)
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

// addrs are the names of DataNodes.
func (c *lake) addrs(nodes ...int) (names []string) {
	for _, i := range nodes {
		names = append(names, c.nodes[i].Addr())
	}
	return names
}

// TestPlacedNowhere: where a block has no node at all the file fails at once, as something that may work later, and nothing is left.
func TestPlacedNowhere(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	err := placedFile(t, s, "/f", random(100, 2), 3, c.addrs(0, 1, 2, 3, 4)...)
	if !errors.Is(err, store.ErrUnavailable) || store.ClassOf(err) != store.Retryable {
		t.Error(err)
	}
	c.wantOnly(t)
	if n := c.called("addBlock"); n > 6 {
		t.Errorf("the NameNode was asked %d times", n)
	}
}

// TestPlacedFewer: a file has as many replicas as each of its blocks could be given, because of nodes that are left out or of what one rack may have, and asks for
// no more; that is said before any block is short, since HDFS begins to make what is missing.
func TestPlacedFewer(t *testing.T) {
	for _, test := range []struct {
		name           string
		replicas, rack int
		not            [][]int // by block
		want           int     // replicas; 0: as many as were asked for
	}{
		{"enough", 3, 0, [][]int{{0, 1}, {3, 4}}, 0},
		{"two left", 3, 0, [][]int{{0, 1, 2}}, 2},
		{"one left", 3, 0, [][]int{{0, 1, 2, 3}}, 1},
		{"the last block has fewest", 4, 0, [][]int{{}, {0}, {0, 1}}, 3},
		{"the first block has fewest", 4, 0, [][]int{{0, 1, 2}, {0}, {}}, 2},
		{"one rack may have two", 3, 2, [][]int{{1, 3}}, 2},
		{"the other rack may have one more", 3, 2, [][]int{{1}}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newLake(t)
			c.replicas, c.perRack = test.replicas, test.rack
			s := newWriteStore(c)
			data := random(len(test.not)*fakeBlockSize, 4)
			if err := placedBlocks(t, s, "/f", data, test.replicas, func(block int64) []string { return c.addrs(test.not[block]...) }); err != nil {
				t.Fatal(err)
			}
			c.wantContent(t, "/f", data)
			if got := c.entries["/f"].factor; got != test.want {
				t.Errorf("it asks for %d replicas, want %d", got, test.want)
			}
			for n, b := range c.entries["/f"].blocks {
				if len(b.nodes) < test.want || slices.ContainsFunc(b.nodes, func(i int) bool { return slices.Contains(test.not[n], i) }) {
					t.Errorf("block %d is on %v", n, b.nodes)
				}
			}
			if i := slices.Index(c.calls, "setReplication"); test.want > 0 && (i < 1 || c.calls[i-1] != "abandonBlock" || c.calls[i+1] != "addBlock") {
				t.Errorf("the calls were %q", c.calls)
			}
		})
	}
}

// TestPlacedFewerRefused: a NameNode that does not take the smaller number gets no file of which it would make replicas anywhere.
func TestPlacedFewerRefused(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	c.fail = func(method, _ string) error {
		if method == "setReplication" {
			return exception("security.AccessControlException")
		}
		return nil
	}
	if err := placedFile(t, s, "/f", random(100, 2), 3, c.addrs(0, 1, 2)...); err == nil {
		t.Error("no error")
	}
	c.wantOnly(t)
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
		if n := c.entries[name].factor; n != 0 {
			t.Errorf("%s asks for %d replicas, all could be had", name, n)
		}
	}
}

// TestPlacedWithoutTheDead: a DataNode that takes nothing, and that the NameNode gives all the same, is tried once more, and then the file has a replica less.
func TestPlacedWithoutTheDead(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	c.replicas = 4
	c.fault = func(node int, r fakedn.Request) fakedn.Fault {
		return fakedn.Fault{Hangup: r.Write != nil && node == 1}
	}
	data := random(fakeBlockSize/8, 5)
	if err := placedFile(t, s, "/f", data, 4, c.addrs(0)...); err != nil {
		t.Fatal(err)
	}
	c.wantContent(t, "/f", data)
	if got := c.on("/f"); len(got) != 3 || slices.Contains(got, c.nodes[1].Addr()) || c.entries["/f"].factor != 3 {
		t.Errorf("it is on %v and asks for %d replicas", got, c.entries["/f"].factor)
	}
}
