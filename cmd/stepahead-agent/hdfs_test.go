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

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store/address"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// TestHDFS: an agent beside a DataNode of a real cluster, which is found by host name, by address and by UUID,
// registers under the UUID, prepares what lies on its DataNode, and reads it there. It serves what the users of tokens
// may read, as the NameNode says.
func TestHDFS(t *testing.T) {
	// The agent may read everything, and act as others.
	c := hdfstest.Start(t, hdfstest.Options{Site: map[string]string{"hadoop.user.group.static.mapping.overrides": "dr.who=;" + hdfstest.Agent + "=supergroup"}})
	for _, name := range []string{"HADOOP_CONF_DIR", "HADOOP_USER_NAME"} {
		t.Setenv(name, c.Getenv(name))
	}
	place, err := address.Open(t.Context(), c.URL()+"/", address.Options{Getenv: c.Getenv})
	must(t, err)
	defer place.Close()
	w := pack8(t, place.Store, c.Dir(t)+"/photos")
	w.root, w.schedule.DatasetURL = c.URL(), c.URL()+w.dataset
	c.Mkdir("/.stepahead/agents")
	c.Chmod("/.stepahead/agents", hdfstest.Agent, 0o755)
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
	t.Setenv("HADOOP_USER_NAME", hdfstest.Agent)
	cmd, words := w.start(t, dn.UUID, "--load", "25%") // whatever else runs on this machine
	if words["node"] != dn.UUID {
		t.Errorf("the program says that it is %q, not %s", words["node"], dn.UUID)
	}
	w.announce(t, dn.UUID, words["addr"])
	w.fetch(t, words["addr"], pool)
	checkReads(t, words["metrics"])
	c.Chmod(w.dataset, hdfstest.User, 0o700)
	w.users(t, hints.Agent{Node: dn.UUID, Addr: words["addr"]})
	t.Setenv("HADOOP_USER_NAME", hdfstest.Intruder)
	_, others := w.start(t, c.DataNodes()[2].UUID, "--load", "25%")
	if r := w.ask(t, hints.Agent{Node: others["node"], Addr: others["addr"]}, hdfstest.User); r.Reason != hints.ReasonDenied || !strings.Contains(r.Detail, "hadoop.proxyuser.intruder.users") {
		t.Errorf("an agent that may act as nobody: %+v", r)
	}
	entry := path.Join(hints.DefaultRegistry, dn.UUID+".json")
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		info, err := place.Store.Stat(t.Context(), entry)
		if err == nil && info.Owner == hdfstest.Agent {
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

// users: of a dataset that only its owner may read, the agent serves him alone, whoever holds a token.
func (w world) users(t *testing.T, a hints.Agent) {
	t.Helper()
	if r := w.ask(t, a, hdfstest.User); !r.Accepted {
		t.Errorf("the owner is refused: %+v", r)
	}
	if r := w.ask(t, a, hdfstest.Intruder); r.Accepted || r.Reason != hints.ReasonDenied || !strings.Contains(r.Detail, "user="+hdfstest.Intruder) {
		t.Errorf("the intruder: %+v", r)
	}
	for _, name := range []string{w.dataset, w.dataset + "/step-1"} { // one that is there, and one that will be
		if r := w.foretell(t, a, hdfstest.User, name); !r.Accepted {
			t.Errorf("the owner foretells a checkpoint %s: %+v", name, r)
		}
		if r := w.foretell(t, a, hdfstest.Intruder, name); r.Reason != hints.ReasonDenied || !strings.Contains(r.Detail, "user="+hdfstest.Intruder) {
			t.Errorf("the intruder foretells a checkpoint %s: %+v", name, r)
		}
	}
	client := fetch.NewClient(fetch.ClientOptions{Token: w.mint(t, "job-"+hdfstest.User, hdfstest.Intruder)})
	defer client.Close()
	req := &fetch.Request{
		Job: "job-" + hdfstest.User, Run: "1", Generation: 1, Dataset: w.schedule.Dataset, Deadline: time.Second,
		PlanDigests: map[string][32]byte{"image": w.plan.Digest()},
	}
	for _, ref := range w.order.Step(0, nil) {
		req.Wants = append(req.Wants, fetch.Want{Sample: ref.Sample, Epoch: ref.Epoch, Field: "image"})
	}
	for i, got := range w.answers(t, client, a.Addr, req) {
		if got.Reason != fetch.ReasonDenied || got.Raw != nil || got.Prepared != nil {
			t.Errorf("the intruder fetches want %d: %q, %d raw bytes", i, got.Reason, len(got.Raw))
		}
	}
}

// ask announces a job of a user and returns the agent's reply.
func (w world) ask(t *testing.T, a hints.Agent, user string) hints.Reply {
	t.Helper()
	w.schedule.Agents = []hints.Agent{a}
	client := hints.NewClient(hints.ClientOptions{Token: w.mint(t, "job-"+user, user)})
	defer client.Close()
	reply, err := client.Announce(t.Context(), a.Addr, hints.Hint{
		ID: hints.NewID(), Job: "job-" + user, Run: "1", TTL: time.Hour, Confidence: 1, Identity: w.schedule.Dataset, Schedule: &w.schedule,
	})
	must(t, err)
	return reply
}

// foretell says for a user that a checkpoint is committed, and returns the agent's reply.
func (w world) foretell(t *testing.T, a hints.Agent, user, name string) hints.Reply {
	t.Helper()
	client := hints.NewClient(hints.ClientOptions{Token: w.mint(t, "job-"+user, user)})
	defer client.Close()
	reply, err := client.Announce(t.Context(), a.Addr, hints.Hint{
		ID: hints.NewID(), Job: "job-" + user, Run: "1", TTL: time.Hour, Confidence: 1,
		Checkpoint: &hints.Checkpoint{State: hints.Committed, Path: w.root + name, Step: -1},
	})
	must(t, err)
	return reply
}

// mint makes a token of a user.
func (w world) mint(t *testing.T, job, user string) string {
	t.Helper()
	ring, err := auth.LoadKeyring(w.key)
	must(t, err)
	key, _ := ring.First()
	token, err := auth.Mint(key, auth.Claims{Job: job, User: user, Roots: []string{"/"}, Rights: []string{"fetch", "hint"}, Expires: time.Now().Add(time.Hour)})
	must(t, err)
	return token
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
