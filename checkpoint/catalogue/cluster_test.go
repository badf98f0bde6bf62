package catalogue

import (
	"bytes"
	"maps"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// openCluster opens a folder of a cluster as a store.
func openCluster(t *testing.T, c *hdfstest.Cluster, root string) *hdfs.Store {
	t.Helper()
	cfg, err := conf.Load(c.Getenv)
	must(t, err)
	st, _, err := hdfs.Open(c.URL()+root, hdfs.Options{Conf: cfg, User: hdfstest.User, Root: root})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	return st
}

// TestCopyOnCluster: files of a checkpoint and others, read together: those of the copy from the copy, until it is deleted.
func TestCopyOnCluster(t *testing.T) {
	c := hdfstest.Shared(t)
	homeRoot, siteRoot := c.Dir(t), c.Dir(t)
	home, site := openCluster(t, c, homeRoot), openCluster(t, c, siteRoot)
	key := testKey("k1", 1)
	must(t, PublishKey(t.Context(), site, key))
	var files []CopyFile
	var names []string
	content := map[string][]byte{}
	for i, name := range []string{"a", "b", "c"} {
		data := hdfstest.Bytes(uint64(i), 300_000)
		c.Put(homeRoot+checkpointName+"/"+name, data, 1, 1<<20)
		c.Put(siteRoot+placeName+"/"+name, data, 1, 1<<20)
		original, err := home.Stat(t.Context(), checkpointName+"/"+name)
		must(t, err)
		here, err := site.Stat(t.Context(), placeName+"/"+name)
		must(t, err)
		files = append(files, CopyFile{Name: name, Size: original.Size, Original: original.Identity, Here: here.Identity, CRC32C: crcOf(data)})
		names, content[original.Name] = append(names, original.Name), data
	}
	c.Put(homeRoot+"/other", []byte("other"), 1, 1<<20)
	names, content["/other"] = append(names, "/other"), []byte("other")
	row := copyRow(home.Address(checkpointName), 7, files...)
	row.Copy.Place = placeName
	must(t, Write(t.Context(), site, key, row))

	s := Wrap(home, Options{Site: site})
	readMany := func() {
		t.Helper()
		s.Forget(names)
		must(t, s.Prefetch(t.Context(), names))
		var all []store.FileRanges
		for _, name := range names {
			f, err := s.Open(t.Context(), name)
			must(t, err)
			defer f.Close()
			all = append(all, store.FileRanges{File: f, Ranges: []store.Range{{Buf: make([]byte, f.Size())}}})
		}
		must(t, store.ReadMany(t.Context(), s, all))
		for i, name := range names {
			if all[i].Err != nil || !bytes.Equal(all[i].Ranges[0].Buf, content[name]) {
				t.Errorf("%s: other bytes, %v", name, all[i].Err)
			}
		}
	}
	readMany()
	if got := s.Stats(); got.CopyBytes != 900_000 || len(got.Fallbacks) != 0 {
		t.Errorf("%+v", got)
	}
	c.Delete(siteRoot + placeName)
	content[names[1]] = hdfstest.Bytes(9, 1000)
	c.Delete(homeRoot + names[1])
	c.Put(homeRoot+names[1], content[names[1]], 1, 1<<20)
	for range 2 {
		readMany()
	}
	want := map[string]int64{ReasonMissing: 1, ReasonSuspended: 5}
	if got := s.Stats(); got.CopyBytes != 900_000 || !maps.Equal(got.Fallbacks, want) {
		t.Errorf("%+v, want %v", got, want)
	}
}

// TestEvenOnCluster: on a real cluster, readers of a hot file of two blocks spread evenly over the replicas of the file and of its sibling; one whose node is gone
// goes the ordinary way; and without a catalogue a reader costs the NameNode one call.
func TestEvenOnCluster(t *testing.T) {
	const block, readers = 1 << 20, 12
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	st := openCluster(t, c, root)
	data := hdfstest.Bytes(1, 2*block)
	c.Put(root+hotName, data, 2, block)
	c.Put(root+siblingName, data, 1, block)
	c.WaitReplication(root+hotName, 2)

	calls := c.Calls(0)["GetListing"]
	none := Wrap(st, Options{Of: 1})
	for range 3 {
		storetest.Get(t, none, hotName)
	}
	if n := c.Calls(0)["GetListing"] - calls; n > 2 { // of /.stepahead, which the sibling has made, and nothing below
		t.Errorf("without a catalogue: %d listings", n)
	}

	key := testKey("k1", 1)
	must(t, PublishKey(t.Context(), st, key))
	original, err := st.Stat(t.Context(), hotName)
	must(t, err)
	sibling, err := st.Stat(t.Context(), siblingName)
	must(t, err)
	must(t, Write(t.Context(), st, key, Row{Version: Version, Placement: 1, Controller: "c1", Path: st.Address(hotName), Identity: string(original.Identity), TTL: MaxTTL, Sources: &Sources{
		Size: original.Size, Readers: readers, Siblings: []Sibling{{Name: siblingName, Identity: sibling.Identity, CRC32C: crcOf(data)}},
	}}))

	w := &watched{Store: st, bytes: map[string]int64{}}
	read := func() {
		for i := range readers {
			if got := storetest.Get(t, Wrap(w, Options{Index: i, Of: readers}), hotName); !bytes.Equal(got, data) {
				t.Fatal("other bytes")
			}
		}
	}
	read()
	h := &heat{st: w}
	nodes := map[string]map[string]bool{} // by block
	for _, name := range []string{hotName, siblingName} {
		rows, err := st.Locate(t.Context(), name, 0, original.Size)
		must(t, err)
		for _, r := range rows {
			at := string(rune('0' + r.Off/block))
			if nodes[at] == nil {
				nodes[at] = map[string]bool{}
			}
			nodes[at][r.Node] = true
		}
	}
	want := map[string]int64{}
	for _, holders := range nodes {
		for node := range holders {
			want[node] += int64(readers / len(holders)) // 2 or 3 of them: no rest
		}
	}
	got := h.perNode()
	for node, n := range want {
		if got[node] != n*block {
			t.Errorf("%s served %d bytes, want %d reads of a block", node, got[node], n)
		}
	}
	if got[""] != 0 {
		t.Errorf("%d bytes were read as the store chose", got[""])
	}

	dead := c.Locations(root + hotName)[0].Nodes[0]
	c.Kill(dead)
	defer c.Restart(dead, true)
	read()
	if h.perNode()[""] == 0 {
		t.Error("nobody noticed that a node is gone")
	}
}
