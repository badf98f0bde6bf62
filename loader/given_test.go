package loader

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/sampler"
)

// givenKit is a kit of two sources, and the options of a loader whose steps are given.
func givenKit(t *testing.T) (*kit, func(c *cluster) Options) {
	k := newKit(t, 48, 20, nil)
	k.beside(t, "more", 5, 0)
	return k, func(c *cluster) Options {
		o := k.options(t)
		if c != nil {
			o = c.options(t)
		}
		for i := range o.Sources {
			o.Sources[i].Weight = 0
		}
		o.Given = true
		return o
	}
}

// lists makes the lists of steps by a rule that no specification knows.
func lists(first, end int64, salt uint64) [][]sampler.SampleRef {
	var steps [][]sampler.SampleRef
	for step := first; step < end; step++ {
		refs := make([]sampler.SampleRef, 8)
		for i := range refs {
			n := uint64(step)*11 + uint64(i)*5 + salt
			refs[i] = sampler.SampleRef{Source: int32(n % 3 / 2), Sample: n % 48, Epoch: uint64(step)}
			if refs[i].Source == 1 {
				refs[i].Sample = n % 5
			}
		}
		steps = append(steps, refs)
	}
	return steps
}

// nextIDs are the samples of the next batch, after which it is released.
func nextIDs(t *testing.T, l *Loader) []sampler.SampleRef {
	t.Helper()
	b, err := l.Next(t.Context())
	must(t, err)
	defer b.Release()
	return append([]sampler.SampleRef{}, b.Samples...)
}

func same(t *testing.T, step int64, got, want []sampler.SampleRef) {
	t.Helper()
	for i := range want {
		want[i].Position = got[i].Position
		if got[i] != want[i] {
			t.Fatalf("step %d, place %d: %+v, want %+v", step, i, got[i], want[i])
		}
	}
}

// TestGivenSteps: what is given is delivered, on every rank its part, and a loop ends with what was given.
func TestGivenSteps(t *testing.T) {
	_, options := givenKit(t)
	var ranks []*Loader
	for rank := range 2 {
		o := options(nil)
		o.World, o.Rank = 2, rank
		ranks = append(ranks, mustOpen(t, o))
	}
	for round := range int64(3) {
		steps := lists(4*round, 4*round+4, 0)
		for rank, l := range ranks {
			must(t, l.Give(0, 4*round, steps))
			for i, want := range steps {
				got := nextIDs(t, l)
				if got[0].Position != int64(4*rank) {
					t.Errorf("rank %d begins at position %d", rank, got[0].Position)
				}
				same(t, 4*round+int64(i), got, want[4*rank:4*rank+4])
			}
			if _, err := l.Next(t.Context()); !errors.Is(err, io.EOF) {
				t.Errorf("rank %d, after what was given: %v", rank, err)
			}
		}
		if a, b := ranks[0].State().Marshal(), ranks[1].State().Marshal(); string(a) != string(b) {
			t.Errorf("ranks that were given the same have other states: %s, %s", a, b)
		}
	}
	if n := ranks[0].StepsPerEpoch(); n != 0 {
		t.Errorf("%d steps an epoch", n)
	}
}

// TestTakenBack: a larger number takes back what was not delivered, however far ahead it was built.
func TestTakenBack(t *testing.T) {
	_, options := givenKit(t)
	l := mustOpen(t, options(nil))
	must(t, l.Give(3, 0, lists(0, 10, 0)))
	for step := range int64(2) {
		same(t, step, nextIDs(t, l), lists(step, step+1, 0)[0])
	}
	before := l.State().Given.Digest
	must(t, l.Give(4, 2, lists(2, 4, 1)))
	if l.State().Given.Digest != before {
		t.Error("what was not delivered is in the digest")
	}
	must(t, l.Give(4, 4, lists(4, 5, 2)))
	for step := range int64(2) {
		same(t, 2+step, nextIDs(t, l), lists(2+step, 3+step, 1)[0])
	}
	same(t, 4, nextIDs(t, l), lists(4, 5, 2)[0])
	if _, err := l.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("a step that was taken back and not given again: %v", err)
	}
}

// TestGivenWrongly: each mistake is named, and changes nothing.
func TestGivenWrongly(t *testing.T) {
	k, options := givenKit(t)
	l := mustOpen(t, options(nil))
	must(t, l.Give(1, 0, lists(0, 2, 0)))
	short, strange, beyond := lists(2, 3, 0), lists(2, 3, 0), lists(2, 3, 0)
	short[0] = short[0][:7]
	strange[0][3].Source = 2
	beyond[0][3] = sampler.SampleRef{Source: 1, Sample: 5}
	for want, err := range map[string]error{
		"the next step to give is 2":                 l.Give(1, 3, lists(3, 4, 0)),
		"numbers do not fall":                        l.Give(0, 2, lists(2, 3, 0)),
		"begins at the next step to deliver":         l.Give(2, 2, lists(2, 3, 0)),
		"step 2: 7 samples, the global batch is 8":   l.Give(1, 2, short),
		"position 3: source 2: there are 2":          l.Give(1, 2, strange),
		`position 3: sample 5 of "more": the source`: l.Give(1, 2, beyond),
		`make it with order="given"`:                 mustOpen(t, k.options(t)).Give(0, 0, lists(0, 1, 0)),
	} {
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	for step := range int64(2) {
		same(t, step, nextIDs(t, l), lists(step, step+1, 0)[0])
	}
}

// TestGivenStepsOnAgents: agents prepare what was given, and not what was taken back.
func TestGivenStepsOnAgents(t *testing.T) {
	k, options := givenKit(t)
	c := newCluster(t, k, kitNodes...)
	o := options(c)
	o.CanaryEvery = 1 << 60
	l := mustOpen(t, o)
	must(t, l.Give(1, 0, lists(0, 6, 0)))
	c.warm(t, l)
	for range 2 {
		nextIDs(t, l)
	}
	if s := l.Stats(); s.Prepared != 16 {
		t.Errorf("%d prepared in two steps: %v", s.Prepared, s.ByReason)
	}
	want := lists(2, 8, 1)
	must(t, l.Give(2, 2, want))
	for _, a := range c.agents {
		a.await(t, "the new number", func() bool { return a.number == 2 && len(a.told) == len(want) })
		for step, refs := range a.told {
			for i, told := range refs {
				if ref := want[step-2][i]; told != (hints.WindowSample{Source: uint32(ref.Source), Epoch: ref.Epoch, Sample: ref.Sample}) {
					t.Errorf("agent %s, step %d: %+v, want %+v", a.node, step, told, ref)
				}
			}
		}
	}
	for i := range want {
		same(t, int64(i)+2, nextIDs(t, l), want[i])
	}
}

// TestTakenBackWhileTold: what is given under a new number while a hint with the old one is under way reaches the agent all the same.
func TestTakenBackWhileTold(t *testing.T) {
	k, options := givenKit(t)
	c := newCluster(t, k, kitNodes[0])
	a, heard, goOn := c.agents[0], make(chan struct{}, 100), make(chan struct{})
	a.hear = func() {
		heard <- struct{}{}
		<-goOn
	}
	l := mustOpen(t, options(c))
	must(t, l.Give(1, 0, lists(0, 6, 0)))
	<-heard
	must(t, l.Give(2, 0, lists(0, 6, 1)))
	close(goOn)
	a.await(t, "the new number", func() bool { return a.number == 2 && len(a.told) == 6 })
}

// TestGivenStepsOfManySamples: steps of more ids than a message of several has are told one by one, further ahead than they are built; those of
// more than a message can have are told of in the log, and counted.
func TestGivenStepsOfManySamples(t *testing.T) {
	k, options := givenKit(t)
	give := func(batch int, o Options) *Loader {
		o.GlobalBatch = int64(batch)
		l := mustOpen(t, o)
		refs := make([]sampler.SampleRef, batch)
		for i := range refs {
			refs[i].Sample = uint64(i % 48)
		}
		must(t, l.Give(1, 0, slices.Repeat([][]sampler.SampleRef{refs}, 12)))
		return l
	}
	const batch = 11
	c := newCluster(t, k, kitNodes[0])
	o := options(c)
	o.testing.window, o.testing.ahead = batch-1, 12*(batch-1)
	l := give(batch, o)
	a := c.agents[0]
	a.await(t, "enough steps told", func() bool { return len(a.told) > l.o.Prefetch })
	a.mu.Lock()
	for step, samples := range a.told {
		if len(samples) != batch || step >= 10 {
			t.Errorf("step %d: %d samples", step, len(samples))
		}
	}
	for i, h := range a.hints {
		w := h.Window
		if h.Schedule != nil {
			w = h.Schedule.Window
		}
		if w == nil || len(w.Steps) != 1 || w.FirstStep != int64(i) {
			t.Errorf("hint %d is %+v: want one of step %d alone", i, h, i)
		}
	}
	a.mu.Unlock()

	core, logs := observer.New(zap.WarnLevel)
	o = options(newCluster(t, k, kitNodes[0]))
	o.Log = zap.New(core)
	l = give(2*windowSamples+1, o)
	waitUntil(t, func() bool {
		return logs.FilterMessageSnippet("did not take the schedule").Len() > 0 && l.Stats().HintsFailed > 0
	})
	if all := logs.FilterMessageSnippet("did not take the schedule").All(); !strings.Contains(fmt.Sprint(all[0].ContextMap()), "at most 262144") {
		t.Errorf("the log says %v", all[0].ContextMap())
	}
}

// TestGivenStepsResume: a state holds the number and the digest, the lists are given again, and a run that gives others
// can be told by its digest.
func TestGivenStepsResume(t *testing.T) {
	k, options := givenKit(t)
	l := mustOpen(t, options(nil))
	must(t, l.Give(5, 0, lists(0, 6, 0)))
	for range 3 {
		nextIDs(t, l)
	}
	if _, err := l.StateAt(2); !errors.Is(err, ErrOptions) {
		t.Fatalf("a state at another step: %v", err)
	}
	st, err := sampler.ParseState(l.State().Marshal())
	must(t, err)
	for range 3 {
		nextIDs(t, l)
	}
	want := l.State().Given.Digest
	o := options(nil)
	o.Resume = &st
	opened := mustOpen(t, o)
	loaded := mustOpen(t, options(nil))
	must(t, loaded.Load(st))
	for _, l := range []*Loader{opened, loaded} {
		if number, step := l.NextGiven(); number != 5 || step != 3 {
			t.Errorf("next is step %d of number %d", step, number)
		}
		must(t, l.Give(5, 3, lists(3, 6, 0)))
		for step := range int64(3) {
			same(t, 3+step, nextIDs(t, l), lists(3+step, 4+step, 0)[0])
		}
		if got := l.State().Given.Digest; got != want {
			t.Errorf("digest %s after a resume, %s without", got, want)
		}
	}
	must(t, opened.Load(st)) // back, with other lists
	must(t, opened.Give(5, 3, lists(3, 6, 9)))
	for range 3 {
		nextIDs(t, opened)
	}
	if opened.State().Given.Digest == want {
		t.Error("other lists have the same digest")
	}
	sampled := k.options(t)
	for i := range sampled.Sources {
		sampled.Sources[i].Weight = 0
	}
	if err := mustOpen(t, sampled).Load(st); !mismatched(err, "order: given in the state") {
		t.Errorf("a state of given steps in a run by a specification: %v", err)
	}
}

// TestGivenDigestThatIsNone: a state made by hand is refused, not taken up.
func TestGivenDigestThatIsNone(t *testing.T) {
	_, options := givenKit(t)
	l := mustOpen(t, options(nil))
	for _, digest := range []string{"", "ab", strings.Repeat("ab", 33), strings.Repeat("x", 64)} {
		st := l.State()
		st.Given = &sampler.Given{Digest: digest}
		if err := l.Load(st); err == nil || !strings.Contains(err.Error(), "given.digest") {
			t.Errorf("%q: %v", digest, err)
		}
	}
}

func mismatched(err error, want string) bool {
	var m *sampler.MismatchError
	return errors.As(err, &m) && slices.ContainsFunc(m.Diff, func(d string) bool { return strings.Contains(d, want) })
}
