package hdfs

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// writeParts writes data in n parts, from the last to the first.
func writeParts(t *testing.T, s *Store, name string, data []byte, n int) store.PartsWriter {
	t.Helper()
	w, err := s.CreateParts(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Abort() })
	for i := n - 1; i >= 0; i-- {
		from, to := i*len(data)/n, (i+1)*len(data)/n
		if err := w.WritePart(t.Context(), int64(from), [][]byte{data[from:to]}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestPartsOutliveSweeps: a part that was closed long ago is spared as long as its guard's lease is renewed, by sweeps and by Remove of the folder.
func TestPartsOutliveSweeps(t *testing.T) {
	for what, alive := range map[string]bool{"alive": true, "dead": false} {
		c := newLake(t)
		s := newWriteStore(c)
		writeParts(t, s, "/d/f", random(1000, 1), 3)
		c.mu.Lock()
		c.now += 10 * oldDraft.Milliseconds()
		for _, e := range c.entries {
			e.expired = e.holder != "" && !alive
		}
		c.mu.Unlock()
		if err := newWriteStore(c).Remove(t.Context(), "/d"); (err == nil) == alive {
			t.Errorf("%s: Remove: %v", what, err)
		}
		if err := writeFile(newWriteStore(c), "/d/g", []byte("x")); err != nil {
			t.Fatal(err)
		}
		parts := 0
		for name := range c.entries {
			if _, ok := guardOf(name); ok {
				parts++
			}
		}
		if want := map[bool]int{true: 3, false: 0}[alive]; parts != want {
			t.Errorf("%s: %d parts are left, want %d", what, parts, want)
		}
	}
}

// TestUnknownOutcomeOfJoining: the NameNode joined the parts and its answer was lost, or it did not.
func TestUnknownOutcomeOfJoining(t *testing.T) {
	for what, took := range map[string]bool{"took place": true, "did not": false} {
		c := newLake(t)
		s := newWriteStore(c)
		data := random(3000, 1)
		w := writeParts(t, s, "/d/f", data, 3)
		c.fail = func(method, target string) error {
			if method != "concat" {
				return nil
			}
			for name, e := range c.entries { // in any order: the content is not looked at
				if _, part := guardOf(name); took && part && name != target {
					c.entries[target].blocks = append(c.entries[target].blocks, e.blocks...)
					delete(c.entries, name)
				}
			}
			return namenode.ErrOutcomeUnknown
		}
		err := w.Close()
		if (err == nil) != took {
			t.Errorf("%s: %v", what, err)
		}
		if took {
			c.wantOnly(t, "/d", "/d/f")
		} else {
			c.wantOnly(t, "/d")
		}
	}
}

// refusing is a NameNode that does not join files.
type refusing struct {
	changes
	err  error
	n    int
	from int
}

func (r *refusing) Concat(ctx context.Context, target string, sources ...string) error {
	if r.n++; r.n > r.from {
		return r.err
	}
	return r.changes.Concat(ctx, target, sources...)
}

// TestPartsThatAreNotJoined are copied, also where some are joined already; what says nothing about joining is an error.
func TestPartsThatAreNotJoined(t *testing.T) {
	c := hdfstest.Shared(t)
	data := random(1<<20, 1)
	for _, r := range []struct {
		what           string
		err            error
		parts, joined  int
		copied, forget bool
	}{
		{"an unknown call", &namenode.RemoteError{Class: "org.apache.hadoop.ipc.RpcNoSuchMethodException"}, 3, 0, true, true},
		{"an unknown operation", &namenode.RemoteError{Class: "java.lang.UnsupportedOperationException"}, 3, 0, true, true},
		{"a refusal", &namenode.RemoteError{Class: "org.apache.hadoop.HadoopIllegalArgumentException"}, mostJoined + 3, 1, true, false},
		{"another", &namenode.RemoteError{Class: "java.io.IOException"}, 3, 0, true, false},
		{"no permission", &namenode.RemoteError{Class: "org.apache.hadoop.security.AccessControlException"}, 3, 0, false, false},
		{"an outage", store.ErrUnavailable, 3, 0, false, false},
	} {
		s, dir := writeOn(t, c)
		s.writes.names = &refusing{changes: s.writes.names, err: r.err, from: r.joined}
		err := writeParts(t, s, dir+"/f", data, r.parts).Close()
		if (err == nil) != r.copied {
			t.Errorf("%s: %v", r.what, err)
		}
		if r.copied && !bytes.Equal(c.Get(dir+"/f"), data) {
			t.Errorf("%s: another content", r.what)
		}
		if r.copied {
			wantListed(t, s, dir, "f")
		} else {
			wantListed(t, s, dir)
		}
		if _, err := s.CreateParts(t.Context(), dir+"/g"); errors.Is(err, errors.ErrUnsupported) != r.forget {
			t.Errorf("%s: the next CreateParts: %v", r.what, err)
		}
	}
}

// TestPartsInASnapshot: the NameNode does not join what a snapshot holds.
func TestPartsInASnapshot(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	data := random(1<<20, 1)
	w := writeParts(t, s, dir+"/f", data, 3)
	c.Snapshot(dir, "s")
	defer c.DeleteSnapshot(dir, "s")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(c.Get(dir+"/f"), data) {
		t.Error("another content")
	}
	wantListed(t, s, dir, "f")
}

// TestWhatPartsCost counts as the NameNode does: three calls for a part, and for each time more that it is asked whether DataNodes
// have reported a block one more.
func TestWhatPartsCost(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{})
	s, dir := writeOn(t, c)
	if err := writeFile(s, dir+"/first", []byte("x")); err != nil {
		t.Fatal(err)
	}
	const parts = 16
	before := c.Calls(0)
	if err := writeParts(t, s, dir+"/f", random(parts<<16, 1), parts).Close(); err != nil {
		t.Fatal(err)
	}
	after := c.Calls(0)
	calls := func(name string) int64 { return after[name] - before[name] }
	if calls("Create") != parts+1 || calls("AddBlock") != parts || calls("Complete") > 4*parts || calls("Concat") != 1 || calls("Rename2") != 1 || calls("GetFileInfo") != 1 || calls("Delete") != 1 {
		t.Errorf("%d parts took %d, %d, %d, %d, %d, %d and %d calls", parts, calls("Create"), calls("AddBlock"), calls("Complete"), calls("Concat"), calls("Rename2"), calls("GetFileInfo"), calls("Delete"))
	}
}

// rackNode is a DataNode in a rack.
func rackNode(id, rack string) *hproto.DatanodeInfo {
	return &hproto.DatanodeInfo{Id: &hproto.DatanodeID{DatanodeUuid: &id}, Location: &rack}
}

// TestBusyNodesAreLeftOut as long as enough others are left.
func TestBusyNodesAreLeftOut(t *testing.T) {
	for _, c := range []struct {
		what  string
		nodes string // name rack busy
		want  string
	}{
		{"nothing is known", "", ""},
		{"all alike", "a1x2 b1y2 c1z2 d1w2", ""},
		{"half of them", "a1x2 b1y2 c1z2 d1x0 e1y0 f1z0", "a b c"},
		{"no more than may be", "a1x3 b1y2 c1z1 d1w0", "a"},
		{"only as many as replicas", "a1x3 b1y2 c1z0", ""},
		{"the second rack stays", "a1x3 b1x3 c1x3 d1y2 e1x0 f1x0 g1x0", "a b c"},
		{"a rack's only node stays", "a1y3 b1x2 c1x1 d1x0 e1x0", "b c"},
	} {
		var s spread
		for n := range strings.FieldsSeq(c.nodes) {
			s.begin([]*hproto.DatanodeInfo{rackNode(n[:1], n[2:3])})()
			for range n[3] - '0' {
				s.begin([]*hproto.DatanodeInfo{rackNode(n[:1], n[2:3])})
			}
		}
		var got []string
		for _, info := range s.avoid(3, nil) {
			got = append(got, info.GetId().GetDatanodeUuid())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q are left out, want %q", c.what, got, c.want)
		}
	}
}

// TestTooFewNodesWithoutBusyOnes: a node that nobody knows to be gone does not cost a block a replica.
func TestTooFewNodesWithoutBusyOnes(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	for i := range 6 { // more than there are
		s.writes.spread.begin([]*hproto.DatanodeInfo{rackNode(string(rune('a'+i)), "/r")})()
	}
	for _, n := range c.nodes[:4] {
		s.writes.spread.begin([]*hproto.DatanodeInfo{n.Info()})
	}
	if err := writeFile(s, "/f", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if n := len(c.entries["/f"].blocks[0].nodes); n != 3 {
		t.Errorf("the block has %d replicas", n)
	}
	if !slices.Contains(c.calls, "abandonBlock") {
		t.Errorf("no block with too few was given: %q", c.calls)
	}
}

// TestClaimsOfTheDead: a lease that has expired frees a name, a file that was closed in the holder's place too.
func TestClaimsOfTheDead(t *testing.T) {
	for what, left := range map[string]inode{"expired": {holder: "dead", expired: true}, "closed": {}} {
		c := newLake(t)
		c.entries["/d"], c.entries[claimName("/d/save")] = &inode{dir: true}, &left
		claim, err := newWriteStore(c).Claim(t.Context(), "/d/save")
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if _, err := newWriteStore(c).Claim(t.Context(), "/d/save"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: a second claim: %v", what, err)
		}
		c.mu.Lock()
		c.entries[claimName("/d/save")] = &inode{id: 7, holder: "another"}
		c.mu.Unlock()
		if err := claim.Held(t.Context()); store.ClassOf(err) != store.Retryable {
			t.Errorf("%s: Held: %v", what, err)
		}
		if err := claim.Release(); err != nil {
			t.Error(err)
		}
		if c.entries[claimName("/d/save")] == nil {
			t.Errorf("%s: another's claim was removed", what)
		}
	}
}
