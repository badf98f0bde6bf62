package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store/address"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// TestHDFS: an agent beside a DataNode of a real cluster, which is found by host name, by address and by UUID,
// registers under the UUID, prepares what lies on its DataNode, and reads it there.
func TestHDFS(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{})
	for _, name := range []string{"HADOOP_CONF_DIR", "HADOOP_USER_NAME"} {
		t.Setenv(name, c.Getenv(name))
	}
	place, err := address.Open(t.Context(), c.URL()+"/", address.Options{Getenv: c.Getenv})
	must(t, err)
	defer place.Close()
	w := pack8(t, place.Store, c.Dir(t)+"/photos")
	w.root, w.schedule.DatasetURL = c.URL(), c.URL()+w.dataset
	c.Mkdir("/.stepahead/agents")
	c.Chmod("/.stepahead/agents", hdfstest.User, 0o755)
	pool, err := worker.New(worker.Options{Path: w.worker, Workers: 1})
	must(t, err)
	defer pool.Close()
	w.schedule.Operators, err = pool.Golden(t.Context())
	must(t, err)

	dn := c.DataNodes()[1]
	for _, node := range []string{dn.Host, dn.Addr} { // the UUID is what other tests and the demo use
		if code, _, stderr := output("--store", c.URL()+"/", "--node", node, "--worker", "/nonexistent"); code != 3 || !strings.Contains(stderr, "/nonexistent") {
			t.Errorf("--node %s: exit %d, %s", node, code, stderr)
		}
	}
	if code, _, stderr := output("--store", c.URL()+"/", "--node", "dn9.test"); code != 3 || !strings.Contains(stderr, dn.Host) {
		t.Errorf("an unknown node: exit %d, %s", code, stderr)
	}
	cmd, words := w.start(t, dn.UUID)
	if words["node"] != dn.UUID {
		t.Errorf("the program says that it is %q, not %s", words["node"], dn.UUID)
	}
	w.announce(t, dn.UUID, words["addr"])
	w.fetch(t, words["addr"], pool)
	checkReads(t, words["metrics"])
	entry := path.Join(hints.DefaultRegistry, dn.UUID+".json")
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		info, err := place.Store.Stat(t.Context(), entry)
		if err == nil && info.Owner == hdfstest.User {
			break
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("the registry: %+v, %v", info, err)
		}
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if _, err := place.Store.Stat(t.Context(), entry); err == nil {
		t.Error("the registry entry is still there")
	}
}

// checkReads: what the agent prepared came from its own DataNode alone.
func checkReads(t *testing.T, metrics string) {
	t.Helper()
	resp, err := http.Get("http://" + metrics + "/metrics")
	must(t, err)
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	must(t, resp.Body.Close())
	var other, own float64
	for _, line := range strings.Split(string(text), "\n") {
		name, value, _ := strings.Cut(line, " ")
		switch name {
		case `stepahead_agent_store_replica_bytes_total{place="node"}`:
			must(t, json.Unmarshal([]byte(value), &own))
		case `stepahead_agent_store_replica_bytes_total{place="other"}`, `stepahead_agent_store_replica_bytes_total{place="rack"}`:
			must(t, json.Unmarshal([]byte(value), &other))
		}
	}
	if own == 0 || other != 0 {
		t.Errorf("%v bytes were read from the agent's own DataNode, %v from others", own, other)
	}
}
