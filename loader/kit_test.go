package loader

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeWorker()
		os.Exit(code)
	}))
}

// kitFields are the fields of the datasets that tests make.
var kitFields = []binfmt.Field{
	{Name: "image", Kind: binfmt.Media}, {Name: "label", Kind: binfmt.Int64}, {Name: "weight", Kind: binfmt.Float64},
	{Name: "good", Kind: binfmt.Bool}, {Name: "caption", Kind: binfmt.UTF8},
}

// kit is a small dataset on simulated nodes. Its parts are no images: fakePool turns them into pixels.
type kit struct {
	root  string
	store *dir.Store
	// content of the samples, by id
	parts [][]byte
	bins  []binfmt.Bin
	offs  []int64 // of each sample in its bin
	// notes are the parts of a second media field, "note", and where they lie; nil unless note made them.
	notes    [][]byte
	noteOffs []int64
	perBin   int
	folder   string
	// sources are set when there are other kits beside this one, whose samples are drawn too.
	sources []Source
	group   *sampler.GroupByLength
}

// kitNodes are the nodes of the kit's store: every block lies on two of them.
var kitNodes = []string{"dn1", "dn2", "dn3"}

// newKit packs samples parts into bins of perBin, and returns the dataset "/data".
func newKit(t testing.TB, samples, perBin int, sizes func(i int) (w, h uint32), change ...func(i int, part []byte)) *kit {
	t.Helper()
	k := &kit{root: t.TempDir(), perBin: perBin, folder: "data"}
	top := dir.Topology{BlockSize: 4096, Replication: 2}
	for _, n := range kitNodes {
		top.Nodes = append(top.Nodes, dir.Node{Name: n, Rack: "/r/" + n})
	}
	must(t, dir.Init(k.root, top))
	k.fill(t, samples, rand.New(rand.NewPCG(1, 2)), sizes, change)
	k.store = k.open(t)
	return k
}

// beside packs another kit into the same store, under "/name". The loaders of k then draw from both, by their names
// and weights.
func (k *kit) beside(t testing.TB, name string, samples int, weight float64, change ...func(i int, part []byte)) *kit {
	t.Helper()
	other := &kit{root: k.root, store: k.store, perBin: 7, folder: name}
	other.fill(t, samples, rand.New(rand.NewPCG(3, uint64(samples))), nil, change)
	if k.sources == nil {
		k.sources = []Source{{Name: k.folder, Dir: "/" + k.folder, Weight: 1}}
	}
	k.sources = append(k.sources, Source{Name: name, Store: k.store, Dir: "/" + name, Weight: weight})
	return other
}

func (k *kit) fill(t testing.TB, samples int, r *rand.Rand, sizes func(i int) (w, h uint32), change []func(i int, part []byte)) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(k.root, k.folder), 0o755))
	for i := range samples {
		part := make([]byte, 100+r.IntN(300))
		for j := range part {
			part[j] = byte(r.Uint32())
		}
		part[0] = kindGood
		for _, f := range change {
			f(i, part)
		}
		k.parts = append(k.parts, part)
	}
	k.pack(t, sizes)
}

// note gives the samples a second media field, of parts that are delivered as they are stored: 0 to 299 bytes of text.
func (k *kit) note(t testing.TB) {
	for i := range k.parts {
		text := fmt.Sprintf("note %d of %s ", i, k.folder)
		k.notes = append(k.notes, []byte(strings.Repeat(text, 30))[:i*37%300])
	}
	k.pack(t, nil)
}

func (k *kit) fields() []binfmt.Field {
	if k.notes == nil {
		return kitFields
	}
	return slices.Insert(slices.Clone(kitFields), 1, binfmt.Field{Name: "note", Kind: binfmt.Media})
}

// pack writes the parts as they are now.
func (k *kit) pack(t testing.TB, sizes func(i int) (w, h uint32)) {
	m := &binfmt.Manifest{Format: binfmt.Format, Fields: k.fields()}
	k.offs, k.noteOffs = nil, nil
	for from := 0; from < len(k.parts); from += k.perBin {
		m.Bins = append(m.Bins, k.writeBin(t, len(m.Bins), from, min(from+k.perBin, len(k.parts)), sizes))
	}
	k.bins = m.Bins
	must(t, os.WriteFile(filepath.Join(k.root, k.folder, binfmt.ManifestName), m.Canonical(), 0o644))
}

// with makes sample i one of a kind.
func with(i int, kind byte) func(int, []byte) {
	return func(n int, part []byte) {
		if n == i {
			part[0] = kind
		}
	}
}

func rename(t testing.TB, from, to string) {
	t.Helper()
	must(t, os.Rename(from, to))
}

func (k *kit) open(t testing.TB) *dir.Store {
	st, _, err := dir.Open(filepath.Join(k.root, "data"), dir.Options{})
	must(t, err)
	return st
}

func (k *kit) writeBin(t testing.TB, n, from, to int, sizes func(int) (uint32, uint32)) binfmt.Bin {
	b := binfmt.Bin{Name: fmt.Sprintf("bin-%03d", n), Samples: int64(to - from)}
	uuid := binfmt.NewUUIDHash()
	body := make([]byte, binfmt.HeaderSize)
	var rows []binfmt.Row
	for i := from; i < to; i++ {
		off := int64(len(body))
		k.offs = append(k.offs, off)
		body = append(body, k.parts[i]...)
		body = append(body, make([]byte, -len(body)&63)...)
		crc := binfmt.CRC32C(0, k.parts[i])
		key := fmt.Sprintf("photos/%05d.jpg", i)
		uuid.Add(key, "image", int64(len(k.parts[i])), crc)
		p := binfmt.Part{Extent: binfmt.Extent{Off: off, Len: int64(len(k.parts[i])), CRC: crc, HasCRC: true}, Type: "image/jpeg"}
		if sizes != nil {
			p.Width, p.Height = sizes(i)
		}
		parts := []binfmt.Part{p}
		if k.notes != nil {
			off, crc := int64(len(body)), binfmt.CRC32C(0, k.notes[i])
			k.noteOffs = append(k.noteOffs, off)
			body = append(body, k.notes[i]...)
			body = append(body, make([]byte, -len(body)&63)...)
			uuid.Add(key, "note", int64(len(k.notes[i])), crc)
			parts = append(parts, binfmt.Part{Extent: binfmt.Extent{Off: off, Len: int64(len(k.notes[i])), CRC: crc, HasCRC: true}, Type: "text/plain"})
		}
		rows = append(rows, binfmt.Row{Key: key, Parts: parts, Scalars: []binfmt.Value{
			{Kind: binfmt.Int64, Int: int64(i) * 10}, {Kind: binfmt.Float64, Float: float64(i) / 2},
			{Kind: binfmt.Bool, Bool: i%2 == 1}, {Kind: binfmt.UTF8, Str: fmt.Sprintf("photograph %d", i)},
		}})
	}
	id := uuid.UUID()
	head := binfmt.Header(id)
	copy(body, head[:])
	var index bytes.Buffer
	w, err := binfmt.NewIndexWriter(&index, k.fields(), id)
	must(t, err)
	for _, row := range rows {
		must(t, w.Append(row))
	}
	must(t, w.Close())
	sum := sha256.Sum256(index.Bytes())
	b.UUID, b.Bytes, b.IndexSHA256 = hex.EncodeToString(id[:]), int64(len(body)), hex.EncodeToString(sum[:])
	must(t, os.WriteFile(filepath.Join(k.root, k.folder, b.DataName()), body, 0o644))
	must(t, os.WriteFile(filepath.Join(k.root, k.folder, b.IndexName()), index.Bytes(), 0o644))
	return b
}

// damage flips a byte of a sample in its bin, that is on every replica.
func (k *kit) damage(t testing.TB, sample int) { k.flip(t, sample, k.offs[sample]+20) }

func (k *kit) flip(t testing.TB, sample int, at int64) {
	name := filepath.Join(k.root, k.folder, k.bins[sample/k.perBin].DataName())
	data, err := os.ReadFile(name)
	must(t, err)
	data[at] ^= 0xff
	must(t, os.WriteFile(name, data, 0o644))
}

// options are those of a loader over the kit, with its own fake workers.
func (k *kit) options(t testing.TB) Options {
	o := Options{
		Store: k.store, Dir: "/data", CacheDir: filepath.Join(k.root, "cache"), GlobalBatch: 8, Seed: 7, GroupByLength: k.group,
		Plans: map[string]*transform.Plan{"image": cropPlan(t)}, Workers: 2, Runner: &fakePool{},
	}
	if k.notes != nil {
		for _, f := range k.fields() {
			o.Fields = append(o.Fields, f.Name)
		}
	}
	if k.sources != nil {
		o.Dir, o.Sources = "", slices.Clone(k.sources)
	}
	return o
}

// cropPlan gives uint8 6x5x3 whatever the input.
func cropPlan(t testing.TB) *transform.Plan {
	return plan(t, `{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[6,5]},{"op":"RandomHorizontalFlip"}`)
}

// floatPlan is cropPlan with a tail that the loader applies.
func floatPlan(t testing.TB) *transform.Plan {
	return plan(t, `{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[6,5]},{"op":"Normalize","mean":[0.5,0.4,0.3],"std":[0.2,0.2,0.3]},`+
		`{"op":"RandomErasing","p":0.6,"scale":[0.2,0.6],"value":[1,2,3]}`)
}

func plan(t testing.TB, ops string) *transform.Plan {
	p, err := transform.ParsePlan([]byte(`{"plan":1,"ops":[` + ops + `]}`))
	must(t, err)
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The first byte of a kit's part says what fakePool does with it.
const (
	kindGood  = 'g'
	kindBad   = 'b' // a decode error, always
	kindCrash = 'c' // the worker dies, always
	kindOnce  = 'o' // the worker dies the first time
	kindShape = 's' // 8x9 pixels rather than 7x9
	kindSmall = 't' // too small for the plan
)

// fakePool stands in for the worker processes: pixels are a hash of the part, the plan and the key.
type fakePool struct {
	hold    func(ctx context.Context, sample uint64) error // before every job, when not nil
	runs    atomic.Int64
	running atomic.Int64
	most    atomic.Int64
	closed  atomic.Int64

	mu     sync.Mutex
	died   map[uint64]bool
	shares map[int]int // number of calls by items
}

func (p *fakePool) RunBatch(ctx context.Context, items []worker.Item, outcomes []worker.Outcome) {
	p.mu.Lock()
	if p.shares == nil {
		p.shares = map[int]int{}
	}
	p.shares[len(items)]++
	p.mu.Unlock()
	for i, it := range items {
		outcomes[i].Result, outcomes[i].Err = p.run(ctx, it.Job, it.In, it.Out)
	}
}

func (p *fakePool) run(ctx context.Context, job worker.Job, in worker.Part, out []byte) (worker.Result, error) {
	p.runs.Add(1)
	if n := p.running.Add(1); n > p.most.Load() {
		p.most.Store(n)
	}
	defer p.running.Add(-1)
	if p.hold != nil {
		if err := p.hold(ctx, job.Key.Sample); err != nil {
			return worker.Result{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return worker.Result{}, err
	}
	if err := p.fate(job.Key.Sample, in); err != nil {
		return worker.Result{}, err
	}
	spec, err := fakeSpec(job, in.Data)
	if err != nil {
		return worker.Result{}, err
	}
	n := int(spec.Bytes())
	if n > len(out) {
		return worker.Result{}, &worker.ShortBufferError{Need: int64(n)}
	}
	fakePixels(job, in.Data, out[:n])
	return worker.Result{Spec: spec, Bytes: n, CRC: binfmt.CRC32C(0, out[:n])}, nil
}

func (p *fakePool) fate(sample uint64, in worker.Part) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch in.Data[0] {
	case kindBad:
		return &transform.Error{Kind: transform.KindDecode, Op: "DecodeImage", Detail: in.Name + ": broken on purpose"} // as the pool names it
	case kindCrash:
		return &transform.Error{Kind: transform.KindCrash, Op: "worker", Detail: fmt.Sprintf("%s (sample %d): died", in.Name, sample)}
	case kindSmall:
		return &transform.Error{Kind: transform.KindPlan, Op: "ops[1] RandomCrop", Detail: in.Name + ": size: larger than this picture; use pad_if_needed"}
	case kindOnce:
		if p.died == nil {
			p.died = map[uint64]bool{}
		}
		if !p.died[sample] {
			p.died[sample] = true
			return &transform.Error{Kind: transform.KindCrash, Op: "worker"}
		}
	}
	return nil
}

// fakeSpec is the output of the plan for a part whose size is in its bytes 8 and 9.
func fakeSpec(job worker.Job, data []byte) (transform.TensorSpec, error) {
	if spec, ok := job.Plan.Fixed(); ok {
		return spec, nil
	}
	w, h := 7, 9
	if data[0] == kindShape {
		w, h = 8, 9
	}
	return job.Plan.Output(w, h, job.Key)
}

func fakePixels(job worker.Job, data, out []byte) {
	digest := job.Plan.Digest()
	h := sha256.New()
	h.Write(digest[:])
	h.Write(data)
	h.Write([]byte(job.Key.Source))
	for _, v := range []uint64{job.Key.Seed, job.Key.Epoch, job.Key.Sample} {
		h.Write(binary.LittleEndian.AppendUint64(nil, v))
	}
	sum := h.Sum(nil)
	var seed [32]byte
	copy(seed[:], sum)
	rng := rand.NewChaCha8(seed)
	rng.Read(out) // never fails
}

func (p *fakePool) Golden(context.Context) (map[string]string, error) {
	return map[string]string{"jpeg/islow-fancy@1": strings.Repeat("aa", 32), "unused@1": strings.Repeat("bb", 32)}, nil
}

func (p *fakePool) CPU() time.Duration { return time.Duration(p.runs.Load()) * time.Millisecond }

func (p *fakePool) Close() error { p.closed.Add(1); return nil }

// tally is a store that counts reads of data files.
type tally struct {
	*dir.Store
	bytes atomic.Int64
	open  atomic.Int64
	most  atomic.Int64
	wrap  func(store.File) store.File
}

func (s *tally) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.Store.Open(ctx, name)
	if err != nil || filepath.Ext(name) != ".bin" {
		return f, err
	}
	if n := s.open.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	f = &tallyFile{File: f, s: s}
	if s.wrap != nil {
		f = s.wrap(f)
	}
	return f, nil
}

type tallyFile struct {
	store.File
	s *tally
}

func (f *tallyFile) ReadRanges(ctx context.Context, r []store.Range) error {
	for _, x := range r {
		f.s.bytes.Add(int64(len(x.Buf)))
	}
	return f.File.ReadRanges(ctx, r)
}

func (f *tallyFile) Close() error {
	f.s.open.Add(-1)
	return f.File.Close()
}

// contents returns the digests of the next n batches, epochs running on.
func contents(t testing.TB, l *Loader, n int) string {
	t.Helper()
	var out string
	for range n {
		digest, err := nextDigest(t, l)
		must(t, err)
		out += digest + " "
	}
	return out
}

// nextDigest returns a digest of the next batch, epochs running on: ids, positions and all bytes.
func nextDigest(t testing.TB, l *Loader) (string, error) {
	t.Helper()
	b, err := l.Next(t.Context())
	if err == io.EOF {
		b, err = l.Next(t.Context())
	}
	if err != nil {
		return "", err
	}
	defer b.Release()
	h := sha256.New()
	fmt.Fprint(h, b.Step, b.Epoch, b.Samples)
	for _, f := range b.Fields {
		fmt.Fprint(h, f.Name, f.Dtype, f.Shape, f.Strides, f.Strings)
		h.Write(f.Bytes)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
