package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/sampler"
)

// A benchCase is one row: a loop whose cost per unit has a bar.
type benchCase struct {
	name, unit string
	bar        float64 // in units; 0: none
	per        int     // units a call
	calls      int
	call       func(i int64)
	values     []float64
	allocs     uint64 // of all calls ever
}

// lookUp is the unit of cases that must not allocate.
const lookUp = "ns/look-up"

// globalBatch is what a step takes; ranks is how many share it in the cases of one rank.
const (
	globalBatch = 512
	ranks       = 64
)

func allCases() ([]benchCase, error) {
	var cases []benchCase
	for _, size := range []struct {
		n   uint64
		bar float64
	}{{1e6, 100}, {1e12, 100}, {1<<20 + 1, 250}, {1<<40 + 1, 250}} {
		s, err := sampler.New(spec(size.n))
		if err != nil {
			return nil, err
		}
		dst := make([]sampler.SampleRef, 0, globalBatch)
		cases = append(cases, benchCase{
			name: fmt.Sprintf("Step/n=%d", size.n), unit: lookUp, bar: size.bar, per: globalBatch, calls: 400,
			call: func(i int64) { dst = s.Step(i*1_000_003, dst[:0]) },
		}, benchCase{
			name: fmt.Sprintf("Rank/n=%d", size.n), unit: lookUp, bar: size.bar, per: globalBatch / ranks, calls: 20000,
			call: func(i int64) { dst = s.Rank(i*1_000_003, int(i%ranks), ranks, dst[:0]) },
		})
	}
	for _, m := range []struct {
		sources int
		bar     float64
	}{{32, 150}, {1000, 250}} {
		c, err := mixtureCase(m.sources, m.bar)
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	for _, r := range resumes() {
		c, err := r.benchCase()
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func spec(n uint64) sampler.Spec {
	return sampler.Spec{Version: sampler.SpecVersion, Seed: 7, GlobalBatch: globalBatch, Sources: []sampler.Source{{Samples: n}}}
}

// measure runs the loop once and returns its line, as `go test -bench` writes it.
func (c *benchCase) measure() string {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := threadCPU()
	for i := range int64(c.calls) {
		c.call(i)
	}
	spent := threadCPU() - start
	runtime.ReadMemStats(&after)
	c.allocs += after.Mallocs - before.Mallocs
	value := float64(spent.Nanoseconds()) / float64(c.calls*c.per)
	c.values = append(c.values, value)
	return fmt.Sprintf("BenchmarkSampler/%s %d %.2f %s %d allocs/op", c.name, c.calls, value, c.unit, (after.Mallocs-before.Mallocs)/uint64(c.calls))
}

// threadCPU is the CPU time of this thread: what others do on the machine does not count.
func threadCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// verdict prints the row against its bar.
func (c *benchCase) verdict() bool {
	slices.Sort(c.values)
	at := func(q float64) float64 { return c.values[int(q*float64(len(c.values)-1)+0.5)] }
	allocs := c.allocs / uint64(c.calls*len(c.values)) // a stray one of the runtime is none of ours
	met := at(0.5) <= c.bar && (c.unit != lookUp || allocs == 0)
	word := map[bool]string{true: "met", false: "missed"}[met]
	fmt.Printf("sampler %s: %.1f (%.1f-%.1f) %s, %d allocations a call, bar %.0f: %s\n", c.name, at(0.5), at(0.25), at(0.75), c.unit, allocs, c.bar, word)
	return met
}

// checkBijective is the gate before any speed: an epoch of n samples holds each exactly once.
func checkBijective(n uint64) error {
	one := spec(n)
	one.GlobalBatch = 1
	s, err := sampler.New(one)
	if err != nil {
		return err
	}
	seen := make([]bool, n)
	dst := make([]sampler.SampleRef, 0, 1)
	for step := range int64(n) {
		dst = s.Step(step, dst[:0])
		if seen[dst[0].Sample] {
			return fmt.Errorf("n=%d: sample %d occurs twice", n, dst[0].Sample)
		}
		seen[dst[0].Sample] = true
	}
	return nil
}
