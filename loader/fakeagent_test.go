package loader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// conduct is how a fake agent behaves.
type conduct string

const (
	honest    conduct = "honest"     // prepares everything it owns
	rawOnly   conduct = "raw"        // stored bytes and a reason
	refusing  conduct = "refusing"   // denied
	strange   conduct = "strange"    // another dataset lies there
	forgetful conduct = "forgetful"  // knows no job
	hanging   conduct = "hanging"    // never answers
	cutting   conduct = "cutting"    // breaks the stream after one answer
	lyingCRC  conduct = "lying-crc"  // the tensor does not match its checksum
	lyingRaw  conduct = "lying-raw"  // other stored bytes, with a right checksum of their own
	lyingSize conduct = "lying-size" // a tensor of another size
	lyingForm conduct = "lying-form" // a tensor of another shape, with as many bytes
	lying     conduct = "lying"      // other pixels, with a right checksum of their own
	tooNew    conduct = "too-new"    // another version of the protocol
	poisoned  conduct = "poison"     // says that the preparation failed
	byIDs     conduct = "by-ids"     // honest, but knows no version of the order: wants the ids of steps
)

var conducts = []conduct{byIDs, honest, rawOnly, refusing, strange, forgetful, hanging, cutting, lyingCRC, lyingRaw, lyingSize, lyingForm, tooNew, poisoned}

// fakeAgent is the server side of the wire with a conduct; it prepares on demand.
type fakeAgent struct {
	node, addr string
	k          *kit
	data       *union
	srv        *grpc.Server
	down       chan struct{} // closed when killed
	hear       func()        // before every hint, when not nil

	mu       sync.Mutex
	conduct  conduct
	schedule *hints.Schedule
	told     map[int64][]hints.WindowSample // by step
	number   uint64                         // of what was told
	hints    []hints.Hint
	tokens   []string
	fetches  []*fetch.Request
	seen     chan struct{} // closed and replaced on every hint and fetch
}

// cluster is fake agents, reached without a port being opened.
type cluster struct {
	k    *kit
	keys auth.Keyring

	mu     sync.Mutex
	lis    map[string]*bufconn.Listener
	agents []*fakeAgent
}

func newCluster(t testing.TB, k *kit, nodes ...string) *cluster {
	return newClusterWithKeys(t, k, auth.Insecure(), nodes...)
}

func newClusterWithKeys(t testing.TB, k *kit, keys auth.Keyring, nodes ...string) *cluster {
	c := &cluster{k: k, keys: keys, lis: map[string]*bufconn.Listener{}}
	for i, n := range nodes {
		c.add(t, n, fmt.Sprintf("127.0.0.1:%d", 7000+i), honest)
	}
	return c
}

// add starts an agent.
func (c *cluster) add(t testing.TB, node, addr string, how conduct) *fakeAgent {
	d, err := openUnion(context.Background(), c.k.options(t).sources(), filepath.Join(c.k.root, "cache-"+node))
	must(t, err)
	a := &fakeAgent{node: node, addr: addr, k: c.k, data: d, conduct: how, down: make(chan struct{}), seen: make(chan struct{})}
	lis := bufconn.Listen(1 << 20)
	a.srv = grpc.NewServer(fetch.ServerOptions()...)
	fetch.Register(a.srv, node, a, c.keys)
	hints.Serve(a.srv, a, c.keys)
	go a.srv.Serve(lis)
	c.mu.Lock()
	c.lis[addr] = lis
	c.agents = append(c.agents, a)
	c.mu.Unlock()
	t.Cleanup(a.kill)
	return a
}

// kill ends an agent as SIGKILL does: nothing is said to anybody.
func (a *fakeAgent) kill() {
	a.mu.Lock()
	select {
	case <-a.down:
		a.mu.Unlock()
		return
	default:
	}
	close(a.down)
	a.mu.Unlock()
	a.srv.Stop()
	a.data.close()
}

func (c *cluster) dial(ctx context.Context, addr string) (net.Conn, error) {
	c.mu.Lock()
	lis := c.lis[addr]
	c.mu.Unlock()
	if lis == nil {
		return nil, errors.New("connection refused")
	}
	return lis.DialContext(ctx)
}

// options adds the cluster's agents, by address, to the kit's options.
func (c *cluster) options(t testing.TB) Options {
	o := c.k.options(t)
	o.Dial, o.Job, o.Run = c.dial, "job", hints.NewID()
	if o.Sources == nil {
		o.URL = "dir://" + c.k.root + "/data"
	}
	for i := range o.Sources {
		o.Sources[i].URL = "dir://" + c.k.root + o.Sources[i].Dir
	}
	for _, a := range c.agents {
		o.Agents = append(o.Agents, a.node+"="+a.addr)
	}
	o.testing.backOff = time.Millisecond
	o.testing.minWait = time.Minute // agents that answer are never too late, however busy the machine
	return o
}

// register writes an agent's registry file.
func (c *cluster) register(t testing.TB, a *fakeAgent) {
	entry := hints.Entry{Node: a.node, Addr: a.addr, Versions: map[string]int{"fetch": 1, "hints": 1}, TTL: time.Minute}
	must(t, hints.NewPublisher(store.Files{Store: c.k.store}, hints.DefaultRegistry).Publish(t.Context(), entry))
}

func (a *fakeAgent) set(c conduct) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conduct = c
}

func (a *fakeAgent) noteLocked() {
	close(a.seen)
	a.seen = make(chan struct{})
}

// await waits until ok, looked at after every hint and fetch, holds.
func (a *fakeAgent) await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(5 * time.Second)
	for {
		a.mu.Lock()
		seen, done := a.seen, ok()
		a.mu.Unlock()
		if done {
			return
		}
		select {
		case <-seen:
		case <-timeout:
			t.Fatalf("agent %s: %s did not happen", a.node, what)
		}
	}
}

// Announce implements hints.Handler.
func (a *fakeAgent) Announce(ctx context.Context, h hints.Hint, who auth.Claims) (hints.Reply, error) {
	if a.hear != nil {
		a.hear()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.noteLocked()
	a.hints = append(a.hints, h)
	if err := who.Allows(auth.RightHint, "/data"); err != nil {
		return hints.Refuse(hints.ReasonDenied, err.Error()), nil
	}
	if a.conduct == strange {
		return hints.Refuse(hints.ReasonIdentity, "another dataset"), nil
	}
	switch {
	case h.Schedule != nil && h.Schedule.Dataset != a.data.Identity():
		return hints.Refuse(hints.ReasonIdentity, "another dataset"), nil
	case h.Schedule != nil && h.Schedule.Window == nil && a.conduct == byIDs:
		return hints.Refuse(hints.ReasonVersion, "of the order's specification"), nil
	case h.Schedule != nil:
		a.schedule, a.told, a.number = h.Schedule, map[int64][]hints.WindowSample{}, 0
		a.takeWindow(h.Schedule.Window)
	case a.schedule == nil:
		return hints.Refuse(hints.ReasonUnknownJob, ""), nil
	}
	a.takeWindow(h.Window)
	return hints.Accept(), nil
}

func (a *fakeAgent) takeWindow(w *hints.Window) {
	if w == nil || w.Epoch < a.number {
		return
	}
	if w.Epoch > a.number {
		a.told, a.number = map[int64][]hints.WindowSample{}, w.Epoch
	}
	for i, samples := range w.Steps {
		a.told[w.FirstStep+int64(i)] = samples
	}
}

// foresaw tells whether the agent could know that a want comes.
func (a *fakeAgent) foresaw(step int64, w fetch.Want) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.schedule == nil || a.schedule.Window == nil {
		return true
	}
	member, own, err := a.data.Own(w.Sample)
	return err == nil && slices.Contains(a.told[step], hints.WindowSample{Source: uint32(member), Epoch: w.Epoch, Sample: own})
}

// Fetch implements fetch.Handler.
func (a *fakeAgent) Fetch(ctx context.Context, _ auth.Claims, req *fetch.Request, send func(int, fetch.Payload) error) error {
	a.mu.Lock()
	a.fetches = append(a.fetches, req)
	md, _ := metadata.FromIncomingContext(ctx)
	a.tokens = append(a.tokens, strings.Join(md.Get("authorization"), ","))
	how, s := a.conduct, a.schedule
	a.noteLocked()
	a.mu.Unlock()
	if how == hanging {
		select {
		case <-ctx.Done():
		case <-a.down:
		}
		return ctx.Err()
	}
	for i, w := range req.Wants {
		p, err := a.payload(ctx, how, s, req, w)
		if err != nil {
			return err
		}
		if err := send(i, p); err != nil {
			return err
		}
		if how == cutting {
			return errors.New("cut on purpose")
		}
	}
	return nil
}

func (a *fakeAgent) payload(ctx context.Context, how conduct, s *hints.Schedule, req *fetch.Request, w fetch.Want) (fetch.Payload, error) {
	switch how {
	case refusing:
		return fetch.Payload{Reason: fetch.ReasonDenied}, nil
	case strange:
		return fetch.Payload{Reason: fetch.ReasonIdentity}, nil
	case tooNew:
		return fetch.Payload{Reason: fetch.ReasonVersion}, nil
	case forgetful:
		return fetch.Payload{Reason: fetch.ReasonUnknownJob}, nil
	}
	if s == nil {
		return fetch.Payload{Reason: fetch.ReasonUnknownJob}, nil
	}
	part, err := a.data.Part(ctx, w.Sample, w.Field)
	if err != nil {
		return fetch.Payload{}, err
	}
	p := &piece{Extent: part.Extent, buf: make([]byte, part.Len)}
	if _, err := a.data.read(ctx, part.Bin, []*piece{p}); err != nil || p.err != nil {
		return fetch.Payload{Reason: fetch.ReasonIdentity}, nil
	}
	raw := fetch.Payload{Raw: true, Data: p.buf, CRC: binfmt.CRC32C(0, p.buf), Reason: fetch.ReasonCPU}
	switch how {
	case rawOnly:
		return raw, nil
	case byIDs, honest:
		if !a.foresaw(req.Step, w) {
			raw.Reason = fetch.ReasonNotReady
			return raw, nil
		}
	case poisoned:
		raw.Reason = fetch.ReasonPoison
		return raw, nil
	case lyingRaw:
		raw.Data = append([]byte{kindGood, 1}, raw.Data[2:]...)
		raw.CRC = binfmt.CRC32C(0, raw.Data)
		return raw, nil
	}
	return a.prepare(how, s, w, raw), nil
}

// prepare does what the schedule says, as an agent would long before.
func (a *fakeAgent) prepare(how conduct, s *hints.Schedule, w fetch.Want, raw fetch.Payload) fetch.Payload {
	if raw.Data[0] != kindGood && raw.Data[0] != kindOnce {
		raw.Reason = fetch.ReasonPoison
		return raw
	}
	plan, err := transform.ParsePlan(s.Fields[0].Plan)
	if err != nil || plan.Digest() != s.Fields[0].Digest {
		return fetch.Payload{Reason: fetch.ReasonDenied}
	}
	if spec, err := sampler.ParseSpec(s.Spec); s.Window == nil && (err != nil || spec.Seed != s.Seed) {
		return fetch.Payload{Reason: fetch.ReasonDenied}
	}
	member, own, err := a.data.Own(w.Sample)
	if err != nil {
		return fetch.Payload{Reason: fetch.ReasonIdentity}
	}
	job := worker.Job{Plan: plan, Key: transform.Key{Seed: s.Seed, Source: s.Datasets()[member].Name, Epoch: w.Epoch, Sample: own}}
	out, err := fakeSpec(job, raw.Data)
	if err != nil {
		raw.Reason = fetch.ReasonPoison
		return raw
	}
	pixels := make([]byte, out.Bytes())
	fakePixels(job, raw.Data, pixels)
	switch how {
	case lying:
		pixels[0] ^= 1
	case lyingForm:
		out.Shape = []int{out.Shape[1], out.Shape[0], out.Shape[2]}
	case lyingSize:
		out.Shape = append([]int{2}, out.Shape...)
		pixels = append(pixels, pixels...)
	}
	p := fetch.Payload{Spec: out, Data: pixels, CRC: binfmt.CRC32C(0, pixels), PlanDigest: plan.Digest(), LeadTime: 5 * time.Millisecond, PrepareCPU: time.Millisecond}
	if how == lyingCRC {
		p.CRC ^= 1
	}
	return p
}
