package agent

import (
	"bytes"
	"cmp"
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/transform"
)

// mixture is the cluster's photographs and a second dataset of the same, under two names.
type mixture struct {
	*cluster
	*binfmt.Union
	folders []string
	members []hints.Member
	order   func(step int64) []sampler.SampleRef // nil: both in turn
}

// second is the folder of the second dataset.
const second = "/others"

func newMixture(t testing.TB) *mixture {
	c := newCluster(t)
	other, err := pack.Pack(t.Context(), pack.Folder{Root: photographs(t)}, c.store, second, pack.Options{BinSize: 40 << 10})
	must(t, err)
	data := binfmt.NewDataset(other, func(_ context.Context, bin int) (binfmt.LocalIndex, error) {
		return binfmt.LocalIndex{Path: filepath.Join(c.root, second, other.Bins[bin].IndexName())}, nil
	})
	t.Cleanup(func() { must(t, data.Close()) })
	return &mixture{
		cluster: c, Union: binfmt.NewUnion([]binfmt.Member{{Name: "photos", Data: c.data}, {Name: "others", Data: data}}),
		folders: []string{datasetDir, second},
		members: []hints.Member{{Name: "photos", DatasetURL: datasetDir, Dataset: c.manifest.Identity()}, {Name: "others", DatasetURL: second, Dataset: other.Identity()}},
	}
}

// refs are the samples of a step: those of an order, or of both members in turn, epochs and all.
func (m *mixture) refs(step int64) []sampler.SampleRef {
	if m.order != nil {
		return m.order(step)
	}
	refs := make([]sampler.SampleRef, clusterBatch)
	for i := range refs {
		n := uint64(step)*clusterBatch + uint64(i)
		refs[i] = sampler.SampleRef{Source: int32(n % 2), Sample: n / 2 * 7 % clusterSamples, Epoch: n / 2 / clusterSamples, Position: int64(i)}
	}
	return refs
}

// window announces the steps from first to before end.
func (m *mixture) window(number uint64, first, end int64) *hints.Window {
	return windowOf(m.refs, number, first, end)
}

func windowOf(refs func(step int64) []sampler.SampleRef, number uint64, first, end int64) *hints.Window {
	w := &hints.Window{Epoch: number, FirstStep: first}
	for step := first; step < end; step++ {
		var samples []hints.WindowSample
		for _, ref := range refs(step) {
			samples = append(samples, hints.WindowSample{Source: uint32(ref.Source), Epoch: ref.Epoch, Sample: ref.Sample})
		}
		w.Steps = append(w.Steps, samples)
	}
	return w
}

// job is a job over the mixture whose schedule is a window of the first two steps.
func (m *mixture) job(id, token string) *trainer {
	t := m.trainer(id, "1", token)
	t.change = func(s *hints.Schedule) {
		s.DatasetURL, s.Members, s.Dataset = "", m.members, m.Identity()
		s.Spec, s.Window = nil, m.window(1, s.FirstStep, s.FirstStep+2)
	}
	return t
}

// more is a hint that announces further steps.
func (t *trainer) more(m *mixture, number uint64, first, end int64) hints.Hint {
	h := t.hint(hints.Hint{Window: m.window(number, first, end)})
	h.Identity = m.Identity()
	return h
}

// stored reads the bytes of a sample of the union, without the agent's code.
func (m *mixture) stored(number uint64) []byte {
	m.t.Helper()
	member, own, err := m.Own(number)
	must(m.t, err)
	data := m.Members()[member].Data
	p, err := data.Part(m.t.Context(), own, "image")
	must(m.t, err)
	f, err := m.store.Open(m.t.Context(), m.folders[member]+"/"+data.Manifest().Bins[p.Bin].DataName())
	must(m.t, err)
	defer f.Close()
	buf := make([]byte, p.Len)
	must(m.t, f.ReadRanges(m.t.Context(), []store.Range{{Off: p.Off, Buf: buf}}))
	return buf
}

// fetchAll asks every agent for a whole step and returns the answers by sample; prepared ones have been compared.
func (m *mixture) fetchAll(t *trainer, step int64) map[uint64]fetch.Answer {
	m.t.Helper()
	req := t.request(step, 10*time.Second)
	req.Dataset = m.Identity()
	for _, ref := range m.refs(step) {
		req.Wants = append(req.Wants, fetch.Want{Sample: m.Number(int(ref.Source), ref.Sample), Epoch: ref.Epoch, Field: "image"})
	}
	all := map[uint64]fetch.Answer{}
	alloc := func(_ int, _ bool, size int64) ([]byte, error) { return make([]byte, size), nil }
	for _, a := range m.agents {
		must(m.t, t.fetch.Fetch(m.t.Context(), a.Addr, req, alloc, func(want int, ans fetch.Answer) {
			w := req.Wants[want]
			if ans.Prepared != nil {
				m.check(w, ans.Prepared.Data)
			}
			if all[w.Sample].Prepared == nil {
				all[w.Sample] = ans
			}
		}))
	}
	return all
}

// check compares a tensor with what it must be: the key has the source's own name and number.
func (m *mixture) check(w fetch.Want, got []byte) {
	member, own, err := m.Own(w.Sample)
	must(m.t, err)
	want := make([]byte, 8*8*3)
	tensorOf(transform.Key{Seed: 7, Source: m.Members()[member].Name, Epoch: w.Epoch, Sample: own}, m.stored(w.Sample), want)
	if !bytes.Equal(got, want) {
		m.t.Errorf("sample %d: prepared bytes are wrong", w.Sample)
	}
}

// TestWindowsOfAMixture: steps that are told window by window, over two datasets, are all prepared.
func TestWindowsOfAMixture(t *testing.T) {
	m := newMixture(t)
	for _, node := range []string{"dn1", "dn2", "dn3"} {
		m.start(node, nil)
	}
	job := m.job("mix", "")
	job.taken(0)
	for step := range int64(14) {
		if step%2 == 0 && step > 0 {
			if r := job.announce(job.more(m, 1, step, step+2)); !r.Accepted {
				t.Fatalf("window from step %d: %+v", step, r)
			}
		}
		if got := reasons(m.fetchAll(job, step)); got["prepared"] != clusterBatch {
			t.Errorf("step %d: %v", step, got)
		}
	}
}

// TestVoidedWindows: a new number has other samples prepared for steps that were announced before.
func TestVoidedWindows(t *testing.T) {
	m := newMixture(t)
	for _, node := range []string{"dn1", "dn2", "dn3"} {
		m.start(node, nil)
	}
	job := m.job("mix", "")
	job.taken(0)
	h := job.more(m, 2, 0, 2)
	slices.Reverse(h.Window.Steps) // step 0 now has the samples of step 1, and the other way round
	if r := job.announce(h); !r.Accepted {
		t.Fatalf("%+v", r)
	}
	old := job.more(m, 1, 2, 4)
	if r := job.announce(old); !r.Accepted || !strings.Contains(r.Detail, "newer number") {
		t.Errorf("a window of the number before: %+v", r)
	}
	if got := reasons(m.fetchAll(job, 1)); got["prepared"] != clusterBatch {
		t.Errorf("%v", got)
	}
}

// TestRefusedWindows: what does not fit the datasets, or leaves a gap, is not taken.
func TestRefusedWindows(t *testing.T) {
	m := newMixture(t)
	m.start("dn1", nil)
	job := m.job("mix", "")
	far := job.more(m, 1, 2, 3)
	if r := job.announce(far); r.Reason != hints.ReasonUnknownJob {
		t.Errorf("a window before any schedule: %+v", r)
	}
	bad := job.schedule(0)
	bad.Schedule.Window.Steps[1][2].Source = 2
	if r := job.announce(bad); r.Reason != hints.ReasonIdentity || !strings.Contains(r.Detail, "step 1 has sample") {
		t.Errorf("a source that is not there: %+v", r)
	}
	job.taken(0)
	beyond := job.more(m, 1, 2, 3)
	beyond.Window.Steps[0][0].Sample = clusterSamples
	if r := job.announce(beyond); r.Reason != hints.ReasonIdentity {
		t.Errorf("a sample that is not there: %+v", r)
	}
	if r := job.announce(job.more(m, 1, 3, 4)); r.Reason != hints.ReasonUnknownJob || !strings.Contains(r.Detail, "steps 2 to 2") {
		t.Errorf("a gap: %+v", r)
	}
	wide := job.more(m, 1, 2, 3)
	wide.Window.Steps = [][]hints.WindowSample{make([]hints.WindowSample, 1<<17), make([]hints.WindowSample, 1<<17)}
	const room = maxAnnounced>>18 - 1 // windows, beside what the schedule announced
	for i := range int64(room + 1) {
		wide.ID, wide.Window.FirstStep = hints.NewID(), 2+2*i
		if r := job.announce(wide); r.Accepted != (i < room) || !r.Accepted && r.Reason != hints.ReasonBusy {
			t.Errorf("2^18 samples from step %d: %+v", wide.Window.FirstStep, r)
		}
	}
}

// TestMembersAndTokens: a token that does not reach all members is denied, and one that is asked for another version
// of one of them says identity.
func TestMembersAndTokens(t *testing.T) {
	key, err := auth.NewKey("k1", []byte(strings.Repeat("s", 32)))
	must(t, err)
	ring, err := auth.NewKeyring(key)
	must(t, err)
	m := newMixture(t)
	m.start("dn1", func(o *Options) { o.Keys = ring })
	tokenOf := func(job string, roots ...string) string {
		token, err := auth.Mint(key, auth.Claims{Job: job, User: "ann", Roots: roots, Rights: []string{"fetch", "hint"}, Expires: time.Now().Add(time.Hour)})
		must(t, err)
		return token
	}
	half := m.job("half", tokenOf("half", datasetDir))
	if r := half.announce(half.schedule(0)); r.Reason != hints.ReasonDenied || !strings.Contains(r.Detail, second) {
		t.Errorf("a token for one member: %+v", r)
	}
	whole := m.job("whole", tokenOf("whole", datasetDir, second))
	whole.taken(0)
	stranger := m.job("whole", tokenOf("whole", second))
	stranger.gen = whole.gen
	if got := reasons(m.fetchAll(stranger, 0)); got["none denied"] != clusterBatch {
		t.Errorf("fetches with a token for one member: %v", got)
	}
	other := m.job("other", tokenOf("other", "/"))
	h := other.schedule(0)
	h.Schedule.Members = slices.Clone(m.members)
	h.Schedule.Members[1].Dataset[0] ^= 1
	if r := other.announce(h); r.Reason != hints.ReasonIdentity {
		t.Errorf("another version of a member: %+v", r)
	}
	swapped := other.schedule(0)
	swapped.Schedule.Members = []hints.Member{m.members[1], m.members[0]}
	if r := other.announce(swapped); r.Reason != hints.ReasonIdentity || !strings.Contains(r.Detail, "union") {
		t.Errorf("members in another order: %+v", r)
	}
}

// TestBothFormsGiveTheSameShelf: a step is the same work for an agent whether it runs the order itself or is told the
// ids.
func TestBothFormsGiveTheSameShelf(t *testing.T) {
	c := newCluster(t)
	job := c.trainer("a", "1", "")
	c.agents = []fetch.Node{{Name: "dn1", Addr: "127.0.0.1:1"}, {Name: "dn2", Addr: "127.0.0.1:2"}, {Name: "dn3", Addr: "127.0.0.1:3"}}
	steps := func(step int64) []sampler.SampleRef { return c.sampler.Step(step, nil) }
	for _, node := range kitNodes {
		bySpec, byIDs := job.schedule(0), job.schedule(0)
		byIDs.Schedule.Spec, byIDs.Schedule.Window = nil, windowOf(steps, 0, 0, 20)
		own, told := c.task(node, bySpec), c.task(node, byIDs)
		owned := 0
		for step := range int64(20) {
			want, err := own.items(t.Context(), step)
			must(t, err)
			got, err := told.items(t.Context(), step)
			must(t, err)
			for i := range got {
				got[i].task = own
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("node %s, step %d: %d items of the window, %d of the order", node, step, len(got), len(want))
			}
			owned += len(want)
		}
		if owned == 0 {
			t.Errorf("node %s owns nothing", node)
		}
	}
}

// TestBothFormsGiveTheSameShelfOfAMixture: running agents prepare the same tensors of two datasets, whether they run a
// mixture's order themselves or are told its ids.
func TestBothFormsGiveTheSameShelfOfAMixture(t *testing.T) {
	const steps = 12
	own := shelvesOf(t, steps, func(*mixture, *hints.Schedule, *sampler.Sampler) {})
	told := shelvesOf(t, steps, func(_ *mixture, s *hints.Schedule, order *sampler.Sampler) {
		s.Spec, s.Window = nil, windowOf(func(step int64) []sampler.SampleRef { return order.Step(step, nil) }, 0, s.FirstStep, steps)
	})
	both := 0
	for _, node := range kitNodes {
		if !reflect.DeepEqual(own[node], told[node]) {
			t.Errorf("%s: %d preparations by the order, %d by ids, or others", node, len(own[node]), len(told[node]))
		}
		for _, r := range own[node] {
			if r.Source == "others" && r.Epoch > 0 {
				both++
			}
		}
	}
	if both == 0 {
		t.Error("nothing of the small source's second epoch")
	}
}

// shelvesOf runs a cluster of agents over a mixture and returns what each has prepared for the first steps.
func shelvesOf(t *testing.T, steps int64, change func(*mixture, *hints.Schedule, *sampler.Sampler)) map[string][]record {
	t.Helper()
	m := newMixture(t)
	order, err := sampler.New(sampler.Spec{
		Version: sampler.SpecVersion, Seed: 7, GlobalBatch: clusterBatch, Sources: []sampler.Source{
			{Name: "photos", Samples: clusterSamples, Weight: 1}, {Name: "others", Samples: clusterSamples, Weight: 3},
		}, Changes: []sampler.Change{{Step: 9, Weights: map[string]float64{"photos": 5}}},
	})
	must(t, err)
	m.order = func(step int64) []sampler.SampleRef { return order.Step(step, nil) }
	var agents []*liveAgent
	for _, node := range kitNodes {
		agents = append(agents, m.start(node, nil))
	}
	job := m.job("mix", "")
	form := job.change
	job.change = func(s *hints.Schedule) {
		form(s)
		s.Spec, s.Window = order.Spec().Canonical(), nil
		change(m, s, order)
	}
	job.taken(0)
	for step := range steps {
		if got := reasons(m.fetchAll(job, step)); got["prepared"] != clusterBatch {
			t.Errorf("step %d: %v", step, got)
		}
	}
	shelves := map[string][]record{}
	for i, a := range agents {
		for _, r := range a.records.list() {
			if r.Step >= steps { // the order goes on
				continue
			}
			r.At, r.WallMicros = 0, 0
			shelves[kitNodes[i]] = append(shelves[kitNodes[i]], r)
		}
		slices.SortFunc(shelves[kitNodes[i]], func(a, b record) int {
			return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Sample, b.Sample))
		})
	}
	return shelves
}

var kitNodes = []string{"dn1", "dn2", "dn3"}

// task is a schedule as the agent of a node works with it.
func (c *cluster) task(node string, h hints.Hint) *task {
	c.t.Helper()
	began := time.Now()
	l := lake{store: c.open(node), cacheDir: c.t.TempDir(), now: func() time.Duration { return time.Since(began) }}
	var names []string
	var keys []datasetKey
	for _, m := range h.Schedule.Datasets() {
		names, keys = append(names, m.Name), append(keys, datasetKey{m.DatasetURL, m.Dataset})
	}
	s := &tasks{}
	datasets, err := s.openAll(c.t.Context(), l, keys)
	must(c.t, err)
	c.t.Cleanup(func() { must(c.t, s.releaseAll(datasets)) })
	golden, _ := (&fakePool{}).Golden(c.t.Context())
	t, err := newTask(h, newUnion(names, datasets), node, golden)
	must(c.t, err)
	return t
}

// TestHoldAfterReopening: whoever comes late with a dataset that was closed does not count as a user of the one that was opened
// under its key since, and does not close it.
func TestHoldAfterReopening(t *testing.T) {
	c := newCluster(t)
	l := lake{store: c.open("dn1"), cacheDir: t.TempDir(), now: func() time.Duration { return 0 }}
	key := datasetKey{datasetDir, c.manifest.Identity()}
	s := &tasks{}
	closed, err := s.open(t.Context(), l, key)
	must(t, err)
	must(t, s.release(closed))
	open, err := s.open(t.Context(), l, key)
	must(t, err)
	late := newUnion([]string{"a", "b"}, []*dataset{open, closed})
	if s.holdAll(late) {
		t.Error("a union with a closed dataset is held")
	}
	if users := s.datasets[key].users; users != 1 {
		t.Errorf("%d users of the open dataset, want 1", users)
	}
	must(t, s.release(open))
	if len(s.datasets) != 0 {
		t.Errorf("%d datasets are open still", len(s.datasets))
	}
}

// TestSpecOfANewerVersion: an agent that does not know the order's version, or cannot run it, asks for the ids by saying so.
func TestSpecOfANewerVersion(t *testing.T) {
	c := newCluster(t)
	c.start("dn1", nil)
	job := c.trainer("a", "1", "")
	job.change = func(s *hints.Schedule) {
		s.Spec = []byte(`{"spec":9,"seed":7,"global_batch":8,"sources":[{"name":"","samples":48}]}`)
	}
	if r := job.announce(job.schedule(0)); r.Reason != hints.ReasonVersion {
		t.Errorf("%+v", r)
	}
	job.change = func(s *hints.Schedule) {
		s.Spec = []byte(`{"spec":2,"seed":7,"global_batch":8,"group_by_length":{"column":"n"},"sources":[{"name":"","samples":48}]}`)
	}
	if r := job.announce(job.schedule(0)); r.Reason != hints.ReasonVersion || !strings.Contains(r.Detail, "groups samples by length") {
		t.Errorf("an order that the agent cannot run: %+v", r)
	}
}
