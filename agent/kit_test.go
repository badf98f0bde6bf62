package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok, and fails the test if that takes too long.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}

// cluster is a dataset of small photographs on three simulated nodes, and the agents beside them.
type cluster struct {
	t        testing.TB
	root     string
	store    *dir.Store
	manifest *binfmt.Manifest
	data     *binfmt.Dataset
	plan     *transform.Plan
	sampler  *sampler.Sampler
	agents   []fetch.Node
}

const (
	clusterSamples = 48
	clusterBatch   = 8
	datasetDir     = "/photos"
)

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t, root: t.TempDir()}
	must(t, dir.Init(c.root, dir.Topology{
		Nodes: []dir.Node{{Name: "dn1"}, {Name: "dn2"}, {Name: "dn3"}}, BlockSize: 4096, Replication: 2,
	}))
	c.store = c.open("")
	var err error
	c.manifest, err = pack.Pack(t.Context(), pack.Folder{Root: photographs(t)}, c.store, datasetDir, pack.Options{BinSize: 16 << 10})
	must(t, err)
	c.data = binfmt.NewDataset(c.manifest, func(_ context.Context, bin int) (binfmt.LocalIndex, error) {
		return binfmt.LocalIndex{Path: filepath.Join(c.root, datasetDir, c.manifest.Bins[bin].IndexName())}, nil
	})
	t.Cleanup(func() { must(t, c.data.Close()) })
	c.plan, err = transform.ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"CenterCrop","size":[8,8]}]}`))
	must(t, err)
	c.sampler, err = sampler.New(sampler.Spec{
		Version: sampler.SpecVersion, Seed: 7, GlobalBatch: clusterBatch,
		Sources: []sampler.Source{{Samples: clusterSamples}},
	})
	must(t, err)
	return c
}

// open opens the store as a process on a node does.
func (c *cluster) open(node string) *dir.Store {
	st, _, err := dir.Open(c.root, dir.Options{Node: node})
	must(c.t, err)
	c.t.Cleanup(func() { must(c.t, st.Close()) })
	return st
}

// photographs writes a folder of JPEG.
func photographs(t testing.TB) string {
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "class"), 0o755))
	for i := range clusterSamples {
		img := image.NewRGBA(image.Rect(0, 0, 24+i, 32))
		for p := range 32 {
			img.Set(p%24, p, color.RGBA{uint8(i), uint8(p), 99, 255})
		}
		var b bytes.Buffer
		must(t, jpeg.Encode(&b, img, nil))
		must(t, os.WriteFile(filepath.Join(root, "class", fmt.Sprintf("%03d.jpg", i)), b.Bytes(), 0o644))
	}
	return root
}

// fakePool makes "tensors" that are a function of the part and the key, and fails as told.
type fakePool struct {
	mu     sync.Mutex
	runs   map[uint64]int                            // by sample
	act    func(ctx context.Context, s uint64) error // instead of working; nil result: work
	golden map[string]string
}

func (p *fakePool) Run(ctx context.Context, job worker.Job, in worker.Part, out []byte) (worker.Result, error) {
	p.mu.Lock()
	if p.runs == nil {
		p.runs = map[uint64]int{}
	}
	p.runs[job.Key.Sample]++
	act := p.act
	p.mu.Unlock()
	if act != nil {
		if err := act(ctx, job.Key.Sample); err != nil {
			return worker.Result{}, err
		}
	}
	spec, _ := job.Plan.Fixed()
	tensorOf(job.Key, in.Data, out)
	return worker.Result{Spec: spec, Bytes: len(out), CRC: binfmt.CRC32C(0, out), CPU: time.Millisecond, PeakRSS: 1 << 20}, nil
}

func (p *fakePool) Golden(context.Context) (map[string]string, error) {
	if p.golden != nil {
		return p.golden, nil
	}
	golden := map[string]string{}
	for _, id := range []string{"jpeg/islow-fancy@1", "png/libpng@1", "webp/libwebp@1", "gif/go@1", "geometry/torchvision@1", "placement/ours@1"} {
		golden[id] = fmt.Sprintf("%x", sha256.Sum256([]byte(id)))
	}
	return golden, nil
}

func (p *fakePool) CPU() time.Duration { return 0 }

func (p *fakePool) count(sample uint64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[sample]
}

// tensorOf fills out with a function of key and part.
func tensorOf(k transform.Key, part, out []byte) {
	h := sha256.Sum256(binary.LittleEndian.AppendUint64(append([]byte{}, part...), k.Sample^k.Epoch<<32^k.Seed<<48))
	for i := range out {
		out[i] = h[i%32] + byte(i/32)
	}
}

// liveAgent is an agent that runs.
type liveAgent struct {
	*Agent
	addr    string
	pool    *fakePool
	metrics *prometheus.Registry
	kill    context.CancelFunc // asks it to stop
	done    chan error
}

// stop stops the agent and waits for its end.
func (r *liveAgent) stop(t testing.TB) {
	t.Helper()
	r.kill()
	select {
	case err := <-r.done:
		must(t, err)
		r.done <- nil // for the next call
	case <-time.After(20 * time.Second):
		t.Fatal("the agent does not stop")
	}
}

// start runs an agent beside a node.
func (c *cluster) start(node string, change func(*Options)) *liveAgent {
	c.t.Helper()
	r := &liveAgent{pool: &fakePool{}, metrics: prometheus.NewRegistry(), done: make(chan error, 1)}
	o := Options{
		Node: node, Store: c.open(node), Pool: r.pool, Load: Steady(0.25), CacheDir: c.t.TempDir(), Keys: auth.Insecure(),
		Registry: "/.stepahead/agents", Metrics: r.metrics, Workers: 2, Dwell: 100 * time.Millisecond,
		Log: zaptest.NewLogger(c.t, zaptest.Level(zap.ErrorLevel)),
	}
	if change != nil {
		change(&o)
	}
	var err error
	r.Agent, err = New(o)
	must(c.t, err)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(c.t, err)
	r.addr = lis.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	r.kill = cancel
	go func() { r.done <- r.Run(ctx, lis) }()
	c.t.Cleanup(func() { r.stop(c.t) })
	c.agents = append(c.agents, fetch.Node{Name: node, Addr: r.addr})
	return r
}

// get reads a page of the agent's state.
func (r *liveAgent) get(path string) (int, string) {
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// metric returns the value of a counter or gauge, summed over its labels that match.
func (r *liveAgent) metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.metrics.Gather()
	must(t, err)
	sum, found := 0.0, false
	for _, f := range families {
		if f.GetName() != "stepahead_agent_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			match := true
			for i := 0; i+1 < len(labels); i += 2 {
				has := false
				for _, l := range m.GetLabel() {
					has = has || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
				}
				match = match && has
			}
			if match {
				found = true
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	if !found {
		t.Fatalf("no metric %s %v", name, labels)
	}
	return sum
}

// trainer is a job that announces and fetches.
type trainer struct {
	*cluster
	job, run string
	hints    *hints.Client
	fetch    *fetch.Client
	gen      uint64
	change   func(*hints.Schedule)
}

func (c *cluster) trainer(job, run, token string) *trainer {
	t := &trainer{
		cluster: c, job: job, run: run,
		hints: hints.NewClient(hints.ClientOptions{Token: token}), fetch: fetch.NewClient(fetch.ClientOptions{Token: token}),
	}
	c.t.Cleanup(func() {
		must(c.t, t.hints.Close())
		must(c.t, t.fetch.Close())
	})
	return t
}

func (t *trainer) hint(h hints.Hint) hints.Hint {
	h.ID, h.Job, h.Run, h.TTL, h.Confidence, h.Identity = hints.NewID(), t.job, t.run, time.Hour, 1, t.manifest.Identity()
	return h
}

// schedule is the schedule of the job from a step on, over all agents of the cluster.
func (t *trainer) schedule(first int64) hints.Hint {
	t.gen++
	operators := map[string]string{}
	golden, _ := (&fakePool{}).Golden(context.Background())
	for _, id := range t.plan.Identities() {
		operators[id] = golden[id]
	}
	s := &hints.Schedule{
		DatasetURL: datasetDir, Dataset: t.manifest.Identity(), Spec: t.sampler.Spec().Canonical(), Seed: 7,
		Fields:    []hints.FieldPlan{{Field: "image", Plan: t.plan.Canonical(), Digest: t.plan.Digest()}},
		FirstStep: first, Generation: t.gen, Operators: operators,
	}
	for _, a := range t.agents {
		s.Agents = append(s.Agents, hints.Agent{Node: a.Name, Addr: a.Addr})
	}
	if t.change != nil {
		t.change(s)
	}
	h := t.hint(hints.Hint{Schedule: s})
	h.Identity = s.Dataset
	return h
}

// announce gives a hint to every agent and returns the last reply.
func (t *trainer) announce(h hints.Hint) hints.Reply {
	t.t.Helper()
	var reply hints.Reply
	for _, a := range t.agents {
		r, err := t.hints.Announce(t.t.Context(), a.Addr, h)
		must(t.t, err)
		reply = r
	}
	return reply
}

// taken announces the schedule and wants it accepted.
func (t *trainer) taken(first int64) {
	t.t.Helper()
	if r := t.announce(t.schedule(first)); !r.Accepted {
		t.t.Fatalf("schedule refused: %+v", r)
	}
}

// owner returns the agent that owns a sample, found without the agent's code.
func (t *trainer) owner(sample uint64) fetch.Node {
	t.t.Helper()
	part, err := t.data.Part(t.t.Context(), sample, "image")
	must(t.t, err)
	rows, err := t.store.Locate(t.t.Context(), datasetDir+"/"+t.manifest.Bins[part.Bin].DataName(), part.Off, 1)
	must(t.t, err)
	var holders []fetch.Node
	for _, row := range rows {
		for _, a := range t.agents {
			if a.Name == row.Node {
				holders = append(holders, a)
			}
		}
	}
	n, ok := fetch.Owner(t.manifest.Identity(), sample, holders)
	if !ok {
		t.t.Fatalf("sample %d has no owner", sample)
	}
	return n
}

// part reads the stored bytes of a sample.
func (t *trainer) part(sample uint64) []byte {
	t.t.Helper()
	p, err := t.data.Part(t.t.Context(), sample, "image")
	must(t.t, err)
	f, err := t.store.Open(t.t.Context(), datasetDir+"/"+t.manifest.Bins[p.Bin].DataName())
	must(t.t, err)
	defer f.Close()
	buf := make([]byte, p.Len)
	must(t.t, f.ReadRanges(t.t.Context(), []store.Range{{Off: p.Off, Buf: buf}}))
	return buf
}

// request asks for samples of a step.
func (t *trainer) request(step int64, deadline time.Duration, refs ...sampler.SampleRef) *fetch.Request {
	req := &fetch.Request{
		Job: t.job, Run: t.run, Generation: t.gen, Step: step, Progress: step, Dataset: t.manifest.Identity(),
		PlanDigests: map[string][32]byte{"image": t.plan.Digest()}, Deadline: deadline,
	}
	for _, r := range refs {
		req.Wants = append(req.Wants, fetch.Want{Sample: r.Sample, Epoch: r.Epoch, Field: "image"})
	}
	return req
}

// ask sends a request to one agent and returns the answers by sample; every answer with bytes has been
// compared with what it must be.
func (t *trainer) ask(addr string, req *fetch.Request) (map[uint64]fetch.Answer, error) {
	t.t.Helper()
	answers := map[uint64]fetch.Answer{}
	alloc := func(_ int, _ bool, size int64) ([]byte, error) { return make([]byte, size), nil }
	err := t.fetch.Fetch(t.t.Context(), addr, req, alloc, func(want int, a fetch.Answer) {
		w := req.Wants[want]
		answers[w.Sample] = a
		switch {
		case a.Prepared != nil:
			expected := make([]byte, 8*8*3)
			tensorOf(transform.Key{Seed: 7, Epoch: w.Epoch, Sample: w.Sample}, t.part(w.Sample), expected)
			if !bytes.Equal(a.Prepared.Data, expected) {
				t.t.Errorf("sample %d: prepared bytes are wrong", w.Sample)
			}
		case a.Raw != nil && !bytes.Equal(a.Raw, t.part(w.Sample)):
			t.t.Errorf("sample %d: raw bytes are wrong", w.Sample)
		}
	})
	return answers, err
}

// step fetches a whole step from the owners and returns the answers by sample.
func (t *trainer) step(n int64, deadline time.Duration) map[uint64]fetch.Answer {
	t.t.Helper()
	by := map[string][]sampler.SampleRef{}
	for _, ref := range t.sampler.Step(n, nil) {
		addr := t.owner(ref.Sample).Addr
		by[addr] = append(by[addr], ref)
	}
	all := map[uint64]fetch.Answer{}
	for addr, refs := range by {
		answers, err := t.ask(addr, t.request(n, deadline, refs...))
		must(t.t, err)
		for s, a := range answers {
			all[s] = a
		}
	}
	if len(all) != clusterBatch {
		t.t.Fatalf("step %d: %d answers of %d", n, len(all), clusterBatch)
	}
	return all
}

// reasons counts answers by reason; "prepared" are tensors.
func reasons(answers map[uint64]fetch.Answer) map[string]int {
	n := map[string]int{}
	for _, a := range answers {
		switch {
		case a.Prepared != nil:
			n["prepared"]++
		case a.Raw != nil:
			n["raw "+string(a.Reason)]++
		default:
			n["none "+string(a.Reason)]++
		}
	}
	return n
}

var errFake = errors.New("as told")

// nopListener is a listener that is closed at once.
type nopListener struct{ net.Listener }

func (nopListener) Close() error { return nil }
