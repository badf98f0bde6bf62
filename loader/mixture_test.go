package loader

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// TestMixtureDeliversWhatTheOrderSays: every place of every step holds the sample of the source that the specification
// names, in shares as they were asked for.
func TestMixtureDeliversWhatTheOrderSays(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	other := k.beside(t, "more", 30, 3)
	o := k.options(t)
	l := mustOpen(t, o)
	order, err := sampler.New(sampler.Spec{Version: 2, Seed: 7, GlobalBatch: 8, Sources: []sampler.Source{
		{Name: "data", Samples: 48, Weight: 1}, {Name: "more", Samples: 30, Weight: 3},
	}})
	must(t, err)
	drawn := map[int32]int{}
	for step := range int64(20) {
		b := nextStep(t, l)
		for slot, ref := range order.Step(step, nil) {
			if b.Samples[slot] != ref {
				t.Fatalf("step %d, place %d: %+v, want %+v", step, slot, b.Samples[slot], ref)
			}
			drawn[ref.Source]++
			from := []*kit{k, other}[ref.Source]
			job := jobOf(o, ref)
			want := make([]byte, 6*5*3)
			fakePixels(job, from.parts[ref.Sample], want)
			if got := fieldOf(b, "image").Bytes[slot*len(want) : (slot+1)*len(want)]; string(got) != string(want) {
				t.Errorf("step %d, place %d: other pixels than of sample %d of source %d", step, slot, ref.Sample, ref.Source)
			}
			if got, want := fieldOf(b, "caption").Strings[slot], fmt.Sprintf("photograph %d", ref.Sample); got != want {
				t.Errorf("step %d, place %d: caption %q, want %q", step, slot, got, want)
			}
		}
		b.Release()
	}
	if drawn[0] != 40 || drawn[1] != 120 {
		t.Errorf("drawn: %v", drawn)
	}
}

// TestMixtureOnAgents: samples of every source come prepared, also from agents that do not know the order's version.
func TestMixtureOnAgents(t *testing.T) {
	for _, how := range []conduct{honest, byIDs} {
		k := newKit(t, 48, 20, nil)
		k.beside(t, "more", 30, 3)
		c := newCluster(t, k)
		for i, node := range kitNodes {
			c.add(t, node, fmt.Sprintf("127.0.0.1:%d", 7000+i), how)
		}
		o := c.options(t)
		pool := &fakePool{}
		o.Runner, o.CanaryEvery = pool, 1<<60
		l := mustOpen(t, o)
		c.warm(t, l)
		want := contents(t, mustOpen(t, k.options(t)), 60)
		if got := contents(t, l, 60); got != want {
			t.Errorf("%s: other bytes than without agents", how)
		}
		s := l.Stats()
		if s.Prepared != 60*8 || pool.runs.Load() != 0 {
			t.Errorf("%s: %d prepared, %d made here: %v", how, s.Prepared, pool.runs.Load(), s.ByReason)
		}
		if how == byIDs && (s.Hints["window"] < 3 || s.Hints["window"] > 3*8) {
			t.Errorf("%d hints with windows in 60 steps, to 3 agents", s.Hints["window"])
		}
	}
}

// TestMembersMustFitTogether: fields and classes of several datasets.
func TestMembersMustFitTogether(t *testing.T) {
	k := newKit(t, 20, 20, nil)
	k.beside(t, "more", 12, 1)
	rewrite := func(change func(m *binfmt.Manifest)) {
		name := filepath.Join(k.root, "more", binfmt.ManifestName)
		data, err := os.ReadFile(name)
		must(t, err)
		m, err := binfmt.ParseManifest(name, data)
		must(t, err)
		change(m)
		must(t, os.WriteFile(name, m.Canonical(), 0o644))
	}
	for _, c := range []struct {
		what   string
		change func(m *binfmt.Manifest)
		fields []string
		want   string
	}{
		{"a field of one only", func(m *binfmt.Manifest) { m.Fields = append(m.Fields, binfmt.Field{Name: "extra", Kind: binfmt.Int64}) }, nil, `field "extra" of the dataset "more" is not in the dataset "data"`},
		{"that is left out", func(*binfmt.Manifest) {}, []string{"image", "label"}, ""},
		{"of another kind", func(m *binfmt.Manifest) { m.Fields[2].Kind = binfmt.Int64 }, []string{"weight", "image"}, `field "weight" is float64 in the dataset "data"`},
		{"a field that no member has", func(*binfmt.Manifest) {}, []string{"image", "nothing"}, `fields: "nothing": the dataset "data" has`},
		{"classes", func(m *binfmt.Manifest) { m.Classes = []string{"cat"} }, []string{"image", "label"}, `field "label": the classes of the datasets "data" and "more" differ`},
		{"classes of no label", func(*binfmt.Manifest) {}, []string{"image"}, ""},
	} {
		rewrite(c.change)
		o := k.options(t)
		o.Fields = c.fields
		l, err := Open(t.Context(), o)
		switch {
		case err == nil:
			must(t, l.Close())
			if c.want != "" {
				t.Errorf("%s: opened", c.what)
			}
		case c.want == "" || !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestWholeSpec: a specification that is given whole has the dataset's number of samples filled in, and must fit.
func TestWholeSpec(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	k.beside(t, "more", 30, 0)
	options := func(change func(*sampler.Spec)) Options {
		o := k.options(t)
		for i := range o.Sources {
			o.Sources[i].Weight = 0
		}
		o.Seed, o.GlobalBatch = 0, 0
		o.Spec = &sampler.Spec{Version: 2, Seed: 7, GlobalBatch: 8, Shuffle: sampler.ShuffleBlock, Chunk: 4, Window: 3, Sources: []sampler.Source{
			{Name: "data", Weight: 1}, {Name: "more", Samples: 30, Weight: 2},
		}, Changes: []sampler.Change{{Step: 5, Weights: map[string]float64{"data": 0}}}}
		change(o.Spec)
		return o
	}
	l := mustOpen(t, options(func(*sampler.Spec) {}))
	for step := range int64(8) {
		b := nextStep(t, l)
		for _, ref := range b.Samples {
			if step >= 5 && ref.Source == 0 {
				t.Errorf("step %d: a sample of the source that was taken out", step)
			}
		}
		b.Release()
	}
	for want, change := range map[string]func(*sampler.Spec){
		"1 sources, and 2 datasets":          func(s *sampler.Spec) { s.Sources = s.Sources[:1] },
		`sources[0] is "more", and`:          func(s *sampler.Spec) { s.Sources[0], s.Sources[1] = s.Sources[1], s.Sources[0] },
		`"more" has 31 samples, its dataset`: func(s *sampler.Spec) { s.Sources[1].Samples = 31 },
	} {
		if _, err := Open(t.Context(), options(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	twice := options(func(*sampler.Spec) {})
	twice.Seed = 7
	if _, err := Open(t.Context(), twice); err == nil || !strings.Contains(err.Error(), "give one or the other") {
		t.Errorf("seed beside a specification: %v", err)
	}
}

// TestMixtureEnds: a run whose sources all reach their last epoch is over.
func TestMixtureEnds(t *testing.T) {
	k := newKit(t, 24, 20, nil)
	k.beside(t, "more", 16, 1)
	o := k.options(t)
	for i := range o.Sources {
		o.Sources[i].MaxEpochs = 1
	}
	l := mustOpen(t, o)
	seen := map[string]int{}
	for ends := 0; ends < 3; {
		b, err := l.Next(t.Context())
		if errors.Is(err, io.EOF) {
			ends++
			continue
		}
		must(t, err)
		ends = 0
		for _, ref := range b.Samples {
			seen[fmt.Sprint(ref.Source, "/", ref.Sample)]++
		}
		b.Release()
	}
	if len(seen) != 40 {
		t.Errorf("%d of 40 samples", len(seen))
	}
	for s, n := range seen {
		if n != 1 {
			t.Errorf("sample %s came %d times", s, n)
		}
	}
}

// nextStep returns the next batch, of the next epoch if one has ended.
func nextStep(t testing.TB, l *Loader) *Batch {
	t.Helper()
	b, err := l.Next(t.Context())
	if errors.Is(err, io.EOF) {
		b, err = l.Next(t.Context())
	}
	must(t, err)
	return b
}

func fieldOf(b *Batch, name string) *FieldData {
	return &b.Fields[slices.IndexFunc(b.Fields, func(f FieldData) bool { return f.Name == name })]
}

// jobOf is the work of a sample of the kit's sources.
func jobOf(o Options, ref sampler.SampleRef) worker.Job {
	half, _ := o.Plans["image"].Cut()
	return worker.Job{Plan: half, Key: transform.Key{Seed: o.Seed, Source: o.Sources[ref.Source].Name, Epoch: ref.Epoch, Sample: ref.Sample}}
}

// TestMixtureStates: a state names the dataset that differs, and loads after a source was added.
func TestMixtureStates(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	k.beside(t, "more", 30, 1)
	two := mustOpen(t, k.options(t))
	for range 3 {
		nextStep(t, two).Release()
	}
	st, err := sampler.ParseState(two.State().Marshal())
	must(t, err)
	if len(st.Members) != 2 || len(st.Marshal()) > 1024 {
		t.Errorf("%d bytes: %s", len(st.Marshal()), st.Marshal())
	}
	k.beside(t, "late", 10, 0)
	o := k.options(t)
	for i := range o.Sources {
		o.Sources[i].Weight = 0
	}
	o.Seed, o.GlobalBatch = 0, 0
	spec := two.spec
	spec.Sources = append(slices.Clone(spec.Sources), sampler.Source{Name: "late"})
	spec.EpochSteps = two.StepsPerEpoch()
	spec.Changes = []sampler.Change{{Step: 4, Weights: map[string]float64{"late": 1}}}
	o.Spec = &spec
	three := mustOpen(t, o)
	must(t, three.Load(st))
	same(t, 3, nextIDs(t, three), nextIDs(t, two))
	late := 0
	for range 4 {
		for _, ref := range nextIDs(t, three) {
			late += int(ref.Source) / 2
		}
	}
	if late == 0 {
		t.Error("nothing of the source that was added")
	}
	other := newKit(t, 48, 20, nil)
	other.beside(t, "more", 30, 1, with(3, kindBad))
	if err := mustOpen(t, other.options(t)).Load(st); !mismatched(err, `dataset of "more": `) || mismatched(err, `dataset of "data"`) {
		t.Errorf("another version of one dataset: %v", err)
	}
}
