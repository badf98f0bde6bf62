package catalogue

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// watched is a store that knows which replica each byte was read from.
type watched struct {
	store.Store
	mu    sync.Mutex
	bytes map[string]int64 // by name and node; the node is "" where the store chose
}

func (w *watched) Open(ctx context.Context, name string) (store.File, error) {
	f, err := w.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &watchedFile{f, w, name}, nil
}

func (w *watched) saw(name, node string, r []store.Range) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range r {
		w.bytes[name+"@"+node] += int64(len(x.Buf))
	}
}

type watchedFile struct {
	store.File
	w    *watched
	name string
}

func (f *watchedFile) ReadRanges(ctx context.Context, r []store.Range) error {
	f.w.saw(f.name, "", r)
	return f.File.ReadRanges(ctx, r)
}

// CRC32C implements store.Checksummer.
func (f *watchedFile) CRC32C(context.Context) (uint32, error) { return 7, nil }

func (f *watchedFile) ReadReplica(ctx context.Context, node string, r []store.Range) error {
	err := f.File.(store.ReplicaReader).ReadReplica(ctx, node, r)
	if err == nil {
		f.w.saw(f.name, node, r)
	}
	return err
}

const (
	hotName     = "/hot"
	siblingName = "/.stepahead/data/c1-9/hot"
	hotBlock    = 1 << 10
)

// heat is a hot file with a sibling, in a store of nine nodes.
type heat struct {
	st   *watched
	root string
	data []byte
	row  Row
	key  Key
}

func newHeat(t *testing.T, size int) *heat {
	h := &heat{root: t.TempDir(), data: noise(size, 9), key: testKey("k1", 1)}
	var nodes []dir.Node
	for i := range 9 {
		nodes = append(nodes, dir.Node{Name: fmt.Sprint("dn", i)})
	}
	must(t, dir.Init(h.root, dir.Topology{Nodes: nodes, BlockSize: hotBlock, Replication: 3}))
	h.st = &watched{Store: openDir(t, h.root), bytes: map[string]int64{}}
	storetest.Put(t, h.st, hotName, h.data)
	storetest.Put(t, h.st, siblingName, h.data)
	must(t, h.st.Store.(*dir.Store).SetReplication(t.Context(), siblingName, 6))
	must(t, PublishKey(t.Context(), h.st, h.key))
	h.row = Row{Version: Version, Placement: 9, Controller: "c1", Path: h.st.Address(hotName), TTL: MinTTL * 3600, Sources: &Sources{Size: int64(size), Readers: 24}}
	h.row.Identity = string(h.identity(t, hotName))
	h.row.Sources.Siblings = []Sibling{{Name: siblingName, Identity: h.identity(t, siblingName), CRC32C: crcOf(h.data)}}
	h.write(t)
	return h
}

func (h *heat) identity(t *testing.T, name string) store.Identity {
	info, err := h.st.Stat(t.Context(), name)
	must(t, err)
	return info.Identity
}

func (h *heat) write(t *testing.T) {
	t.Helper()
	must(t, Write(t.Context(), h.st, h.key, h.row))
}

// perNode adds up what was read of each node.
func (h *heat) perNode() map[string]int64 {
	sums := map[string]int64{}
	for key, n := range h.st.bytes {
		if name, node, _ := strings.Cut(key, "@"); name == hotName || name == siblingName {
			sums[node] += n
		}
	}
	return sums
}

// TestEven: of one block, each node that has a replica of the original or of the sibling serves as many readers as another, or one more.
func TestEven(t *testing.T) {
	for _, readers := range []int{5, 24, 64} {
		for _, siblings := range []bool{false, true} {
			h := newHeat(t, hotBlock)
			if !siblings {
				h.row.Sources.Siblings = nil
				h.write(t)
			}
			rows, err := h.st.Locate(t.Context(), hotName, 0, hotBlock)
			must(t, err)
			if siblings {
				more, err := h.st.Locate(t.Context(), siblingName, 0, hotBlock)
				must(t, err)
				rows = append(rows, more...)
			}
			nodes := map[string]bool{}
			for _, r := range rows {
				nodes[r.Node] = true
			}
			for i := range readers {
				if got := storetest.Get(t, Wrap(h.st, Options{Index: i, Of: readers}), hotName); !bytes.Equal(got, h.data) {
					t.Fatal("other bytes")
				}
			}
			if h.perNode()[""] != 0 {
				t.Errorf("%d bytes were read as the store chose", h.perNode()[""])
			}
			for node := range nodes {
				if n := int(h.perNode()[node] / hotBlock); n != readers/len(nodes) && n != (readers+len(nodes)-1)/len(nodes) {
					t.Errorf("%d readers of %d nodes: %s has %d", readers, len(nodes), node, n)
				}
			}
		}
	}
}

// TestHotBlocks: a file of many blocks, read in odd ranges, by readers who each spread over all nodes.
func TestHotBlocks(t *testing.T) {
	h := newHeat(t, 20*hotBlock+77)
	s := Wrap(h.st, Options{Index: 1, Of: 4})
	f := storetest.Open(t, s, hotName)
	got := make([]byte, f.Size())
	for off := 0; off < len(got); off += 3000 {
		end := min(off+3000, len(got))
		middle := min(off+1234, end)
		must(t, f.ReadRanges(t.Context(), []store.Range{{Off: int64(middle), Buf: got[middle:end]}, {Off: int64(off), Buf: got[off:middle]}, {Off: int64(off)}}))
	}
	if !bytes.Equal(got, h.data) {
		t.Error("other bytes")
	}
	stats := s.Stats()
	if stats.EvenBytes+stats.SiblingBytes != int64(len(got)) || stats.EvenBytes == 0 || stats.SiblingBytes == 0 || len(stats.Fallbacks) != 0 {
		t.Errorf("%+v", stats)
	}
	wantIs(t, f.ReadRanges(t.Context(), []store.Range{{Off: f.Size(), Buf: make([]byte, 1)}}), store.ErrRange, hotName)
	must(t, f.(store.ReplicaReader).ReadReplica(t.Context(), h.node(t, 0), []store.Range{{Buf: got[:10]}}))
	if sum, err := f.(store.Checksummer).CRC32C(t.Context()); err != nil || sum != 7 {
		t.Errorf("its sum: %d, %v", sum, err)
	}
}

// node is one that has the original's first block.
func (h *heat) node(t *testing.T, i int) string {
	rows, err := h.st.Locate(t.Context(), hotName, 0, 1)
	must(t, err)
	return rows[i].Node
}

// TestHotDoubts: whatever happens to nodes and siblings, the bytes are those of the file.
func TestHotDoubts(t *testing.T) {
	remove := func(h *heat) error { return os.RemoveAll(filepath.Join(h.root, siblingName)) }
	for name, c := range map[string]struct {
		do      func(t *testing.T, h *heat)
		reason  string
		damaged bool
	}{
		"a node is down": {func(t *testing.T, h *heat) {
			must(t, os.MkdirAll(filepath.Join(h.root, ".stepahead/down"), 0o755))
			must(t, os.WriteFile(filepath.Join(h.root, ".stepahead/down", h.node(t, 0)), nil, 0o644))
		}, ReasonNode, false},
		"the sibling is gone":        {func(t *testing.T, h *heat) { must(t, remove(h)) }, ReasonMissing, true},
		"the sibling was written to": {func(t *testing.T, h *heat) { change(t, h.root+siblingName, 3, false) }, ReasonOther, true},
		"the sibling rots":           {func(t *testing.T, h *heat) { change(t, h.root+siblingName, 3, true) }, ReasonCorrupt, true},
		"the file was overwritten": {func(t *testing.T, h *heat) {
			h.data = noise(len(h.data), 77)
			must(t, store.ReplaceFile(t.Context(), h.st.Store, hotName, h.data))
		}, ReasonChanged, false},
		"the row is forged": {func(t *testing.T, h *heat) { h.key = testKey("k1", 2); h.write(t) }, ReasonSignature, false},
		"nobody says where the file lies": {func(_ *testing.T, h *heat) {
			h.st.Store = faulty(h.st.Store, store.Fault{Kind: "fail", Op: "locate", Path: hotName})
		}, ReasonPlaces, false},
		"nobody says where the sibling lies": {func(_ *testing.T, h *heat) {
			h.st.Store = faulty(h.st.Store, store.Fault{Kind: "fail", Op: "locate", Path: siblingName})
		}, ReasonRead, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeat(t, 5*hotBlock)
			plain := h.st.Store
			c.do(t, h)
			fallbacks := int64(0)
			for i := range 9 {
				s := Wrap(h.st, Options{Index: i, Of: 9})
				for range 2 {
					if got := storetest.Get(t, s, hotName); !bytes.Equal(got, h.data) {
						t.Fatal("other bytes")
					}
				}
				fallbacks += s.Stats().Fallbacks[c.reason]
			}
			if fallbacks == 0 {
				t.Error("nothing went the ordinary way")
			}
			found, err := ReadDamages(t.Context(), plain)
			if err != nil || (len(found) == 1) != c.damaged {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}

// TestHotPlacesUnknown: of a hot file whose places nobody tells the original is read, which is asked for once in each opening. That is no fault of its row, which is followed
// as soon as somebody does.
func TestHotPlacesUnknown(t *testing.T) {
	h := newHeat(t, hotBlock)
	plain := h.st.Store
	h.st.Store = faulty(plain, store.Fault{Kind: "fail", Op: "locate", Path: hotName})
	s := Wrap(h.st, Options{Of: 1})
	for range 3 {
		f := storetest.Open(t, s, hotName)
		for range 2 {
			must(t, f.ReadRanges(t.Context(), []store.Range{{Buf: make([]byte, hotBlock)}}))
		}
	}
	if got := s.Stats(); got.Fallbacks[ReasonPlaces] != 3 || got.Fallbacks[ReasonSuspended] != 0 || got.OriginalBytes != 6*hotBlock {
		t.Errorf("%+v", got)
	}
	h.st.Store = plain
	storetest.Get(t, s, hotName)
	if got := s.Stats(); got.EvenBytes+got.SiblingBytes != hotBlock {
		t.Errorf("%+v", got)
	}
}

// gone is a store one of whose files cannot be read, in whatever way, while off says so; all else can.
type gone struct {
	*watched
	off *bool
}

func (s gone) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.watched.Open(ctx, name)
	if err != nil || name != hotName {
		return f, err
	}
	return goneFile{f.(*watchedFile), s.off}, nil
}

type goneFile struct {
	*watchedFile
	off *bool
}

func (f goneFile) ReadRanges(ctx context.Context, r []store.Range) error {
	if *f.off {
		return store.ErrCorrupt
	}
	return f.watchedFile.ReadRanges(ctx, r)
}

func (f goneFile) ReadReplica(ctx context.Context, node string, r []store.Range) error {
	if *f.off {
		return store.ErrCorrupt
	}
	return f.watchedFile.ReadReplica(ctx, node, r)
}

// TestHotOriginalFails: an original that cannot be read is an error to its reader, and no fault of its row: no damage is reported, and the row is followed afterwards.
func TestHotOriginalFails(t *testing.T) {
	h := newHeat(t, hotBlock)
	h.row.Sources.Siblings = nil
	h.write(t)
	off := true
	s := Wrap(gone{h.st, &off}, Options{Of: 1})
	buf := make([]byte, hotBlock)
	f := storetest.Open(t, s, hotName)
	wantIs(t, f.ReadRanges(t.Context(), []store.Range{{Buf: buf}}), store.ErrCorrupt, "")
	off = false
	storetest.Get(t, s, hotName)
	if got := s.Stats(); got.Fallbacks[ReasonSuspended] != 0 || got.Fallbacks[ReasonCorrupt] != 0 || got.EvenBytes != hotBlock {
		t.Errorf("%+v", got)
	}
	if found, err := ReadDamages(t.Context(), h.st.Store); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestHotChangedWhileRead: a file that is overwritten between two reads is an error of the store, as without a row; never a mixture.
func TestHotChangedWhileRead(t *testing.T) {
	h := newHeat(t, 5*hotBlock)
	h.row.Sources.Siblings = nil
	h.write(t)
	f := storetest.Open(t, Wrap(h.st, Options{Of: 1}), hotName)
	buf := make([]byte, hotBlock)
	must(t, f.ReadRanges(t.Context(), []store.Range{{Buf: buf}}))
	change(t, h.root+hotName, 2000, false)
	wantIs(t, f.ReadRanges(t.Context(), []store.Range{{Off: hotBlock, Buf: buf}}), store.ErrIdentity, hotName)
}

// TestHotAtOnce: readers of one open file at once, and its end in the middle of them.
func TestHotAtOnce(t *testing.T) {
	h := newHeat(t, 20*hotBlock)
	f, err := Wrap(h.st, Options{Of: 1}).Open(t.Context(), hotName)
	must(t, err)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			buf := make([]byte, hotBlock)
			err := f.ReadRanges(t.Context(), []store.Range{{Off: int64(i * hotBlock), Buf: buf}})
			if err == nil && !bytes.Equal(buf, h.data[i*hotBlock:(i+1)*hotBlock]) {
				t.Error("other bytes")
			}
			if i == 10 {
				f.Close()
			}
		})
	}
	group.Wait()
	if err := f.ReadRanges(t.Context(), []store.Range{{Buf: make([]byte, 1)}}); err == nil {
		t.Error("a file that is closed is read")
	}
}

// stuck is a store one of whose nodes takes a read of one replica alone and never answers.
type stuck struct {
	*watched
	node string
}

func (s stuck) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.watched.Open(ctx, name)
	if err != nil || name != hotName {
		return f, err
	}
	return stuckFile{f.(*watchedFile), s.node}, nil
}

type stuckFile struct {
	*watchedFile
	node string
}

func (f stuckFile) ReadReplica(ctx context.Context, node string, r []store.Range) error {
	if node == f.node {
		return wait(ctx)
	}
	return f.watchedFile.ReadReplica(ctx, node, r)
}

// TestHotNodeAsleep: a node that never answers is waited for a bounded time, once.
func TestHotNodeAsleep(t *testing.T) {
	h := newHeat(t, hotBlock)
	h.row.Sources.Siblings = nil
	h.write(t)
	node := h.node(t, 0)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		for i := range 3 {
			f := storetest.Open(t, Wrap(stuck{h.st, node}, Options{Index: i, Of: 3}), hotName)
			for range 3 {
				buf := make([]byte, hotBlock)
				must(t, f.ReadRanges(t.Context(), []store.Range{{Buf: buf}}))
				if !bytes.Equal(buf, h.data) {
					t.Error("other bytes")
				}
			}
		}
		if took := time.Since(start); took > patience+time.Second { // one of the three has the node
			t.Errorf("it took %v", took)
		}
	})
}

// TestNoName: looking for the copy of what is no name of a file ends.
func TestNoName(t *testing.T) {
	w := newWorld(t)
	if got := Wrap(w.home, Options{Site: w.site}).copied(t.Context(), []string{"no/name", ""}); got != nil {
		t.Errorf("%q", got)
	}
}
