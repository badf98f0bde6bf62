package loader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

func mustOpen(t testing.TB, o Options) *Loader {
	t.Helper()
	l, err := Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

// take returns the sample ids of the next n batches; it fails at the end of an epoch.
func take(t testing.TB, l *Loader, n int) (ids [][]uint64) {
	t.Helper()
	for range n {
		b, err := l.Next(t.Context())
		must(t, err)
		ids = append(ids, idsOf(b))
		b.Release()
	}
	return ids
}

func idsOf(b *Batch) []uint64 {
	var ids []uint64
	for _, s := range b.Samples {
		ids = append(ids, s.Sample)
	}
	return ids
}

// epoch returns the batches up to the end of the epoch.
func epoch(t testing.TB, l *Loader) (ids [][]uint64) {
	t.Helper()
	for {
		b, err := l.Next(t.Context())
		if err == io.EOF {
			return ids
		}
		must(t, err)
		ids = append(ids, idsOf(b))
		b.Release()
	}
}

func equal(t testing.TB, what string, got, want [][]uint64) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func field0(b *Batch, name string) *FieldData {
	for i := range b.Fields {
		if b.Fields[i].Name == name {
			return &b.Fields[i]
		}
	}
	return nil
}

func TestBatchHoldsWhatTheOrderSays(t *testing.T) {
	k := newKit(t, 50, 13, nil)
	for _, layout := range []string{ChannelsLast, Contiguous} {
		o := k.options(t)
		o.Layout = layout
		l := mustOpen(t, o)
		for step := range int64(8) {
			b, err := l.Next(t.Context())
			if err == io.EOF {
				b, err = l.Next(t.Context())
			}
			must(t, err)
			checkBatch(t, k, l, b, step)
			b.Release()
		}
	}
}

func checkBatch(t *testing.T, k *kit, l *Loader, b *Batch, step int64) {
	t.Helper()
	want := l.sampler.Step(step, nil)
	if b.Step != step || b.Epoch != l.sampler.Epoch(step) || !slices.Equal(b.Samples, want) {
		t.Fatalf("step %d: got %d, epoch %d, %v, want %v", step, b.Step, b.Epoch, b.Samples, want)
	}
	img := field0(b, "image")
	if fmt.Sprint(img.Shape) != "[8 3 6 5]" || img.Dtype != "uint8" || img.Addr()%fieldAlign != 0 {
		t.Fatalf("image: %v %s at %#x", img.Shape, img.Dtype, img.Addr())
	}
	for i, ref := range want {
		hwc := make([]byte, 6*5*3)
		f := l.media[0]
		fakePixels(worker.Job{Plan: f.agent, Key: transform.Key{Seed: 7, Epoch: ref.Epoch, Sample: ref.Sample}}, k.parts[ref.Sample], hwc)
		for c := range 3 {
			for y := range 6 {
				for x := range 5 {
					s := img.Strides
					if got, want := img.Bytes[i*s[0]+c*s[1]+y*s[2]+x*s[3]], hwc[(y*5+x)*3+c]; got != want {
						t.Fatalf("sample %d, channel %d, row %d, column %d: %d, want %d", ref.Sample, c, y, x, got, want)
					}
				}
			}
		}
		if got := binary.LittleEndian.Uint64(field0(b, "label").Bytes[8*i:]); got != ref.Sample*10 {
			t.Fatalf("label of %d: %d", ref.Sample, got)
		}
		if got := field0(b, "good").Bytes[i]; got != byte(ref.Sample%2) {
			t.Fatalf("good of %d: %d", ref.Sample, got)
		}
		if got := field0(b, "caption").Strings[i]; got != fmt.Sprintf("photograph %d", ref.Sample) {
			t.Fatalf("caption of %d: %q", ref.Sample, got)
		}
	}
}

func TestTailIsAppliedHere(t *testing.T) {
	k := newKit(t, 20, 20, nil)
	o := k.options(t)
	o.Plans["image"] = floatPlan(t)
	o.Fields = []string{"image"}
	var layouts [2][]byte
	for i, layout := range []string{ChannelsLast, Contiguous} {
		o.Layout = layout
		o.Runner = &fakePool{}
		l := mustOpen(t, o)
		b, err := l.Next(t.Context())
		must(t, err)
		f := b.Fields[0]
		if len(b.Fields) != 1 || f.Dtype != "float32" || len(f.Bytes) != 8*3*6*5*4 {
			t.Fatalf("fields %d, %s, %d bytes", len(b.Fields), f.Dtype, len(f.Bytes))
		}
		for n := range 8 {
			for c := range 3 {
				for p := range 30 {
					at := n*f.Strides[0] + c*f.Strides[1] + p/5*f.Strides[2] + p%5*f.Strides[3]
					layouts[i] = append(layouts[i], f.Bytes[4*at:4*at+4]...)
				}
			}
		}
		checkTail(t, k, l, b)
		b.Release()
	}
	if !bytes.Equal(layouts[0], layouts[1]) {
		t.Fatal("the layouts hold different values")
	}
}

// checkTail compares a batch with what a Finisher makes of every sample's pixels, with the sample's own key: a RandomErasing
// of the tail erases in each what nobody else's place or layout decides.
func checkTail(t *testing.T, k *kit, l *Loader, b *Batch) {
	t.Helper()
	field, f := l.media[0], b.Fields[0]
	finisher, err := transform.NewFinisher(field.rest, 3)
	must(t, err)
	erased := 0
	for n, ref := range b.Samples {
		key := transform.Key{Seed: 7, Epoch: ref.Epoch, Sample: ref.Sample}
		half, want := make([]byte, 6*5*3), make([]byte, 6*5*3*4)
		fakePixels(worker.Job{Plan: field.agent, Key: key}, k.parts[ref.Sample], half)
		finisher.Apply(want, half)
		plain := bytes.Clone(want)
		finisher.Erase(want, 6, 5, key)
		if !bytes.Equal(plain, want) {
			erased++
		}
		for p := range 30 {
			for c := range 3 {
				at := 4 * (n*f.Strides[0] + c*f.Strides[1] + p/5*f.Strides[2] + p%5*f.Strides[3])
				if !bytes.Equal(f.Bytes[at:at+4], want[4*(3*p+c):4*(3*p+c)+4]) {
					t.Fatalf("sample %d, pixel %d, channel %d: other bytes than the Finisher's", ref.Sample, p, c)
				}
			}
		}
	}
	if erased == 0 || erased == len(b.Samples) {
		t.Fatalf("%d of %d samples are erased", erased, len(b.Samples))
	}
}

// One loop is the rest of an epoch, the next loop the next epoch.
func TestEpochs(t *testing.T) {
	k := newKit(t, 30, 30, nil) // 3 steps an epoch
	o := k.options(t)
	o.Epochs = 3
	l := mustOpen(t, o)
	var all [][]uint64
	for e := range 3 {
		got := epoch(t, l)
		if len(got) != 3 {
			t.Fatalf("epoch %d has %d steps", e, len(got))
		}
		all = append(all, got...)
	}
	for range 2 {
		if _, err := l.Next(t.Context()); err != io.EOF {
			t.Fatalf("after the last epoch: %v", err)
		}
	}
	o.Runner = &fakePool{}
	o.Epochs = 0
	r := mustOpen(t, o)
	st := r.State()
	st.Step, st.Epoch = 4, 1
	must(t, r.Load(st))
	equal(t, "rest of epoch 1", epoch(t, r), all[4:6])
	equal(t, "epoch 2", epoch(t, r), all[6:9])
	if got := epoch(t, r); len(got) != 3 {
		t.Fatalf("endless run: epoch 3 has %d steps", len(got))
	}
}

// The state of a run at any step is the one that it has when it comes there.
func TestStateAt(t *testing.T) {
	k := newKit(t, 30, 30, nil)
	walked, jumped := mustOpen(t, k.options(t)), mustOpen(t, k.options(t))
	for step := range int64(5) {
		at, err := jumped.StateAt(step)
		must(t, err)
		if got, want := at.Marshal(), walked.State().Marshal(); !bytes.Equal(got, want) {
			t.Fatalf("before step %d: %s, want %s", step, got, want)
		}
		must(t, jumped.Load(at))
		b, want := nextStep(t, jumped), nextStep(t, walked)
		if b.Step != step || !slices.Equal(b.Samples, want.Samples) {
			t.Fatalf("step %d, loaded at %d: %v, want %v", b.Step, step, b.Samples, want.Samples)
		}
		b.Release()
		want.Release()
	}
	if _, err := jumped.StateAt(-1); !errors.Is(err, ErrOptions) {
		t.Fatalf("before the first step: %v", err)
	}
}

// A state taken at the end of an epoch starts the next one, and is not changed by loading.
func TestStateAtEndOfEpoch(t *testing.T) {
	k := newKit(t, 30, 30, nil)
	l := mustOpen(t, k.options(t))
	whole := epoch(t, l)
	before := l.State().Marshal()
	second := epoch(t, l)
	if len(whole) != 3 || len(second) != 3 {
		t.Fatal("epochs are not whole")
	}
	st, err := sampler.ParseState(before)
	must(t, err)
	r := mustOpen(t, k.options(t))
	must(t, r.Load(st))
	if got := r.State().Marshal(); !bytes.Equal(got, before) {
		t.Fatalf("state after loading: %s, want %s", got, before)
	}
	equal(t, "epoch after the state", epoch(t, r), second)
	// The state before the end was reported: loading it does not report it.
	must(t, l.Load(st))
	take(t, l, 3)
	must(t, l.Load(l.State()))
	if got := epoch(t, l); len(got) != 3 {
		t.Fatalf("after loading at an epoch's end: %d steps", len(got))
	}
}

// A loop that is left after an epoch's last batch does not make the next loop empty.
func TestBeginForgetsTheEnd(t *testing.T) {
	k := newKit(t, 30, 30, nil)
	l := mustOpen(t, k.options(t))
	take(t, l, 3)
	must(t, l.Begin())
	if got := epoch(t, l); len(got) != 3 {
		t.Fatalf("the loop after has %d steps", len(got))
	}
}

// Resuming gives the next step first and reads nothing of what is skipped, with state counted
// by delivered batches, not by those built ahead.
func TestResumeReadsNothingSkipped(t *testing.T) {
	k := newKit(t, 160, 40, nil)
	l := mustOpen(t, k.options(t))
	take(t, l, 12)
	st := l.State()
	if st.Step != 12 {
		t.Fatalf("state: step %d after 12 batches", st.Step)
	}
	want := take(t, l, 5)

	counting := &tally{Store: k.store}
	o := k.options(t)
	o.Store, o.Resume, o.Prefetch = counting, &st, 1
	r := mustOpen(t, o)
	if n := counting.bytes.Load(); n != 0 {
		t.Fatalf("%d bytes were read before the first Next", n)
	}
	equal(t, "resumed", take(t, r, 5), want)
	if got, most := counting.bytes.Load(), int64(6*8*400+4*64); got > most {
		t.Fatalf("%d bytes read for 5 steps and one ahead, at most %d expected", got, most)
	}
}

func TestLoadRefusesAnotherRun(t *testing.T) {
	k := newKit(t, 40, 40, nil)
	l := mustOpen(t, k.options(t))
	take(t, l, 2)
	o := k.options(t)
	o.Seed = 8
	other := mustOpen(t, o)
	var mismatch *sampler.MismatchError
	if err := l.Load(other.State()); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "seed: 8 in the state, 7 here") {
		t.Fatalf("got %v", err)
	}
	if l.State().Step != 2 {
		t.Fatal("a refused state moved the run")
	}
	bad := other.State()
	o.Resume = &bad
	o.Seed = 7
	o.Runner = &fakePool{}
	if _, err := Open(t.Context(), o); !errors.As(err, &mismatch) {
		t.Fatalf("Open with another run's state: %v", err)
	}
}

func ids(l *Loader, steps ...int64) (out [][]uint64) {
	for _, s := range steps {
		var row []uint64
		for _, r := range l.sampler.Rank(s, l.o.Rank, l.o.World, nil) {
			row = append(row, r.Sample)
		}
		out = append(out, row)
	}
	return out
}

func TestOptionsAndFields(t *testing.T) {
	k := newKit(t, 40, 40, nil)
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Plans = nil }, `media field "image" has no plan: give it one with transform=, or leave it out with fields=`},
		{func(o *Options) { o.Fields = []string{"nope"} }, `fields: "nope": the dataset has [image (media) label (int64)`},
		{func(o *Options) { o.Fields, o.Plans = []string{"nope"}, map[string]*transform.Plan{"": cropPlan(t)} }, `fields: "nope"`},
		{func(o *Options) { o.Plans["label"] = o.Plans["image"] }, `"label" is no media field`},
		{func(o *Options) { o.Plans[""] = o.Plans["image"] }, "one plan for the media fields [image]"},
		{func(o *Options) { o.World, o.Rank = 3, 0 }, "3"},
		{func(o *Options) { o.Rank = 2 }, "rank: 2: must be 0 to 0"},
		{func(o *Options) { o.GlobalBatch = 41 }, "41"},
		{func(o *Options) { o.Dir = "/none" }, "open the dataset " + k.root + "/none"},
		{func(o *Options) { o.Given, o.Shuffle = true, sampler.ShuffleFull }, `shuffle: "full": the steps are given`},
		{func(o *Options) { o.Given, o.Last = true, sampler.LastPad }, `last: "pad": the steps are given`},
		{func(o *Options) { o.Given, o.Epochs = true, 3 }, "epochs: 3: the steps are given"},
		{func(o *Options) { o.Layout = "x" }, `layout: "x"`},
		{func(o *Options) { o.OnBad = "x" }, `on_bad: "x"`},
		{func(o *Options) { o.Prefetch = -1 }, "prefetch: -1"},
		{func(o *Options) { o.Workers = 1_000_000 }, "workers: 1000000"},
		{func(o *Options) { o.Agents = []string{"auto"} }, "url: missing"},
		{func(o *Options) { o.Agents, o.URL, o.World = []string{"auto"}, "x", 2 }, "job, run"},
		{func(o *Options) { o.Agents, o.URL = []string{"auto", "1.2.3.4:5"}, "x" }, "cannot be joined"},
		{func(o *Options) { o.Agents, o.URL = []string{"nohost"}, "x" }, `agents: "nohost"`},
		{func(o *Options) { o.RecordPath = filepath.Join(k.root, "no", "such") }, "no such file"},
	} {
		o := k.options(t)
		c.change(&o)
		_, err := Open(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q in it", err, c.want)
		}
		if n := o.Runner.(*fakePool).closed.Load(); n != 1 {
			t.Errorf("%s: the runner was closed %d times", c.want, n)
		}
	}
	o := k.options(t)
	o.Plans = map[string]*transform.Plan{"": cropPlan(t)}
	if take(t, mustOpen(t, o), 1)[0] == nil {
		t.Fatal("a plan without a name gives nothing")
	}
	o.Plans, o.Fields, o.Runner = nil, []string{"caption", "label"}, nil
	l := mustOpen(t, o) // no media: no worker is needed
	b, err := l.Next(t.Context())
	must(t, err)
	if len(b.Fields) != 2 || b.Fields[0].Name != "label" || b.Fields[1].Dtype != "str" {
		t.Fatalf("fields: %+v", b.Fields)
	}
	b.Release()
}
