package hdfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// What Locate says is what the NameNode knows.
func TestRealLocate(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	c.Put(root+"/f", hdfstest.Bytes(3, 3*blockSize), 2, blockSize)
	c.WaitReplication(root+"/f", 2)
	nodes := c.DataNodes()
	s := open(t, c, root, hdfs.Options{Node: nodes[1].UUID})
	rows, err := s.Locate(t.Context(), "/f", 0, 3*blockSize)
	if err != nil {
		t.Fatal(err)
	}
	blocks := store.BlocksOf(rows)
	for i, b := range c.Locations(root + "/f") {
		want := map[string]bool{}
		for _, n := range b.Nodes {
			want[nodes[n].UUID] = true
		}
		for _, uuid := range blocks[i].Nodes {
			if !want[uuid] {
				t.Errorf("block %d: %s is not among %v", i, uuid, want)
			}
		}
		if len(blocks[i].Nodes) != 2 || blocks[i].Off != b.Offset || want[nodes[1].UUID] && blocks[i].Nodes[0] != nodes[1].UUID {
			t.Errorf("block %d: %+v, want %v, the reader's node first", i, blocks[i], want)
		}
	}
	for _, r := range rows {
		for _, n := range nodes {
			if r.Node == n.UUID && (r.Rack != n.Rack || r.Addr != n.Addr || r.Storage != "DISK") {
				t.Errorf("%+v, want %+v", r, n)
			}
		}
	}
}

// Every replica is read from the node that was asked for.
func TestRealReplicas(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	data := hdfstest.Bytes(10, blockSize)
	c.Put(root+"/f", data, 3, blockSize)
	s := open(t, c, root, hdfs.Options{})
	f := storetest.Open(t, s, "/f").(store.ReplicaReader)
	for i, n := range c.DataNodes() {
		buf := make([]byte, 1000)
		if err := f.ReadReplica(t.Context(), n.UUID, []store.Range{{Off: int64(i), Buf: buf}}); err != nil || !bytes.Equal(buf, data[i:i+1000]) {
			t.Errorf("node %d: %v", i, err)
		}
	}
}

func TestRealPrefetch(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	data := hdfstest.Bytes(11, 3000)
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("/f%02d", i))
		c.Put(root+names[i], data[i:], 3, blockSize)
	}
	s := open(t, c, root, hdfs.Options{})
	if err := s.Prefetch(t.Context(), names); err != nil {
		t.Fatal(err)
	}
	var files []store.FileRanges
	for _, name := range names {
		f := storetest.Open(t, s, name)
		files = append(files, store.FileRanges{File: f, Ranges: []store.Range{{Buf: make([]byte, f.Size())}}})
	}
	if err := s.ReadMany(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if f.Err != nil || !bytes.Equal(f.Ranges[0].Buf, data[i:]) {
			t.Errorf("file %d: %v", i, f.Err)
		}
	}
	if calls := s.ReadStats().Calls; calls["getListing"] != 1 || len(calls) != 2 {
		t.Errorf("the NameNode was asked %v, want one listing, and the defaults for how to connect", calls)
	}
}

func TestRealFindNode(t *testing.T) {
	c := hdfstest.Shared(t)
	s := open(t, c, c.Dir(t), hdfs.Options{})
	for _, n := range c.DataNodes() {
		for _, text := range []string{n.UUID, n.Host, n.Addr} {
			if r, err := s.FindNode(t.Context(), text); err != nil || r.Node != n.UUID || r.Rack != n.Rack || r.Addr != n.Addr {
				t.Errorf("%s: %+v, %v, want %+v", text, r, err, n)
			}
		}
	}
	for text, word := range map[string]string{"127.0.0.1": "several", "nobody": "none of the 3"} {
		if _, err := s.FindNode(t.Context(), text); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
