package agent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/transform"
)

// wantAnswers compares counts of answers.
func wantAnswers(t *testing.T, answers map[uint64]fetch.Answer, expected string) {
	t.Helper()
	if got := fmt.Sprint(reasons(answers)); got != expected {
		t.Errorf("answers %s, want %s", got, expected)
	}
}

// TestPreparesAhead: three agents prepare every sample of a job exactly once, before it is asked for,
// and free it when the job has passed it.
func TestPreparesAhead(t *testing.T) {
	c := newCluster(t)
	var agents []*liveAgent
	for _, node := range []string{"dn1", "dn2", "dn3"} {
		agents = append(agents, c.start(node, nil))
	}
	tr := c.trainer("job", "1", "")
	tr.taken(0)
	total := func(metric string, labels ...string) (sum float64) {
		for _, a := range agents {
			sum += a.metric(t, metric, labels...)
		}
		return sum
	}
	const steps = 10 // more than an epoch of 6
	for n := range int64(steps) {
		tr.announce(tr.hint(hints.Hint{Progress: &hints.Progress{Step: n}})) // an agent may own nothing of a step
		eventually(t, fmt.Sprintf("the window of step %d is ready", n), func() bool {
			return total("preparations_total", "result", "prepared") >= float64((n+16)*clusterBatch)
		})
		answers := tr.step(n, time.Second)
		wantAnswers(t, answers, fmt.Sprintf("map[prepared:%d]", clusterBatch))
		for s, a := range answers {
			if a.LeadTime == 0 || a.Node != tr.owner(s).Name || a.PrepareCPU != time.Millisecond {
				t.Errorf("step %d, sample %d: %+v", n, s, a)
			}
		}
	}
	seen := map[uint64]int{}
	for n := range int64(steps) {
		for _, ref := range c.sampler.Step(n, nil) {
			seen[ref.Sample]++
		}
	}
	for s := range seen {
		runs := 0
		for _, a := range agents {
			runs += a.pool.count(s)
		}
		if owner := tr.owner(s); runs < seen[s] || runs > 5 {
			t.Errorf("sample %d of %s: %d preparations, %d uses", s, owner.Name, runs, seen[s])
		}
	}
	code, page := agents[0].get("/jobs")
	var jobs []jobStatus
	must(t, json.Unmarshal([]byte(page), &jobs))
	if code != 200 || len(jobs) != 1 || jobs[0].Ledger.Hits == 0 || jobs[0].Ledger.Late != 0 || jobs[0].Dataset != datasetDir {
		t.Errorf("/jobs: %d %s", code, page)
	}
	_, page = agents[0].get("/entries")
	var entries []record
	must(t, json.Unmarshal([]byte(page), &entries))
	if e := entries[0]; e.Result != "prepared" || e.CRC == "" || e.Length == 0 || e.Bytes != 192 || e.CPUMicros != 1000 || e.PeakRSS != 1<<20 {
		t.Errorf("/entries: %+v", e)
	}
	if r := tr.announce(tr.hint(hints.Hint{Close: &hints.Close{}})); !r.Accepted {
		t.Errorf("close: %+v", r)
	}
	eventually(t, "the shelves are empty", func() bool { return total("shelf_bytes") == 0 && total("jobs_count") == 0 })
	if used, made := total("unused_bytes_total"), total("prepared_bytes_total"); used+steps*clusterBatch*192 != made {
		t.Errorf("unused %v + used %d of %v bytes made", used, steps*clusterBatch*192, made)
	}
}

// TestOnePreparationServesAllReaders: ranks that share a sample get the same tensor.
func TestOnePreparationServesAllReaders(t *testing.T) {
	c := newCluster(t)
	gate := make(chan struct{})
	a := c.start("dn1", oneEpoch)
	a.pool.act = func(ctx context.Context, _ uint64) error {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	first := c.trainer("job", "1", "")
	first.taken(0)
	refs := c.sampler.Step(0, nil)
	var mine uint64
	for i, ref := range refs {
		if part, err := c.data.Part(t.Context(), ref.Sample, "image"); err == nil && holds(t, c, part.Bin, part.Off, "dn1") {
			refs, mine = refs[i:i+1], ref.Sample
			break
		}
	}
	readers := []*trainer{first, c.trainer("job", "1", ""), c.trainer("job", "1", "")}
	var group sync.WaitGroup
	for _, tr := range readers {
		group.Go(func() {
			answers, err := tr.ask(a.addr, tr.request(0, 10*time.Second, refs[0]))
			if err != nil || answers[mine].Prepared == nil {
				t.Errorf("reader: %v %v", reasons(answers), err)
			}
		})
	}
	eventually(t, "it runs", func() bool { return a.pool.count(mine) == 1 })
	close(gate)
	group.Wait()
	if n := a.pool.count(mine); n != 1 {
		t.Errorf("%d preparations for %d readers", n, len(readers))
	}
}

// oneEpoch makes the window smaller than an epoch, so that it has every sample once.
func oneEpoch(o *Options) { o.Window = 4 }

func holds(t *testing.T, c *cluster, bin int, off int64, node string) bool {
	rows, err := c.store.Locate(t.Context(), datasetDir+"/"+c.manifest.Bins[bin].DataName(), off, 1)
	must(t, err)
	for _, row := range rows {
		if row.Node == node {
			return true
		}
	}
	return false
}

// allOn starts one agent that holds everything: the agent list names it alone, so it owns what it holds.
func allOn(t *testing.T, change func(*Options)) (*cluster, *liveAgent, *trainer) {
	t.Helper()
	c := newCluster(t)
	a := c.start("dn1", change)
	return c, a, c.trainer("job", "1", "")
}

// fetchOwned fetches what dn1 holds of a step.
func fetchOwned(t *testing.T, tr *trainer, addr string, n int64, deadline time.Duration) map[uint64]fetch.Answer {
	t.Helper()
	req := tr.request(n, deadline)
	for _, ref := range tr.sampler.Step(n, nil) {
		part, err := tr.data.Part(t.Context(), ref.Sample, "image")
		must(t, err)
		if holds(t, tr.cluster, part.Bin, part.Off, "dn1") {
			req.Wants = append(req.Wants, fetch.Want{Sample: ref.Sample, Epoch: ref.Epoch, Field: "image"})
		}
	}
	if len(req.Wants) == 0 {
		t.Fatalf("dn1 holds nothing of step %d", n)
	}
	answers, err := tr.ask(addr, req)
	must(t, err)
	return answers
}

// only wants all answers to have one reason.
func only(t *testing.T, answers map[uint64]fetch.Answer, expected string) {
	t.Helper()
	wantAnswers(t, answers, fmt.Sprintf("map[%s:%d]", expected, len(answers)))
}

// TestRefusesIdentity: another dataset under the same path is refused when it is announced, and in every
// fetch; the reader gets no bytes.
func TestRefusesIdentity(t *testing.T) {
	_, a, tr := allOn(t, nil)
	tr.change = func(s *hints.Schedule) { s.Dataset[0] ^= 1 }
	if r := tr.announce(tr.schedule(0)); r.Accepted || r.Reason != hints.ReasonIdentity {
		t.Errorf("schedule of another version: %+v", r)
	}
	only(t, fetchOwned(t, tr, a.addr, 0, 0), "none unknown-job")
	tr.change = nil
	tr.taken(0)
	req := tr.request(0, time.Second, tr.sampler.Step(0, nil)...)
	req.Dataset[0] ^= 1
	answers, err := tr.ask(a.addr, req)
	must(t, err)
	only(t, answers, "none identity")
	tr.change = func(s *hints.Schedule) { s.Spec = []byte(strings.Replace(string(s.Spec), "48", "47", 1)) }
	if r := tr.announce(tr.schedule(0)); r.Reason != hints.ReasonIdentity {
		t.Errorf("an order over another number of samples: %+v", r)
	}
	tr.change = func(s *hints.Schedule) { s.DatasetURL = "/nothing" }
	if r := tr.announce(tr.schedule(0)); r.Reason != hints.ReasonIdentity {
		t.Errorf("no dataset there: %+v", r)
	}
}

// TestRefusesTokens: who may not read the dataset gets none of it, and leaves a line in the audit log.
func TestRefusesTokens(t *testing.T) {
	c := newCluster(t)
	key, err := auth.NewKey("k1", []byte(strings.Repeat("s", 32)))
	must(t, err)
	ring, err := auth.NewKeyring(key)
	must(t, err)
	lines, log := observer.New(zap.WarnLevel)
	a := c.start("dn1", func(o *Options) { o.Keys, o.Log = ring, zap.New(lines) })
	mint := func(job string, change func(*auth.Claims)) *trainer {
		claims := auth.Claims{Job: job, User: "ann", Roots: []string{datasetDir}, Rights: []string{"fetch", "hint"}, Expires: time.Now().Add(time.Hour)}
		change(&claims)
		token, err := auth.Mint(key, claims)
		must(t, err)
		return c.trainer("job", "1", token)
	}
	good := mint("job", func(*auth.Claims) {})
	good.taken(0)
	if n := reasons(fetchOwned(t, good, a.addr, 0, 10*time.Second))["prepared"]; n == 0 {
		t.Error("the good token got no tensor")
	}

	elsewhere := mint("job", func(c *auth.Claims) { c.Roots = []string{"/other"} })
	if r := elsewhere.announce(elsewhere.schedule(0)); r.Reason != hints.ReasonDenied {
		t.Errorf("schedule with a token for another root: %+v", r)
	}
	only(t, fetchOwned(t, elsewhere, a.addr, 0, 0), "none denied")
	if lines := log.FilterField(zap.Bool("audit", true)).All(); len(lines) != 2 || lines[0].ContextMap()["user"] != "ann" {
		t.Errorf("audit lines: %v", lines)
	}
}

// TestOldRuns: a new run takes the job over, and hints and fetches of the old one are refused, whenever
// they arrive.
func TestOldRuns(t *testing.T) {
	c, a, old := allOn(t, nil)
	old.taken(0)
	late := old.schedule(3)
	renewed := c.trainer("job", "2", "")
	renewed.taken(0)
	if r := old.announce(late); r.Accepted || r.Reason != hints.ReasonOldRun {
		t.Errorf("schedule of the old run: %+v", r)
	}
	if r := old.announce(old.hint(hints.Hint{Progress: &hints.Progress{Step: 9}})); r.Reason != hints.ReasonOldRun {
		t.Errorf("progress of the old run: %+v", r)
	}
	if r := old.announce(old.hint(hints.Hint{Close: &hints.Close{}})); r.Reason != hints.ReasonOldRun {
		t.Errorf("close of the old run: %+v", r)
	}
	only(t, fetchOwned(t, old, a.addr, 0, 0), "none unknown-job")
	only(t, fetchOwned(t, renewed, a.addr, 0, 10*time.Second), "prepared")
	same := renewed.schedule(0)
	for range 3 { // repeated: by id
		if r := renewed.announce(same); !r.Accepted {
			t.Errorf("repeated schedule: %+v", r)
		}
	}
	only(t, fetchOwned(t, renewed, a.addr, 1, 10*time.Second), "prepared")
}

// TestUnknownPlan: operators whose golden digests differ are raw only, and so are plans that the
// schedule did not announce.
func TestUnknownPlan(t *testing.T) {
	_, a, tr := allOn(t, nil)
	tr.change = func(s *hints.Schedule) { s.Operators = map[string]string{} }
	r := tr.announce(tr.schedule(0))
	if !r.Accepted || !strings.Contains(r.Detail, "raw only") {
		t.Errorf("schedule with other operators: %+v", r)
	}
	only(t, fetchOwned(t, tr, a.addr, 0, 10*time.Second), "raw unknown-plan")
	if n := len(a.pool.runs); n != 0 {
		t.Errorf("%d preparations with unknown operators", n)
	}
	tr.change = nil
	tr.taken(0)
	req := tr.request(0, time.Second, tr.sampler.Step(0, nil)...)
	req.PlanDigests["image"] = [32]byte{1}
	answers, err := tr.ask(a.addr, req)
	must(t, err)
	only(t, answers, "raw unknown-plan")
	tr.change = func(s *hints.Schedule) {
		s.Fields[0].Plan = append([]byte(" "), s.Fields[0].Plan...)
		s.Fields[0].Digest = sha256.Sum256(s.Fields[0].Plan)
	}
	if r := tr.announce(tr.schedule(0)); r.Reason != hints.ReasonUnknownPlan {
		t.Errorf("a plan that is not in its canonical form: %+v", r)
	}
	tr.change = func(s *hints.Schedule) { s.Fields[0].Field = "label" }
	if r := tr.announce(tr.schedule(0)); r.Reason != hints.ReasonUnknownPlan {
		t.Errorf("a plan for a scalar field: %+v", r)
	}
}

// TestADecoderThatDiffersConcernsItsFormatOnly: another WebP decoder does not keep JPEG from being prepared, whatever
// the index says of a part; and another JPEG decoder keeps only JPEG from it.
func TestADecoderThatDiffersConcernsItsFormatOnly(t *testing.T) {
	change := func(id string) func(s *hints.Schedule) {
		return func(s *hints.Schedule) { s.Operators[id] = strings.Repeat("00", sha256.Size) }
	}
	_, a, tr := allOn(t, nil)
	tr.change = change("webp/libwebp@1")
	if r := tr.announce(tr.schedule(0)); !r.Accepted || !strings.Contains(r.Detail, `samples of field "image" that need ["webp/libwebp@1"]`) {
		t.Errorf("schedule with another WebP decoder: %+v", r)
	}
	only(t, fetchOwned(t, tr, a.addr, 0, 10*time.Second), "prepared")

	_, a, tr = allOn(t, nil)
	tr.change = change("jpeg/islow-fancy@1")
	tr.announce(tr.schedule(0))
	only(t, fetchOwned(t, tr, a.addr, 0, 10*time.Second), "raw unknown-plan")
	if n := len(a.pool.runs); n != 0 {
		t.Errorf("%d preparations by another JPEG decoder", n)
	}

	_, a, tr = allOn(t, nil)
	tr.change = change("geometry/torchvision@1")
	if r := tr.announce(tr.schedule(0)); !strings.Contains(r.Detail, `raw only: ["geometry/torchvision@1"] of its operators`) {
		t.Errorf("schedule with another geometry: %+v", r)
	}
	only(t, fetchOwned(t, tr, a.addr, 0, 10*time.Second), "raw unknown-plan")
}

// TestFailuresAreRaw: what cannot be made is answered raw with the reason, and one bad sample leaves
// the others unchanged.
func TestFailuresAreRaw(t *testing.T) {
	for name, row := range map[string]struct {
		err    func(ctx context.Context) error
		reason string
		runs   int
	}{
		"content":  {func(context.Context) error { return &transform.Error{Kind: transform.KindDecode} }, "raw poison", 1},
		"deadline": {func(context.Context) error { return &transform.Error{Kind: transform.KindDeadline} }, "raw poison", 1},
		"crash":    {func(context.Context) error { return &transform.Error{Kind: transform.KindCrash} }, "raw poison", 2},
		"io":       {func(context.Context) error { return &transform.Error{Kind: transform.KindIO} }, "raw not-ready", 2},
		"unknown":  {func(context.Context) error { return errFake }, "raw not-ready", 2},
		"panic":    {func(context.Context) error { panic("as told") }, "raw not-ready", 2},
	} {
		t.Run(name, func(t *testing.T) {
			c, a, tr := allOn(t, func(o *Options) { o.Log, o.Window = zap.NewNop(), 4 })
			tr.taken(0)
			var bad uint64
			for s := range fetchOwned(t, tr, a.addr, 0, 10*time.Second) {
				bad = s // any sample that this agent owns
			}
			closed := c.trainer("job", "1", "")
			closed.announce(closed.hint(hints.Hint{Close: &hints.Close{}}))
			a.pool.mu.Lock()
			a.pool.runs = nil
			a.pool.act = func(ctx context.Context, s uint64) error {
				if s == bad {
					return row.err(ctx)
				}
				return nil
			}
			a.pool.mu.Unlock()
			again := c.trainer("again", "1", "")
			again.taken(0)
			answers := fetchOwned(t, again, a.addr, 0, 10*time.Second)
			for s, answer := range answers {
				got := reasons(map[uint64]fetch.Answer{s: answer})
				if s == bad && got[row.reason] != 1 || s != bad && got["prepared"] != 1 {
					t.Errorf("sample %d (bad %v): %v", s, s == bad, got)
				}
			}
			if n := a.pool.count(bad); n != row.runs {
				t.Errorf("%d tries, want %d", n, row.runs)
			}
		})
	}
}

// TestDeadline: a fetch waits for a preparation until its deadline and not longer, and gets raw bytes.
func TestDeadline(t *testing.T) {
	_, a, tr := allOn(t, nil)
	a.pool.act = func(ctx context.Context, _ uint64) error {
		<-ctx.Done()
		return ctx.Err()
	}
	tr.taken(0)
	began := time.Now()
	only(t, fetchOwned(t, tr, a.addr, 0, 200*time.Millisecond), "raw not-ready")
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("answered after %v", took)
	}
	if r := tr.announce(tr.hint(hints.Hint{Progress: &hints.Progress{Step: 3}})); !r.Accepted {
		t.Errorf("progress: %+v", r)
	}
	req := tr.request(0, time.Second, tr.sampler.Step(0, nil)...)
	req.Progress = 3
	answers, err := tr.ask(a.addr, req)
	must(t, err)
	only(t, answers, "raw expired")
}

// TestLoadedNode: a node that others need prepares nothing and serves raw bytes.
func TestLoadedNode(t *testing.T) {
	_, a, tr := allOn(t, func(o *Options) { o.Load = Steady(0.9) })
	tr.taken(0)
	answers := map[uint64]fetch.Answer{}
	eventually(t, "the gate's reason", func() bool {
		answers = fetchOwned(t, tr, a.addr, 0, 5*time.Second)
		return reasons(answers)["raw cpu"] == len(answers)
	})
	if len(a.pool.runs) != 0 || a.metric(t, "gate_open_state") != 0 || a.metric(t, "load_ratio", "signal", "cpu") != 0.9 {
		t.Error("work was started on a loaded node, or the metrics are wrong")
	}
}

// TestDamagedParts: a part with wrong bytes is never served, neither prepared nor raw.
func TestDamagedParts(t *testing.T) {
	c, a, tr := allOn(t, nil)
	for _, b := range c.manifest.Bins {
		file := filepath.Join(c.root, datasetDir, b.DataName())
		data, err := os.ReadFile(file)
		must(t, err)
		for i := 64; i < len(data); i++ {
			data[i] ^= 0x55
		}
		must(t, os.WriteFile(file, data, 0o644))
	}
	tr.taken(0)
	only(t, fetchOwned(t, tr, a.addr, 0, 10*time.Second), "none identity")
	if len(a.pool.runs) != 0 {
		t.Error("damaged bytes reached a worker")
	}
}

// TestStop: an agent that stops ends the fetches that wait, withdraws its entry and leaves nothing
// behind; readers learn at once that it is gone.
func TestStop(t *testing.T) {
	c, a, tr := allOn(t, nil)
	a.pool.act = func(ctx context.Context, _ uint64) error {
		<-ctx.Done()
		return ctx.Err()
	}
	entry := filepath.Join(c.root, ".stepahead/agents/dn1.json")
	eventually(t, "the registry entry", func() bool { _, err := os.Stat(entry); return err == nil })
	if code, page := a.get("/healthz"); code != 200 {
		t.Errorf("/healthz: %d %s", code, page)
	}
	tr.taken(0)
	failed := make(chan error, 1)
	var group sync.WaitGroup
	group.Go(func() {
		_, err := tr.ask(a.addr, tr.request(0, time.Hour, tr.sampler.Step(0, nil)...))
		failed <- err
	})
	eventually(t, "a preparation runs", func() bool { return a.metric(t, "running_count") > 0 })
	a.stop(t)
	group.Wait()
	if err := <-failed; fetch.ReasonOf(err) != fetch.ReasonUnreachable {
		t.Errorf("the waiting fetch ended with %v", err)
	}
	if _, err := os.Stat(entry); err == nil {
		t.Error("the registry entry is still there")
	}
	if err := a.Run(t.Context(), nopListener{}); err == nil {
		t.Error("a second Run succeeded")
	}
}

// TestVanishingReaders: clients that connect, ask and vanish leave no goroutine, no
// waiting reader and no bytes behind. TestMain looks for goroutines.
func TestVanishingReaders(t *testing.T) {
	c, a, tr := allOn(t, nil)
	tr.taken(0)
	var group sync.WaitGroup
	for range 60 {
		group.Go(func() {
			client := fetch.NewClient(fetch.ClientOptions{})
			defer client.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			defer cancel()
			_ = client.Fetch(ctx, a.addr, tr.request(0, time.Hour, c.sampler.Step(0, nil)...),
				func(_ int, _ bool, size int64) ([]byte, error) { return make([]byte, size), nil }, func(int, fetch.Answer) {})
		})
	}
	group.Wait()
	tr.announce(tr.hint(hints.Hint{Close: &hints.Close{}}))
	eventually(t, "everything is released", func() bool { return a.metric(t, "shelf_bytes") == 0 })
}

// TestMetrics: every label value exists from the start; the list is in testdata to be reviewed.
func TestMetrics(t *testing.T) {
	_, a, _ := allOn(t, nil)
	families, err := a.metrics.Gather()
	must(t, err)
	var b strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			b.WriteString(f.GetName())
			for _, l := range m.GetLabel() {
				fmt.Fprintf(&b, " %s=%s", l.GetName(), l.GetValue())
			}
			b.WriteByte('\n')
		}
	}
	const file = "testdata/metrics.golden"
	if *rewrite {
		must(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	expected, err := os.ReadFile(file)
	must(t, err)
	if b.String() != string(expected) {
		t.Errorf("the metrics changed; run with -rewrite:\n%s", firstDifference(string(expected), b.String()))
	}
}

// TestOptions: all problems are told at once.
func TestOptions(t *testing.T) {
	_, err := New(Options{Memory: 1, Window: -1, CPULow: 0.9, CPUHigh: 0.5})
	for _, word := range []string{"Node", "Store", "Pool", "Load", "Memory", "Window", "CPULow"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s is not in %v", word, err)
		}
	}
}
