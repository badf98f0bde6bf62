package image

import "github.com/stepahead-io/stepahead/transform"

// Item is one image to transform, as the arguments of [Run].
type Item struct {
	Plan    *transform.Plan
	Key     transform.Key
	In, Out []byte
}

// Result is what became of an [Item], as the results of [Run].
type Result struct {
	Spec transform.TensorSpec
	Err  error
}

// batchSize is how many images share a call into C. A long call wakes a thread of the Go runtime that watches it, which
// costs a few percent of an image; shared by sixteen images it does not show. No message to a worker holds more
// (protocol.MaxBatch), so its jobs are one call.
const batchSize = 16

// RunBatch runs items one after the other on the calling goroutine, with few calls into C for all of them; every
// result equals Run's, whatever becomes of the others. results has the length of items, whose Out must not overlap.
func RunBatch(items []Item, lim Limits, results []Result) {
	results = results[:len(items)]
	if err := lim.Validate(); err != nil {
		for i := range results {
			results[i] = Result{Err: err}
		}
		return
	}
	j := job{lim: lim.withDefaults(), variant: bestVariant()}
	for len(items) > 0 {
		n := min(len(items), batchSize)
		errands := make([]errand, n)
		for i, item := range items[:n] {
			errands[i] = errand{in: item.In, out: item.Out, decoding: item.Plan.Decode(), resolve: resolver(item.Plan, item.Key)}
		}
		j.run(errands)
		for i := range errands {
			results[i] = errands[i].result
		}
		items, results = items[n:], results[n:]
	}
}

// errand is one image of a batch.
type errand struct {
	in, out  []byte
	decoding transform.DecodeImage // the zero value: as the defaults
	resolve  func(width, height int) (transform.Resolved, error)
	picture  *picture
	work     *work
	result   Result
}

// run does a batch: all headers in one call, then the first stages of all whose results need no memory but the
// caller's in another one, then what is left, image by image.
func (j job) run(errands []errand) {
	j.open(errands)
	var together []running
	for i := range errands {
		e := &errands[i]
		defer e.picture.close()
		if e.result.Err = j.plan(e); e.result.Err == nil && e.direct() {
			first := e.work.parts[0]
			together = append(together, running{e.picture, first.stage, e.work.out[:first.bytes()]})
		}
	}
	runAll(together, j.variant, j.lim)
	var memory buffers
	for i := range errands {
		if e := &errands[i]; e.result.Err == nil {
			e.result.Spec, e.result.Err = j.complete(e, &memory)
		}
	}
}

// open reads the headers.
func (j job) open(errands []errand) {
	pictures := make([]*picture, len(errands))
	for i := range errands {
		pictures[i] = j.admit(errands[i].in, errands[i].decoding)
		errands[i].picture = pictures[i]
	}
	openAll(pictures, j.lim)
	for _, p := range pictures {
		p.settle()
	}
}

// plan decides what is done to an opened picture.
func (j job) plan(e *errand) error {
	p := e.picture
	j.judge(p)
	if p.err != nil {
		return p.err
	}
	r, err := e.resolve(p.width, p.height)
	if err == nil {
		e.work, err = j.arrange(p, r, e.out)
	}
	return err
}

// direct reports whether the first stage needs no memory but the caller's for its result, and none for its picture.
func (e *errand) direct() bool {
	return e.work.parts[0].bytes() <= int64(len(e.work.out)) && e.picture.streams()
}

// complete runs the first stage, unless it has run, and everything after it.
func (j job) complete(e *errand, memory *buffers) (transform.TensorSpec, error) {
	first := e.work.parts[0]
	memory.begin(e.work.out)
	pixels := memory.take(first.bytes())
	if !e.direct() {
		j.decode(e.picture, first.stage, pixels)
	}
	if e.picture.err != nil {
		return transform.TensorSpec{}, e.picture.err
	}
	return j.finish(e.work, memory, pixels)
}
