package execute

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// TestKilledProcessOnCluster is TestKilledProcess with the files in a real HDFS, 20 times: in the end nothing is left, and every file lies as before, with at most a block more
// on the fullest DataNode.
func TestKilledProcessOnCluster(t *testing.T) {
	testdata.Soak(t)
	const rounds = 20
	c, st, root := startCluster(t)
	east := openFolder(t, filepath.Join(root, "east"))
	before := make(map[string]int)
	for _, m := range everyMeans {
		for n := range 3 {
			name := hotFile(m, n)
			c.Put(name, []byte(strings.Repeat("original", 4096)), 3, 16<<10)
			c.WaitReplication(name, 3)
			before[name] = fullest(c, name)
		}
	}
	env := append(clusterEnv(c), leaseEnv+"=15s")
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

// startCluster starts a cluster with checkpoints, and a folder with a site.
func startCluster(t *testing.T) (c *hdfstest.Cluster, st *hdfs.Store, root string) {
	t.Helper()
	c = hdfstest.Start(t, hdfstest.Options{DataNodes: 9, StorageTypes: [][]string{{"DISK", "ARCHIVE"}}})
	cfg, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	st, _, err = hdfs.Open(c.URL()+"/", hdfs.Options{Conf: cfg, User: hdfstest.User})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	root = t.TempDir()
	if err := dir.Init(filepath.Join(root, "east"), dir.Topology{Nodes: []dir.Node{{Name: "one"}}}); err != nil {
		t.Fatal(err)
	}
	c.Chmod("/", hdfstest.User, 0o755)
	for n := range 2 {
		c.Put(checkpointPath(n)+"/model.safetensors", tensors(n), 3, 0)
	}
	return c, st, root
}

func clusterEnv(c *hdfstest.Cluster) []string {
	return []string{homeEnv + "=" + c.URL() + "/", "HADOOP_CONF_DIR=" + c.ConfDir(), "HADOOP_USER_NAME=" + hdfstest.User}
}

// TestStoppedControllerOnCluster stops a controller in the midst of its work (SIGSTOP). Another, with a journal of its own, takes the lease when HDFS takes the first for
// dead, and undoes everything. The first then goes on: it ends, and nothing of it is left.
func TestStoppedControllerOnCluster(t *testing.T) {
	testdata.Soak(t)
	c, st, root := startCluster(t)
	for _, m := range everyMeans {
		for n := range 3 {
			c.Put(hotFile(m, n), []byte(strings.Repeat("original", 4096)), 3, 16<<10)
			c.WaitReplication(hotFile(m, n), 3)
		}
	}
	env := append(clusterEnv(c), leaseEnv+"=30s")
	first, firstSays := startChild(t, root, append(env, secondEnv+"=first")...)
	for n := 0; n < 25 && firstSays.Scan(); n++ {
	}
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	second, secondSays := startChild(t, root, append(env, secondEnv+"=second", restEnv+"=1")...)
	swept := 0
	for secondSays.Scan() && secondSays.Text() != "empty" {
		swept++
	}
	if swept == 0 {
		t.Error("the second found nothing of the first")
	}
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for firstSays.Scan() {
	}
	_ = first.Wait() // with an error: it has lost the lease
	if text := first.Stderr.(*bytes.Buffer).String(); !strings.Contains(text, store.ErrNotHeld.Error()) {
		t.Errorf("the first ended with %s", text)
	}
	w := Stores{Stores: folders{"": st, "east": openFolder(t, filepath.Join(root, "east"))}, Sites: func() []string { return []string{"east"} }}
	limit := time.After(2 * time.Minute)
	for len(w.Survey(t.Context()).Leavings) > 0 {
		select {
		case <-limit:
			t.Fatalf("there is %+v", w.Survey(t.Context()).Leavings)
		case <-time.After(100 * time.Millisecond):
		}
	}
	for _, m := range everyMeans {
		for n := range 3 {
			asBefore(t, st, hotFile(m, n))
		}
	}
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for secondSays.Scan() {
	}
	_ = second.Wait() // killed
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
