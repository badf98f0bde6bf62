package intake

import (
	"testing"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// TestOnCluster: what a real cluster says of files and of its nodes, to a user who is nobody special.
func TestOnCluster(t *testing.T) {
	const nodes, block = 4, 1 << 20
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: nodes, StorageTypes: [][]string{{"DISK", "ARCHIVE"}}})
	data := hdfstest.Bytes(1, block+1)
	root := c.Dir(t)
	for _, dir := range []string{"/cold", "/striped"} {
		c.Mkdir(root + dir)
	}
	c.ErasureCode(root+"/striped", "XOR-2-1-1024k")
	cfg, err := conf.Load(c.Getenv)
	must(t, err)
	s, _, err := hdfs.Open(c.URL()+root, hdfs.Options{Conf: cfg, User: "somebody", Root: root})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	mine, _, err := hdfs.Open(c.URL()+root, hdfs.Options{Conf: cfg, User: hdfstest.User, Root: root})
	must(t, err)
	t.Cleanup(func() { must(t, mine.Close()) })
	must(t, mine.SetStoragePolicy(t.Context(), "/cold", "COLD"))
	c.Put(root+"/plain", data, 3, block)
	c.Put(root+"/cold/f", data, 1, block)
	c.Put(root+"/striped/f", data, 1, block)
	c.PutOpen(root+"/open", data, 2, block)
	for _, name := range []string{"/plain", "/cold/f"} {
		c.WaitReplication(root+name, map[string]int{"/plain": 3, "/cold/f": 1}[name])
	}
	f, k, _ := facts(t, s, nil, func(o *FactsOptions) { o.ReadOnly, o.Cluster.Load = true, 0.25 })
	want := []plan.File{
		{Path: "/plain", Size: block + 1, Blocks: 2, Replicas: 3},
		{Path: "/cold/f", Size: block + 1, Blocks: 2, Replicas: 1, OwnPolicy: true},
		{Path: "/striped/f", Size: block + 1, ErasureCoded: true},
		{Path: "/open", Size: block + 1, Open: true},
		{Path: "/missing"},
		{Path: "/cold"},
	}
	var paths []string
	for _, w := range want {
		paths = append(paths, w.Path)
	}
	for i, got := range f.o.Looker.Look(t.Context(), paths) {
		w := want[i]
		if (got.Identity != "") != (w.Size > 0) {
			t.Errorf("%+v", got)
		}
		w.Identity = got.Identity
		if w.Blocks == 0 { // of striped and open files it is no matter
			w.Blocks, w.Replicas = got.Blocks, got.Replicas
		}
		if got != w {
			t.Errorf("%+v\nwant %+v", got, w)
		}
	}
	must(t, turnOnce(t.Context(), f))
	events := k.take()
	if len(events) == 0 {
		t.Fatal("nothing is told of the cluster")
	}
	is := events[0].(plan.ClusterChanged).Cluster
	if is.Nodes != nodes || is.Free <= 0 || is.Load < 0 || is.Load > 1 || is.NodeRate != 100e6 {
		t.Errorf("%+v", is)
	}
	t.Logf("%+v", is)
}
