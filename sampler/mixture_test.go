package sampler

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// mixture is a Spec of sources 0, 1, ... with these samples and weights.
func mixture(batch int64, samples []uint64, weights []float64) Spec {
	s := Spec{Version: SpecVersion, Seed: 7, GlobalBatch: batch}
	for i, n := range samples {
		s.Sources = append(s.Sources, Source{Name: fmt.Sprint("s", i), Samples: n})
		if weights != nil {
			s.Sources[i].Weight = weights[i]
		}
	}
	return s
}

// drawMixture draws sources of widely different sizes and weights.
func drawMixture(t *rapid.T) Spec {
	n := rapid.IntRange(1, 40).Draw(t, "sources")
	s := Spec{
		Version: SpecVersion, Seed: rapid.Uint64().Draw(t, "seed"), Last: LastCarry,
		GlobalBatch: rapid.Int64Range(1, 300).Draw(t, "batch"),
		Shuffle:     rapid.SampledFrom([]string{ShuffleFull, ShuffleNone, ShuffleBlock}).Draw(t, "shuffle"),
	}
	weighted := n > 1 && rapid.Bool().Draw(t, "weighted")
	for i := range n {
		src := Source{Name: fmt.Sprint("s", i), Samples: rapid.Uint64Range(1, 1<<rapid.IntRange(0, 12).Draw(t, "bits")).Draw(t, "samples")}
		if weighted {
			src.Weight = math.Ldexp(rapid.Float64Range(1, 2).Draw(t, "weight"), -rapid.IntRange(0, 12).Draw(t, "exponent"))
		} else if n > 1 && rapid.Bool().Draw(t, "upsampled") {
			src.Upsample = rapid.Float64Range(0.1, 10).Draw(t, "upsample")
		}
		s.Sources = append(s.Sources, src)
	}
	if n > 1 && rapid.Bool().Draw(t, "tempered") {
		s.Temperature = rapid.Float64Range(0.2, 10).Draw(t, "temperature")
	}
	return s
}

// ledger follows a run and checks that every source gives each of its samples exactly once an epoch,
// epoch after epoch.
type ledger struct {
	samples []uint64
	counts  []uint64
	seen    []map[uint64]bool
}

func newLedger(s Spec) *ledger {
	l := &ledger{counts: make([]uint64, len(s.Sources)), seen: make([]map[uint64]bool, len(s.Sources))}
	for i, src := range s.Sources {
		l.samples = append(l.samples, src.Samples)
		l.seen[i] = map[uint64]bool{}
	}
	return l
}

func (l *ledger) take(t rapid.TB, refs []SampleRef) {
	t.Helper()
	for _, r := range refs {
		i := int(r.Source)
		if want := l.counts[i] / l.samples[i]; r.Epoch != want {
			t.Fatalf("source %d: sample number %d of %d is of epoch %d, want %d", i, l.counts[i], l.samples[i], r.Epoch, want)
		}
		if r.Sample >= l.samples[i] || l.seen[i][r.Sample] {
			t.Fatalf("source %d epoch %d: sample %d of %d is repeated or does not exist", i, r.Epoch, r.Sample, l.samples[i])
		}
		l.seen[i][r.Sample] = true
		if l.counts[i]++; l.counts[i]%l.samples[i] == 0 {
			clear(l.seen[i])
		}
	}
}

// strays returns the largest distance of a count from its exact share of n samples.
func strays(counts, shares []uint64, n uint64) float64 {
	sum := new(big.Int)
	for _, s := range shares {
		sum.Add(sum, new(big.Int).SetUint64(s))
	}
	worst := 0.0
	for i, s := range shares {
		share := new(big.Rat).SetFrac(new(big.Int).Mul(new(big.Int).SetUint64(n), new(big.Int).SetUint64(s)), sum)
		d, _ := share.Sub(share, new(big.Rat).SetInt(new(big.Int).SetUint64(counts[i]))).Float64()
		worst = max(worst, math.Abs(d))
	}
	return worst
}

func TestAMixtureKeepsItsQuotasAndEverySourceItsEpochs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mustNew(t, drawMixture(t))
		spec := s.Spec()
		q := shares(startWeights(&spec), spec.Temperature)
		l := newLedger(spec)
		for step := range int64(12) {
			refs := s.Step(step, nil)
			l.take(t, refs)
			for p, r := range refs {
				if r.Position != int64(p) {
					t.Fatalf("step %d: position %d at %d", step, r.Position, p)
				}
			}
			if d := strays(l.counts, q, uint64(step+1)*uint64(spec.GlobalBatch)); d >= 1.5 {
				t.Fatalf("after step %d a source is %.3f samples from its share: %v of %v", step, d, l.counts, q)
			}
		}
	})
}

// The count of any source after any number of samples is its share rounded to the nearest, at most
// one more or less: this is the promise, at random places of endless runs and for random weights.
func TestQuotasAreWithinOneSampleAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawShares(t)
		tr := newTree(q)
		for range 15 {
			n := rapid.Uint64Range(0, 1<<rapid.IntRange(1, 55).Draw(t, "bits")).Draw(t, "n")
			counts := make([]uint64, len(q))
			tr.counts(tr.root, n, counts)
			if d := strays(counts, q, n); d >= 1.5 {
				t.Fatalf("%d samples: %.3f from the share; shares %v", n, d, q)
			}
		}
	})
}

func drawShares(t *rapid.T) []uint64 {
	kind := rapid.SampledFrom([]string{"even", "near", "any", "geometric"}).Draw(t, "kind")
	weights := make([]float64, rapid.IntRange(1, 60).Draw(t, "sources"))
	for i := range weights {
		switch kind {
		case "even":
			weights[i] = 1
		case "near":
			weights[i] = rapid.Float64Range(1, 1.05).Draw(t, "w")
		case "any":
			weights[i] = math.Exp(rapid.Float64Range(-12, 0).Draw(t, "w"))
		case "geometric":
			weights[i] = math.Pow(0.6, float64(i))
		}
	}
	return shares(weights, 0)
}

// The counts of small weights are exact at every multiple of their sum: blocks of it are all alike.
func TestQuotasOfWholeBlocksAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := make([]float64, rapid.IntRange(1, 12).Draw(t, "sources"))
		sum := uint64(0)
		for i := range weights {
			w := rapid.Uint64Range(1, 50).Draw(t, "w")
			weights[i] = float64(w)
			sum += w
		}
		tr := newTree(shares(weights, 0))
		block := rapid.Uint64Range(0, 1<<30).Draw(t, "block")
		counts := make([]uint64, len(weights))
		tr.counts(tr.root, block*sum, counts)
		for i, w := range weights {
			if counts[i] != block*uint64(w) {
				t.Fatalf("after %d blocks of %d, source %d of weight %v has %d", block, sum, i, w, counts[i])
			}
		}
	})
}

func TestFindCountsAndUnitsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawShares(t)
		tr := newTree(q)
		start := rapid.Uint64Range(0, 1<<60).Draw(t, "start")
		counts := make([]uint64, len(q))
		tr.counts(tr.root, start, counts)
		for n := range uint64(200) {
			i, c := tr.find(start + n)
			if c != counts[i] {
				t.Fatalf("unit %d is number %d of source %d, counted %d", start+n, c, i, counts[i])
			}
			counts[i]++
			nth := make([]uint64, len(q))
			nth[i] = c
			if got := tr.units(nth)[i]; got != start+n {
				t.Fatalf("number %d of source %d is unit %d, want %d", c, i, got, start+n)
			}
		}
	})
}

func TestRanksDealAMixtureLikeTheWholeStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawMixture(t)
		world := rapid.IntRange(1, 16).Draw(t, "world")
		spec.GlobalBatch = int64(world) * rapid.Int64Range(1, 80).Draw(t, "each")
		s := mustNew(t, spec)
		step := rapid.Int64Range(0, 1<<50).Draw(t, "step")
		var dealt []SampleRef
		for r := range world {
			dealt = s.Rank(step, r, world, dealt)
		}
		if !slices.Equal(dealt, s.Step(step, nil)) {
			t.Fatal("the ranks' parts are not the step")
		}
	})
}

// Sources of a few samples, and weights at which other blends crash: tiny sources wrap to their next epoch.
func TestTinySourcesAndExtremeWeights(t *testing.T) {
	for name, spec := range map[string]Spec{
		"3 samples, 16 ranks": mixture(64, []uint64{1e6, 3}, nil),
		"1 sample, half":      mixture(64, []uint64{1e6, 1}, []float64{1, 1}),
		"0.001 and 0.999":     mixture(48, []uint64{10, 1e9}, []float64{.001, .999}),
		"1e-12":               mixture(48, []uint64{1000, 3}, []float64{1, 1e-12}),
		"up and down":         {Version: 2, GlobalBatch: 16, Sources: []Source{{Name: "a", Samples: 70, Upsample: 1.5}, {Name: "b", Samples: 30, Upsample: .3}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustNew(t, spec)
			l := newLedger(spec)
			for step := range int64(400) {
				for r := range 16 {
					l.take(t, s.Rank(step, r, 16, nil))
				}
			}
		})
	}
}

func TestASourceStopsAtMaxEpochsAndTheOthersGoOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawMixture(t)
		endless := rapid.Bool().Draw(t, "endless")
		total := uint64(0)
		for i := range spec.Sources {
			src := &spec.Sources[i]
			src.Samples = min(src.Samples, 50)
			if i > 0 || !endless {
				src.MaxEpochs = rapid.Uint64Range(1, 3).Draw(t, "max epochs")
			}
			total += src.MaxEpochs * src.Samples
		}
		s := mustNew(t, spec)
		l := newLedger(spec)
		steps, ends := s.Steps()
		if ends == endless || ends && uint64(steps) != total/uint64(spec.GlobalBatch) {
			t.Fatalf("%d steps, ends %v, of %d samples in batches of %d", steps, ends, total, spec.GlobalBatch)
		}
		for step := range min(steps, int64(total)/spec.GlobalBatch+20) { // endless ones for long enough
			l.take(t, s.Step(step, nil))
		}
		for i, src := range spec.Sources {
			if src.MaxEpochs != 0 && l.counts[i] > src.MaxEpochs*src.Samples {
				t.Fatalf("source %d gave %d samples: %d epochs of %d are allowed", i, l.counts[i], src.MaxEpochs, src.Samples)
			}
		}
	})
}

// Names key the shuffles: renaming the others, or their order in the list, leaves a source's order.
func TestSourcesAreIndependent(t *testing.T) {
	order := func(spec Spec, name string) []uint64 {
		var out []uint64
		s := mustNew(t, spec)
		for step := int64(0); len(out) < 200; step++ {
			for _, r := range s.Step(step, nil) {
				if spec.Sources[r.Source].Name == name {
					out = append(out, r.Sample)
				}
			}
		}
		return out[:200]
	}
	a := mixture(32, []uint64{90, 1000}, nil)
	b := mixture(48, []uint64{90, 5, 70}, []float64{1, 2, 3})
	b.Sources[0], b.Sources[2] = b.Sources[2], b.Sources[0]
	if !slices.Equal(order(a, "s0"), order(b, "s0")) {
		t.Fatal("the order of a source depends on the rest of the mixture")
	}
	if order(a, "s0")[0] == order(b, "s2")[0] && slices.Equal(order(a, "s0")[:90], order(b, "s2")[:90]) {
		t.Fatal("two sources have the same order")
	}
}

func TestMixtureLookUpsDoNotAllocate(t *testing.T) {
	s := mustNew(t, mixture(512, []uint64{1e6, 3, 1e9, 1 << 40}, []float64{1, 2, 3, 4}))
	dst := make([]SampleRef, 0, 512)
	if n := testing.AllocsPerRun(100, func() {
		dst = s.Step(1<<40, dst[:0])
		dst = s.Rank(1<<40, 3, 8, dst[:0])
		dst[0] = s.Substitute(1<<40, dst[0], 1)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// The batches only cut the line of samples: any history of batches and ranks takes the same line, and
// so every sample exactly once a source epoch.
func TestAnyElasticHistoryTakesTheSameLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawMixture(t)
		one := spec.clone()
		one.GlobalBatch = 1
		step := int64(0)
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			step += rapid.Int64Range(1, 8).Draw(t, "steps")
			spec.Changes = append(spec.Changes, Change{Step: step, GlobalBatch: 12 * rapid.Int64Range(1, 20).Draw(t, "twelves")})
		}
		spec.GlobalBatch = 12 * rapid.Int64Range(1, 20).Draw(t, "first batch")
		s := mustNew(t, spec)
		var line []SampleRef
		for k := range step + 5 {
			world := rapid.SampledFrom([]int{1, 2, 3, 4, 6, 12}).Draw(t, "world")
			for r := range world {
				line = s.Rank(k, r, world, line)
			}
		}
		newLedger(spec).take(t, line)
		// A change of the batch starts the dealing anew, so the line is that of single samples up to there.
		first := spec.GlobalBatch
		if len(spec.Changes) > 0 {
			first *= spec.Changes[0].Step
		} else {
			first = int64(len(line))
		}
		single := mustNew(t, one)
		for n := range first {
			want := single.Step(n, nil)[0]
			if want.Position = line[n].Position; line[n] != want {
				t.Fatalf("sample %d is %+v, of single samples %+v", n, line[n], want)
			}
		}
	})
}

// The order of a mixture's line has no memory: neither sources nor samples follow each other more often than by chance.
func TestNoSerialCorrelation(t *testing.T) {
	s := mustNew(t, mixture(1000, []uint64{50_021, 20_011}, nil))
	var sum, squares, products, last, n float64
	for step := range int64(60) {
		for _, r := range s.Step(step, nil) {
			x := float64(r.Sample)/float64(s.spec.Sources[r.Source].Samples) - 0.5
			sum, squares, products = sum+x, squares+x*x, products+x*last
			last, n = x, n+1
		}
	}
	if mean := sum / n; math.Abs(mean) > 5*math.Sqrt(1.0/12/n) {
		t.Errorf("mean %.4f", mean)
	}
	if r := products / squares; math.Abs(r) > 5/math.Sqrt(n) {
		t.Errorf("serial correlation %.4f of %v samples", r, n)
	}
}

// Position by value, over seeds: every sample is as likely at every place of a small mixture.
func TestPlacesAreUniformOverSeeds(t *testing.T) {
	const n = 24
	counts := make([]int, n*n)
	for seed := range uint64(4000) {
		spec := mixture(2*n, []uint64{n, n}, nil)
		spec.Seed = seed
		s, err := New(spec)
		if err != nil {
			t.Fatal(err)
		}
		place := 0
		for _, r := range s.Step(0, nil) {
			if r.Source == 1 {
				counts[place*n+int(r.Sample)]++
				place++
			}
		}
	}
	// Rows and columns have fixed sums, so there are (n-1)^2 degrees of freedom.
	chi, expected := 0.0, 4000.0/n
	for _, c := range counts {
		chi += (float64(c) - expected) * (float64(c) - expected) / expected
	}
	if df := float64((n - 1) * (n - 1)); math.Abs(chi-df)/math.Sqrt(2*df) > 5 {
		t.Errorf("chi-square %.0f for %v degrees of freedom", chi, df)
	}
}
