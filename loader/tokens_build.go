package loader

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
)

// A tokenRun is consecutive tokens of one file that go into one sample.
type tokenRun struct {
	ref    sampler.SampleRef
	source *tokenSource
	bin    int
	token  int64 // the first one in the file
	n      int64
	slot   int
	at     int64 // the input that the first token is
	inputs int64 // how many of the tokens are inputs; one behind them is a label only
	joined bool  // the first token is also the label of the input before it
}

// A tokenPart is one piece of a pack: the inputs [at, at+n) of its slot.
type tokenPart struct {
	at, n int64
	last  bool // its last input has no label
}

// tokenBuild makes one step of one rank. It is used once.
type tokenBuild struct {
	l     *Loader
	m     *tokenMode
	step  int64
	clock *phaseClock

	refs   []sampler.SampleRef
	runs   []tokenRun
	parts  [][]tokenPart // of packs, by slot
	out    *slab
	fields []FieldData
	mem    [tokenFieldKinds][]byte // of the fields; none of those that are left out
	past   bool                    // the batch is so large that writing it goes past the caches
}

// buildTokens makes a batch of tokens.
func (l *Loader) buildTokens(ctx context.Context, step int64, clock *phaseClock) (*Batch, error) {
	start := l.now()
	b := &tokenBuild{l: l, m: l.tokens, step: step, clock: clock}
	refs, err := l.share(ctx, step)
	if err != nil {
		return nil, fmt.Errorf("step %d: %w", step, err)
	}
	b.refs = refs
	batch, err := b.make(ctx)
	if err != nil {
		if b.out != nil {
			l.slabs.put(b.out)
		}
		return nil, fmt.Errorf("step %d: %w", step, err)
	}
	batch.Stats.Build = (l.now() - start).Seconds()
	return batch, nil
}

func (b *tokenBuild) make(ctx context.Context) (*Batch, error) {
	if err := b.plan(ctx); err != nil {
		return nil, err
	}
	if err := b.allocate(); err != nil {
		return nil, err
	}
	t := newTasks(ctx, "tokens")
	b.fill(t)
	b.read(ctx, t)
	if err := t.wait(); err != nil {
		return nil, err
	}
	return b.finish(), nil
}

// plan finds the runs of every sample.
func (b *tokenBuild) plan(ctx context.Context) error {
	var pieces []sampler.Piece
	for slot, ref := range b.refs {
		var s *tokenSource
		var err error
		if s, pieces, err = b.m.locate(ctx, ref, pieces[:0]); err != nil {
			return err
		}
		add := b.addStream
		if b.m.packed {
			add = b.addPack
		}
		add(slot, ref, s, pieces)
	}
	return nil
}

// addStream adds the runs of a sample whose pieces are L+1 tokens of a stream. Pieces that lie behind one
// another are one run.
func (b *tokenBuild) addStream(slot int, ref sampler.SampleRef, s *tokenSource, pieces []sampler.Piece) {
	at, first := int64(0), len(b.runs)
	for _, p := range pieces {
		bin, token := s.place(p)
		if n := len(b.runs); n > first && b.runs[n-1].bin == bin && b.runs[n-1].token+b.runs[n-1].n == token {
			b.runs[n-1].n += p.Len
		} else {
			b.runs = append(b.runs, tokenRun{ref: ref, source: s, bin: bin, token: token, n: p.Len, slot: slot, at: at, joined: at > 0})
		}
		at += p.Len
	}
	for i := range b.runs[first:] {
		r := &b.runs[first+i]
		r.inputs = min(r.n, b.m.length-r.at)
	}
}

// addPack adds the runs of a sample whose pieces stand for themselves.
func (b *tokenBuild) addPack(slot int, ref sampler.SampleRef, s *tokenSource, pieces []sampler.Piece) {
	at := int64(0)
	parts := make([]tokenPart, 0, len(pieces))
	for _, p := range pieces {
		bin, token := s.place(p)
		r := tokenRun{ref: ref, source: s, bin: bin, token: token, n: p.Len, slot: slot, at: at, inputs: p.Len}
		on := s.goesOn(p)
		if on {
			r.n++
		}
		b.runs = append(b.runs, r)
		parts = append(parts, tokenPart{at, p.Len, !on})
		at += p.Len
	}
	b.parts = append(b.parts, parts)
}

// pastBytes is the size of a batch from which on it is written past the caches: with the steps that are built ahead
// it has left them before it is used.
const pastBytes = 1 << 20

// allocate maps the batch and lays its fields out.
func (b *tokenBuild) allocate() error {
	if err := b.m.countable(int64(len(b.refs))); err != nil {
		return err // the global batch may change during a run
	}
	offsets, size := make([]int64, len(b.m.fields)), int64(0)
	for i, f := range b.m.fields {
		offsets[i] = size
		size += alignUp(b.elements(f)*tokenFields[f].size, fieldAlign)
	}
	var err error
	if b.out, err = b.l.slabs.get(size); err != nil {
		return err
	}
	b.past = size >= pastBytes
	n := len(b.refs)
	for i, f := range b.m.fields {
		count := int(b.elements(f))
		end := offsets[i] + int64(count)*tokenFields[f].size
		b.mem[f] = b.out.mem[offsets[i]:end:end]
		data := FieldData{Name: tokenFields[f].name, Dtype: tokenFields[f].dtype, Bytes: b.mem[f]}
		if f == fieldCuSeqlens {
			data.Shape, data.Strides = []int{count}, []int{1}
		} else {
			data.Shape, data.Strides = []int{n, count / n}, []int{count / n, 1}
		}
		b.fields = append(b.fields, data)
	}
	return nil
}

// elements is the number of elements that a field has in this batch.
func (b *tokenBuild) elements(field int) int64 {
	n := int64(len(b.refs))
	switch field {
	case fieldCuSeqlens:
		return b.boundaries()
	case fieldText:
		return n * (b.m.length + 1)
	default:
		return n * b.m.length
	}
}

// boundaries is the number of places at which a piece of a pack starts, or what follows the last, and of the end.
func (b *tokenBuild) boundaries() int64 {
	n := int64(1)
	for _, parts := range b.parts {
		n += int64(len(parts))
		if last := parts[len(parts)-1]; last.at+last.n < b.m.length {
			n++
		}
	}
	return n
}

// row is the memory of a sample in a field; nil if the field is left out.
func (b *tokenBuild) row(field, slot int) []byte {
	mem := b.mem[field]
	size := len(mem) / len(b.refs)
	return mem[slot*size : (slot+1)*size]
}

// tokenGroupBytes bounds the bytes that are read together: enough that a call costs little beside its reads, and so
// few that they are still in the processor's cache when they are converted.
const tokenGroupBytes = 512 << 10

// read starts reading the runs, group by group.
func (b *tokenBuild) read(ctx context.Context, t *tasks) {
	slices.SortFunc(b.runs, func(x, y tokenRun) int {
		return cmp.Or(cmp.Compare(x.source.number, y.source.number), cmp.Compare(x.bin, y.bin), cmp.Compare(x.token, y.token))
	})
	b.prefetch(ctx)
	for runs := b.runs; len(runs) > 0; {
		n := firstRuns(runs)
		group := runs[:n:n]
		runs = runs[n:]
		start := t.start
		if len(runs) == 0 {
			start = t.do // this goroutine would only wait
		}
		start(func(ctx context.Context) error { return b.readGroup(ctx, group) })
	}
}

// prefetch tells the stores which files will be read.
func (b *tokenBuild) prefetch(ctx context.Context) {
	for i := 0; i < len(b.runs); {
		s, bins := b.runs[i].source, []int(nil)
		for ; i < len(b.runs) && b.runs[i].source == s; i++ {
			bins = append(bins, b.runs[i].bin)
		}
		s.data.prefetch(ctx, slices.Compact(bins))
	}
}

// firstRuns is how many of the first runs are read together: of one file, and no more bytes than one
// group should have.
func firstRuns(runs []tokenRun) int {
	first, bytes := runs[0], int64(0)
	for n, r := range runs {
		bytes += r.n * r.source.size
		if r.source != first.source || r.bin != first.bin || n > 0 && bytes > tokenGroupBytes {
			return n
		}
	}
	return len(runs)
}

// readGroup reads runs of one file, in their order, and converts them into their samples.
func (b *tokenBuild) readGroup(ctx context.Context, runs []tokenRun) error {
	source, bin := runs[0].source, runs[0].bin
	if err := b.l.reads.enter(ctx, b.step, 1); err != nil {
		return err
	}
	defer b.l.reads.leave(1)
	reads, size := joinRuns(runs)
	buf := b.l.buf.get(int(size))
	defer b.l.buf.put(buf)
	pieces := make([]piece, len(reads))
	byPlace := make([]*piece, len(reads))
	for i, r := range reads {
		n := r.n * source.size
		pieces[i].Off, pieces[i].Len = r.token*source.size, n
		pieces[i].buf, buf = buf[:n:n], buf[n:]
		byPlace[i] = &pieces[i]
	}
	leave := b.clock.enter(waitNetwork)
	_, err := source.data.read(ctx, bin, byPlace)
	leave()
	if err != nil {
		return err
	}
	if err := b.m.writes.enter(ctx, b.step, 1); err != nil {
		return err
	}
	defer b.m.writes.leave(1)
	defer b.clock.enter(waitTransform)()
	for i, r := range reads {
		if pieces[i].err != nil {
			return b.bad(r.runs[0], 0, r.n, KindChecksum, pieces[i].err.Error())
		}
		for _, run := range r.runs {
			from := (run.token - r.token) * source.size
			if err := b.convert(run, pieces[i].buf[from:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// A tokenRead is one stretch of a file, and the runs inside it.
type tokenRead struct {
	token, n int64
	runs     []tokenRun
}

// joinRuns joins runs that overlap or touch: neighbouring windows share a token. It returns the bytes of
// all reads.
func joinRuns(runs []tokenRun) (reads []tokenRead, bytes int64) {
	first := 0
	for i, r := range runs {
		if last := len(reads) - 1; i > 0 && r.token <= reads[last].token+reads[last].n {
			reads[last].n = max(reads[last].n, r.token+r.n-reads[last].token)
			reads[last].runs = runs[first : i+1]
			continue
		}
		first = i
		reads = append(reads, tokenRead{r.token, r.n, runs[i : i+1]})
	}
	for _, r := range reads {
		bytes += r.n * runs[0].source.size
	}
	return reads, bytes
}

// bad names the tokens [first, first+n) of a run as the reason why the run stops. Tokens have no
// substitute: the order says which ones follow each other.
func (b *tokenBuild) bad(r tokenRun, first, n int64, kind, reason string) error {
	size := r.source.size
	return &BadSampleError{
		Source: b.l.sourceOf(r.ref), Sample: r.ref.Sample, Field: binfmt.TokensField, Bin: r.source.data.address(r.bin, ""),
		Offset: (r.token + first) * size, Length: n * size, Kind: kind, Reason: reason,
	}
}

// finish hashes what is recorded and hands the batch over.
func (b *tokenBuild) finish() *Batch {
	batch := &Batch{Step: b.step, Epoch: b.l.epoch(b.step), Fields: b.fields, Samples: b.refs}
	batch.Stats.Step, batch.Stats.Epoch, batch.Stats.ByReason = batch.Step, batch.Epoch, map[string]int{}
	batch.Stats.Local = len(b.refs)
	if b.l.records != nil {
		batch.records = b.record()
	}
	out, slabs := b.out, b.l.slabs
	batch.release = func() { slabs.put(out) }
	return batch
}
