package image

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
	"golang.org/x/sys/unix"
)

// benchEnv may name a folder of JPEG files to measure with instead of the photographs of the test data.
const benchEnv = "STEPAHEAD_BENCH_JPEG"

type sample struct {
	in  []byte
	box transform.Box
}

const benchPlan = `{"plan": 1, "ops": [{"op": "DecodeImage"}, {"op": "RandomResizedCrop", "size": [224, 224]}]}`

func benchSamples(b *testing.B) []sample {
	b.Helper()
	root := os.Getenv(benchEnv)
	if root == "" {
		root = testdata.Path(b, "photos/dali")
	}
	paths, err := filepath.Glob(filepath.Join(root, "*.jpg"))
	if err != nil || len(paths) == 0 {
		b.Skipf("no *.jpg in %s", root)
	}
	var samples []sample
	for i, path := range paths {
		in, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		_, w, h, err := decodeAll(in, Limits{})
		if err != nil {
			b.Fatal(err)
		}
		samples = append(samples, sample{in, boxOf(b, w, h, transform.Key{Seed: 7, Sample: uint64(i)})})
	}
	return samples
}

// cpu returns the CPU time of the process in milliseconds.
func cpu(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

// measure runs one over all samples b.N times and reports CPU time, which a busy machine disturbs less.
func measure(b *testing.B, one func(i int, s sample)) {
	samples := benchSamples(b)
	for i, s := range samples {
		one(i, s)
	}
	start := cpu(b)
	for b.Loop() {
		for i, s := range samples {
			one(i, s)
		}
	}
	b.ReportMetric((cpu(b)-start)/float64(b.N*len(samples)), "cpu-ms/image")
}

// BenchmarkRandomResizedCrop is the whole operator through Run, one call an image.
func BenchmarkRandomResizedCrop(b *testing.B) {
	plan, err := transform.ParsePlan([]byte(benchPlan))
	if err != nil {
		b.Fatal(err)
	}
	out := make([]byte, 224*224*channels)
	measure(b, func(i int, s sample) {
		if _, err := Run(plan, transform.Key{Seed: 7, Sample: uint64(i)}, s.in, out, Limits{}); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkBatched is the same through RunBatch, in batches of 16.
func BenchmarkBatched(b *testing.B) {
	plan := mustPlan(b, benchPlan)
	out := make([]byte, batchSize*224*224*channels)
	items, results := make([]Item, 0, batchSize), make([]Result, batchSize)
	run := func() {
		RunBatch(items, Limits{}, results[:len(items)])
		for _, r := range results[:len(items)] {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
		items = items[:0]
	}
	measure(b, func(i int, s sample) {
		n := len(items) * len(out) / batchSize
		items = append(items, Item{plan, transform.Key{Seed: 7, Sample: uint64(i)}, s.in, out[n : n+len(out)/batchSize]})
		if len(items) == batchSize {
			run()
		}
	})
}

// BenchmarkScaled is the whole operator when the decoder may make the picture smaller.
func BenchmarkScaled(b *testing.B) {
	plan := mustPlan(b, strings.Replace(benchPlan, `"DecodeImage"`, `"DecodeImage","jpeg":"dct-scaled"`, 1))
	out := make([]byte, 224*224*channels)
	measure(b, func(i int, s sample) {
		if _, err := Run(plan, transform.Key{Seed: 7, Sample: uint64(i)}, s.in, out, Limits{}); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkVariants is the same with given kernels.
func BenchmarkVariants(b *testing.B) {
	for _, v := range variants() {
		b.Run(v.String(), func(b *testing.B) {
			out := make([]byte, 224*224*channels)
			measure(b, func(_ int, s sample) {
				steps := []transform.Step{{Kind: transform.StepCrop, Box: s.box}, {Kind: transform.StepResize, Width: 224, Height: 224, Version: 2, Filter: transform.Bilinear}}
				if _, err := runSteps(s.in, out, v, steps...); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkRegionOnly decodes the same regions and does nothing with them: the floor.
func BenchmarkRegionOnly(b *testing.B) {
	out := make([]byte, 64<<20)
	measure(b, func(_ int, s sample) {
		if _, err := runSteps(s.in, out, bestVariant(), transform.Step{Kind: transform.StepCrop, Box: s.box}); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkAgainstRegion reports the whole operator's CPU time as a multiple of the floor's, image by image in turn, so
// that a busy machine disturbs both alike. It counts the calling thread alone.
func BenchmarkAgainstRegion(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	plan, err := transform.ParsePlan([]byte(benchPlan))
	if err != nil {
		b.Fatal(err)
	}
	out := make([]byte, 64<<20)
	var whole, floor int64
	measure(b, func(i int, s sample) {
		t0 := threadTime(b)
		if _, err := Run(plan, transform.Key{Seed: 7, Sample: uint64(i)}, s.in, out, Limits{}); err != nil {
			b.Fatal(err)
		}
		t1 := threadTime(b)
		if _, err := runSteps(s.in, out, bestVariant(), transform.Step{Kind: transform.StepCrop, Box: s.box}); err != nil {
			b.Fatal(err)
		}
		whole, floor = whole+t1-t0, floor+threadTime(b)-t1
	})
	b.ReportMetric(float64(whole)/float64(floor), "x-region-only")
}

func threadTime(b *testing.B) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}

// BenchmarkDecode decodes whole images.
func BenchmarkDecode(b *testing.B) {
	out := make([]byte, 64<<20)
	measure(b, func(_ int, s sample) {
		if _, err := runSteps(s.in, out, bestVariant()); err != nil {
			b.Fatal(err)
		}
	})
}

func variants() []variant {
	var have []variant
	for _, v := range []variant{scalar, sse41, avx2, neon} {
		if v.available() {
			have = append(have, v)
		}
	}
	return have
}

// runSteps runs resolved steps on an encoded image.
func runSteps(in, out []byte, v variant, steps ...transform.Step) (transform.TensorSpec, error) {
	j := job{lim: Limits{}.withDefaults(), variant: v}
	return j.one(in, out, func(int, int) (transform.Resolved, error) { return transform.Resolved{Steps: steps}, nil })
}

// one runs steps that do not come from a plan.
func (j job) one(in, out []byte, resolve func(width, height int) (transform.Resolved, error)) (transform.TensorSpec, error) {
	alone := [1]errand{{in: in, out: out, resolve: resolve}}
	j.run(alone[:])
	return alone[0].result.Spec, alone[0].result.Err
}

// BenchmarkTables computes the coefficients of both axes.
func BenchmarkTables(b *testing.B) {
	s := newStage(340, 330)
	if err := s.scale(transform.Step{Width: 224, Height: 224, Version: 2, Filter: transform.Bilinear}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s.tables()
	}
}
