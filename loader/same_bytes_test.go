package loader

import (
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/loader/proof"
	"github.com/stepahead-io/stepahead/sampler"
)

// life is one way of running the same job: what may never show in its bytes.
type life struct {
	Segments []segment
	Agents   [3]conduct // of dn1 to dn3; "" is not there
	Turns    []turnOf   // what agents do later
	Layout   string
}

// segment is one start of the job: it delivers up to Stop, and the next one resumes at Saved.
type segment struct {
	World, Prefetch, Workers int
	Stop, Saved              int64
	InPlace                  bool // resume by Load rather than by Options.Resume
}

// turnOf changes an agent's conduct when a step was delivered; "killed" kills it.
type turnOf struct {
	Step  int64
	Agent int
	How   conduct
}

const killed conduct = "killed"

// lifeSteps is how far every life goes: two epochs.
const lifeSteps = 12

func drawLife(t *rapid.T) life {
	l := life{Layout: rapid.SampledFrom([]string{ChannelsLast, Contiguous}).Draw(t, "layout")}
	how := rapid.SampledFrom(append([]conduct{"", lyingRaw, honest, honest, byIDs}, conducts...))
	for i := range l.Agents {
		l.Agents[i] = how.Draw(t, "agent")
	}
	for range rapid.IntRange(0, 3).Draw(t, "turns") {
		l.Turns = append(l.Turns, turnOf{
			Step: rapid.Int64Range(0, lifeSteps).Draw(t, "step"), Agent: rapid.IntRange(0, 2).Draw(t, "which"),
			How: rapid.SampledFrom(append([]conduct{killed}, conducts...)).Draw(t, "how"),
		})
	}
	for at := int64(0); at < lifeSteps; {
		s := segment{
			World:    rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "world"),
			Prefetch: rapid.IntRange(1, 5).Draw(t, "prefetch"), Workers: rapid.IntRange(1, 3).Draw(t, "workers"),
			InPlace: rapid.Bool().Draw(t, "load"),
		}
		s.Stop = rapid.Int64Range(at+1, lifeSteps).Draw(t, "stop")
		if s.Saved = s.Stop; s.Stop < lifeSteps {
			s.Saved = rapid.Int64Range(at, s.Stop).Draw(t, "saved")
		}
		l.Segments = append(l.Segments, s)
		at = max(s.Saved, at+1) // a run that never saves would never end
		l.Segments[len(l.Segments)-1].Saved = at
		if s.Stop < at {
			l.Segments[len(l.Segments)-1].Stop = at
		}
	}
	return l
}

// lifeKit has a sample with wrong bytes, one that cannot be decoded and one whose worker dies once.
func lifeKit(t testing.TB) *kit {
	k := newKit(t, 48, 17, nil, with(9, kindBad), with(30, kindOnce))
	k.damage(t, 5)
	return k
}

// live runs a life and returns the digest of all that it delivered.
func live(t testing.TB, k *kit, l life, folder string) [32]byte {
	t.Helper()
	c := newCluster(t, k)
	for i, how := range l.Agents {
		if how != "" {
			c.add(t, kitNodes[i], fmt.Sprintf("127.0.0.1:%d", 7000+i), how)
		}
	}
	defer func() {
		for _, a := range c.agents {
			a.kill()
		}
	}()
	var files []string
	var state *sampler.State
	for n, s := range l.Segments {
		var wg sync.WaitGroup
		states := make([]sampler.State, s.World)
		run := fmt.Sprintf("run-%d", n)
		for rank := range s.World {
			o := c.options(t)
			o.Layout, o.World, o.Rank, o.Prefetch, o.Workers, o.Run = l.Layout, s.World, rank, s.Prefetch, s.Workers, run
			o.Plans["image"] = floatPlan(t)
			o.RecordPath = filepath.Join(folder, fmt.Sprintf("%d-%d.jsonl", n, rank))
			o.testing.minWait, o.FetchDeadline = 3*time.Millisecond, 3*time.Millisecond
			files = append(files, o.RecordPath)
			wg.Go(func() { states[rank] = c.segment(t, o, l, s, state) })
		}
		wg.Wait()
		for rank, st := range states {
			if string(st.Marshal()) != string(states[0].Marshal()) {
				t.Fatalf("rank %d has another state than rank 0: %s, %s", rank, st.Marshal(), states[0].Marshal())
			}
		}
		state = &states[0]
	}
	digest, sum, err := proof.Digest(files...)
	must(t, err)
	if sum.Steps != lifeSteps || sum.Batch != 8 {
		t.Fatalf("records of %d steps of %d", sum.Steps, sum.Batch)
	}
	return digest
}

// segment runs one rank of one start, and returns the state that the next start resumes from.
func (c *cluster) segment(t testing.TB, o Options, life life, s segment, from *sampler.State) (saved sampler.State) {
	if !s.InPlace {
		o.Resume = from
	}
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Error(err)
		return saved
	}
	defer l.Close()
	if s.InPlace && from != nil {
		if err := l.Load(*from); err != nil {
			t.Error(err)
		}
	}
	for {
		step := l.State().Step
		if step == s.Saved {
			saved = l.State()
		}
		if step == s.Stop {
			return saved
		}
		if o.Rank == 0 {
			c.take(life, step)
		}
		b, err := l.Next(t.Context())
		if err == io.EOF {
			continue
		}
		if err != nil {
			t.Errorf("rank %d of %d, step %d: %v", o.Rank, o.World, step, err)
			return saved
		}
		b.Release()
	}
}

// take lets the agents turn when a step is reached.
func (c *cluster) take(l life, step int64) {
	for _, turn := range l.Turns {
		for _, a := range c.agents {
			if turn.Step != step || a.node != kitNodes[turn.Agent] {
				continue
			}
			if turn.How == killed {
				a.kill()
			} else {
				a.set(turn.How)
			}
		}
	}
}

// plainLife has no agents and is never stopped.
var plainLife = life{Segments: []segment{{World: 1, Prefetch: 1, Workers: 1, Stop: lifeSteps, Saved: lifeSteps}}, Layout: ChannelsLast}

// The same seed gives the same bytes, whatever the world size, prefetch depth and number of workers,
// wherever the job is killed and resumed, and whatever agents do: invariants 1 and 2.
func TestSameSeedSameBytes(t *testing.T) {
	checkLives(t, lifeKit(t), 12)
}

func TestSameSeedSameBytesLong(t *testing.T) {
	testdata.Soak(t)
	checkLives(t, lifeKit(t), 1500)
}

// Several datasets, some of them smaller than a batch, and one of them with bad samples, give the same bytes too.
func TestSameSeedSameBytesOfAMixture(t *testing.T) {
	checkLives(t, mixedKit(t), 12)
}

func TestSameSeedSameBytesOfAMixtureLong(t *testing.T) {
	testdata.Soak(t)
	checkLives(t, mixedKit(t), 1000)
}

// Samples that are grouped by length too, of any world size and wherever within a window the job is killed.
func TestSameSeedSameBytesInGroups(t *testing.T) {
	checkLives(t, groupedKit(t), 5)
}

func TestSameSeedSameBytesInGroupsLong(t *testing.T) {
	testdata.Soak(t)
	checkLives(t, groupedKit(t), 1000)
}

// Parts that are delivered as they are stored too: with pictures of agents beside them, and wrong bytes in either.
func TestSameSeedSameBytesWithStoredParts(t *testing.T) {
	checkLives(t, notedKit(t), 5)
}

func TestSameSeedSameBytesWithStoredPartsLong(t *testing.T) {
	testdata.Soak(t)
	checkLives(t, notedKit(t), 400)
}

// notedKit is lifeKit whose samples have notes, one of them with wrong bytes.
func notedKit(t testing.TB) *kit {
	k := newKit(t, 48, 17, nil, with(9, kindBad), with(30, kindOnce))
	k.note(t)
	k.damage(t, 5)
	k.flip(t, 20, k.noteOffs[20])
	return k
}

func groupedKit(t testing.TB) *kit {
	k := mixedKit(t)
	k.group = &sampler.GroupByLength{Column: "image.length", Steps: 5}
	return k
}

// mixedKit is lifeKit and two others beside it: one of many samples, and one of three.
func mixedKit(t testing.TB) *kit {
	k := lifeKit(t)
	k.beside(t, "many", 40, 2.5, with(11, kindBad)).damage(t, 17)
	k.beside(t, "few", 3, 0.5)
	return k
}

func checkLives(t *testing.T, k *kit, checks int) {
	want := live(t, k, plainLife, t.TempDir())
	old := flag.Lookup("rapid.checks").Value.String()
	must(t, flag.Set("rapid.checks", fmt.Sprint(checks)))
	defer flag.Set("rapid.checks", old)
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLife(rt)
		if got := live(t, k, l, t.TempDir()); got != want {
			rt.Fatalf("digest %x, want %x", got, want)
		}
	})
}
