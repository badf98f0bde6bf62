package execute

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// TestKilledProcessOnCluster is TestKilledProcess with the files in a real HDFS, 20 times: in the end nothing is left, and every file lies as before, with at most a block more
// on the fullest DataNode.
func TestKilledProcessOnCluster(t *testing.T) {
	testdata.Soak(t)
	const rounds = 20
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 9, StorageTypes: [][]string{{"DISK", "ARCHIVE"}}})
	cfg, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	st, _, err := hdfs.Open(c.URL()+"/", hdfs.Options{Conf: cfg, User: hdfstest.User})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	root := t.TempDir()
	if err := dir.Init(filepath.Join(root, "east"), dir.Topology{Nodes: []dir.Node{{Name: "one"}}}); err != nil {
		t.Fatal(err)
	}
	east := openFolder(t, filepath.Join(root, "east"))
	c.Chmod("/", hdfstest.User, 0o755)
	before := make(map[string]int)
	for _, m := range everyMeans {
		for n := range 3 {
			name := hotFile(m, n)
			c.Put(name, []byte(strings.Repeat("original", 4096)), 3, 16<<10)
			c.WaitReplication(name, 3)
			before[name] = fullest(c, name)
		}
	}
	for n := range 2 {
		c.Put(checkpointPath(n)+"/model.safetensors", tensors(n), 3, 0)
	}
	env := []string{homeEnv + "=" + c.URL() + "/", leaseEnv + "=15s", "HADOOP_CONF_DIR=" + c.ConfDir(), "HADOOP_USER_NAME=" + hdfstest.User}
	did := make(tally)
	for round := range rounds {
		did.run(t, root, 4+round*5%28, env...)
		siblingsAreRight(t, st)
		copiesAreRight(t, st, east)
	}
	did.run(t, root, 1<<30, append(env, restEnv+"=1")...)
	did.everything(t)
	swept(t, st)
	swept(t, east)
	for _, m := range everyMeans {
		for n := range 3 {
			name := hotFile(m, n)
			asBefore(t, st, name)
			if m == plan.Sibling {
				continue // it was overwritten
			}
			c.WaitReplication(name, 3)
			if now := fullest(c, name); now > before[name]+1 {
				t.Errorf("%s: the fullest DataNode has %d of its blocks, and had %d", name, now, before[name])
			}
		}
	}
}

// fullest is how many blocks of a file the DataNode has that has most of them.
func fullest(c *hdfstest.Cluster, name string) (most int) {
	nodes := make(map[int]int)
	for _, b := range c.Locations(name) {
		for _, n := range b.Nodes {
			nodes[n]++
			most = max(most, nodes[n])
		}
	}
	if most == 0 {
		panic(fmt.Sprint("no blocks of ", name))
	}
	return most
}
