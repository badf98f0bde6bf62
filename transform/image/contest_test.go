package image

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
	"golang.org/x/sys/unix"
)

// contestEnv names a file of paths, one a line, that BenchmarkContest works on.
const contestEnv = "STEPAHEAD_CONTEST"

// perCall is how many samples RunBatch is given at once: as many as it takes into one call into C.
const perCall = batchSize

// BenchmarkContest is this package's side of benchmarks/images. It holds the files in mapped memory, as a worker does,
// prints the boxes that the plan draws for them, and then answers each line "JOB FROM TO [PATH]" on its standard input: it does the
// job for those files and prints the CPU time of the process in milliseconds, or "error: " and why not. With a PATH the results are
// appended to that file.
func BenchmarkContest(b *testing.B) {
	list := os.Getenv(contestEnv)
	if list == "" {
		b.Skipf("%s is not set: benchmarks/images runs this", contestEnv)
	}
	c := newContest(b, list)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		from, err1 := strconv.Atoi(words[1])
		to, err2 := strconv.Atoi(words[2])
		if err1 != nil || err2 != nil {
			b.Fatalf("%q: not JOB FROM TO", lines.Text())
		}
		start := cpu(b)
		specs, err := c.do(words[0], from, to)
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		if len(words) > 3 {
			c.write(words[3], specs)
		}
		fmt.Println(cpu(b) - start)
	}
}

const (
	contestScaled = `{"plan": 1, "ops": [{"op": "DecodeImage", "jpeg": "dct-scaled"}, {"op": "RandomResizedCrop", "size": [224, 224]}]}`
	contestDecode = `{"plan": 1, "ops": [{"op": "DecodeImage"}]}`
)

// contest holds the work: files, and room for the results of one call.
type contest struct {
	b     *testing.B
	files [][]byte
	sizes []transform.Box // of the pictures, at 0, 0
	out   [perCall][]byte
}

func newContest(b *testing.B, list string) *contest {
	c := &contest{b: b}
	text, err := os.ReadFile(list)
	if err != nil {
		b.Fatal(err)
	}
	boxes := make([]transform.Box, 0, 1024)
	room := 0
	for i, path := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		data, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		in := mapped(b, len(data))
		copy(in, data)
		c.files = append(c.files, in)
		_, w, h, err := decodeAll(in, Limits{})
		if err != nil {
			b.Fatal(path, err)
		}
		c.sizes = append(c.sizes, transform.Box{W: w, H: h})
		room = max(room, w*h*channels)
		boxes = append(boxes, boxOf(b, w, h, c.key(i)))
	}
	for i := range c.out {
		c.out[i] = mapped(b, max(room, 224*224*channels))
	}
	if err := json.NewEncoder(os.Stdout).Encode(boxes); err != nil {
		b.Fatal(err)
	}
	return c
}

// boxOf returns what the plan cuts from a picture of this size.
func boxOf(b *testing.B, w, h int, key transform.Key) transform.Box {
	r, err := contestPlan(b, benchPlan).Resolve(w, h, key)
	if err != nil {
		b.Fatal(err)
	}
	if r.Steps[0].Kind == transform.StepCrop {
		return r.Steps[0].Box
	}
	return transform.Box{W: w, H: h}
}

func contestPlan(b *testing.B, text string) *transform.Plan {
	plan, err := transform.ParsePlan([]byte(text))
	if err != nil {
		b.Fatal(err)
	}
	return plan
}

// mapped returns memory that is outside the Go heap, as a worker's input and output are.
func mapped(b *testing.B, n int) []byte {
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func (c *contest) key(i int) transform.Key { return transform.Key{Seed: 7, Sample: uint64(i)} }

// do runs a job on some files and returns what it made of the last files, those whose results are still in c.out.
func (c *contest) do(job string, from, to int) ([]transform.TensorSpec, error) {
	switch job {
	case "run":
		return c.each(benchPlan, bestVariant(), from, to)
	case "sse41":
		return c.each(benchPlan, sse41, from, to)
	case "scaled":
		return c.each(contestScaled, bestVariant(), from, to)
	case "run16":
		return c.together(benchPlan, from, to)
	case "decode16":
		return c.together(contestDecode, from, to)
	}
	return nil, fmt.Errorf("no job %q", job)
}

// each gives files to Run one by one. Result i is in c.out[i % perCall].
func (c *contest) each(text string, v variant, from, to int) ([]transform.TensorSpec, error) {
	plan := contestPlan(c.b, text)
	specs := make([]transform.TensorSpec, 0, to-from)
	for i := from; i < to; i++ {
		spec, err := c.one(plan, v, i, c.out[(i-from)%perCall])
		if err != nil {
			return nil, fmt.Errorf("file %d: %w", i, err)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// one is Run, with given kernels where they are not the best ones.
func (c *contest) one(plan *transform.Plan, v variant, i int, out []byte) (transform.TensorSpec, error) {
	if v == bestVariant() {
		return Run(plan, c.key(i), c.files[i], out, Limits{})
	}
	r, err := plan.Resolve(c.sizes[i].W, c.sizes[i].H, c.key(i))
	if err != nil {
		return transform.TensorSpec{}, err
	}
	return runSteps(c.files[i], out, v, r.Steps...)
}

// together gives files to RunBatch, as many at once as a worker gets.
func (c *contest) together(text string, from, to int) ([]transform.TensorSpec, error) {
	plan := contestPlan(c.b, text)
	specs := make([]transform.TensorSpec, 0, to-from)
	for ; from < to; from += perCall {
		var items []Item
		for i := from; i < min(from+perCall, to); i++ {
			items = append(items, Item{Plan: plan, Key: c.key(i), In: c.files[i], Out: c.out[i-from]})
		}
		results := make([]Result, len(items))
		RunBatch(items, Limits{}, results)
		for i, r := range results {
			if r.Err != nil {
				return nil, fmt.Errorf("file %d: %w", from+i, r.Err)
			}
			specs = append(specs, r.Spec)
		}
	}
	return specs, nil
}

// write appends the results of the last call to a file. No more than perCall are kept, so a caller asks for no more at once.
func (c *contest) write(path string, specs []transform.TensorSpec) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.b.Fatal(err)
	}
	for i, spec := range specs {
		if _, err := f.Write(c.out[i][:spec.Bytes()]); err != nil {
			c.b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		c.b.Fatal(err)
	}
}
