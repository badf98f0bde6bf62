package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
	"github.com/stepahead-io/stepahead/store"
)

// TestLoadIsTorch compares tensors put together from chunks with those that torch loaded.
func TestLoadIsTorch(t *testing.T) {
	for _, save := range []string{"plain", "threads", "ranks"} {
		f := newFolder(t)
		f.writeAll("a", torchSave(t, save))
		c := f.open("/a", Options{})
		sums := torchSums(t, save)
		if len(c.Tensors) != len(sums) || len(sums) < 4 {
			t.Errorf("%s: %d tensors, want %d", save, len(c.Tensors), len(sums))
		}
		for i := range c.Tensors {
			data, err := c.Load(t.Context(), &c.Tensors[i])
			if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != sums[c.Tensors[i].Name] {
				t.Errorf("%s: %q has other bytes: %v", save, c.Tensors[i].Name, err)
			}
		}
		v, err := c.Verify(t.Context(), ReadOptions{})
		if err != nil || len(v.Problems) != 0 || v.Items < len(sums) || v.NoSums != 0 {
			t.Errorf("%s: %+v, %v", save, v, err)
		}
	}
}

// TestLoadFindsDamage: a tensor of which one byte is not as torch wrote it is not given to anybody.
// TestNoRoom: more than there is memory for is an error.
func TestNoRoom(t *testing.T) {
	if err := room(1 << 47); err == nil || !strings.Contains(err.Error(), "no memory for its 140737488355328 bytes") {
		t.Error(err)
	}
	must(t, room(1<<30))
}

func TestLoadFindsDamage(t *testing.T) {
	f := newFolder(t)
	files := torchSave(t, "plain")
	f.writeAll("a", files)
	clean := f.open("/a", Options{})
	victim, ok := clean.Lookup("view")
	if !ok {
		t.Fatal("no such tensor")
	}
	data, err := clean.Load(t.Context(), victim)
	must(t, err)
	file, off := clean.Files[victim.Chunks[0].File].Name, victim.Chunks[0].Off
	files[file][int(off)+bytes.Index(files[file][off:], data)] ^= 4
	f.writeAll("a", files)
	damaged := f.open("/a", Options{})
	if _, err := damaged.Load(t.Context(), victim); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "view") {
		t.Errorf("%v, want %s and the tensor named", err, file)
	}
}

// TestScatter cuts a tensor into chunks of any strides and puts it together.
func TestScatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.Int64Range(1, 5), 0, 3).Draw(t, "shape")
		width := rapid.SampledFrom([]int64{1, 2, 8}).Draw(t, "width")
		n := width
		for _, d := range shape {
			n *= d
		}
		want := rapid.SliceOfN(rapid.Byte(), int(n), int(n)).Draw(t, "content")
		got := make([]byte, n)
		boxes := []Chunk{{Offsets: make([]int64, len(shape)), Sizes: slices.Clone(shape)}}
		for d := range shape {
			if at := shape[d] / 2; at > 0 && rapid.Bool().Draw(t, "cut") {
				for _, b := range slices.Clone(boxes) {
					upper := Chunk{Offsets: slices.Clone(b.Offsets), Sizes: slices.Clone(b.Sizes)}
					upper.Offsets[d], upper.Sizes[d] = at, shape[d]-at
					b.Sizes[d] = at // shared with boxes
					boxes = append(boxes, upper)
				}
			}
		}
		for i := range boxes {
			order := rapid.Permutation(axes(len(shape))).Draw(t, "order in memory")
			data, strides := gather(want, cOrder(shape), &boxes[i], order, width)
			scatter(got, cOrder(shape), data, strides, &boxes[i], width)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v in %+v", shape, boxes)
		}
	})
}

func axes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// gather copies a box out of a tensor element by element, with its axes in memory in the given order, outermost first.
func gather(whole []byte, from []int64, ch *Chunk, order []int, width int64) (data []byte, strides []int64) {
	strides = make([]int64, len(order))
	n := int64(1)
	for k := len(order) - 1; k >= 0; k-- {
		strides[order[k]] = n
		n *= ch.Sizes[order[k]]
	}
	data = make([]byte, n*width)
	at := make([]int64, len(order))
	for range n {
		src, dst := int64(0), int64(0)
		for d := range at {
			src += (at[d] + ch.Offsets[d]) * from[d]
			dst += at[d] * strides[d]
		}
		copy(data[dst*width:(dst+1)*width], whole[src*width:])
		for d := len(at) - 1; d >= 0; d-- {
			if at[d]++; at[d] < ch.Sizes[d] {
				break
			}
			at[d] = 0
		}
	}
	return data, strides
}

// TestPinned changes a checkpoint after it was opened: what is read then is an error that says so, never a mixture.
func TestPinned(t *testing.T) {
	ranks := torchSave(t, "ranks")
	for name, change := range map[string]func(f *folder){
		"overwritten": func(f *folder) {
			f.remove("a/__0_0.distcp")
			f.write("a/__0_0.distcp", ranks["__0_0.distcp"]) // the same bytes, another version
		},
		"removed":   func(f *folder) { f.remove("a/__0_0.distcp") },
		"collected": func(f *folder) { f.remove("a") },
		"appended":  func(f *folder) { f.write("a/__0_0.distcp", append(slices.Clone(ranks["__0_0.distcp"]), 0)) },
	} {
		f := newFolder(t)
		f.writeAll("a", ranks)
		c := f.open("/a", Options{})
		if changed, err := c.Changed(t.Context()); changed != "" || err != nil {
			t.Errorf("%s: before: %q, %v", name, changed, err)
		}
		change(f)
		failed := 0
		for i := range c.Tensors {
			if _, err := c.Load(t.Context(), &c.Tensors[i]); err != nil {
				failed++
				if !errors.Is(err, store.ErrIdentity) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if failed == 0 {
			t.Errorf("%s: every tensor was read", name)
		}
		if _, err := c.Digest(t.Context(), ReadOptions{}); !errors.Is(err, store.ErrIdentity) {
			t.Errorf("%s: digest: %v", name, err)
		}
		if changed, err := c.Changed(t.Context()); changed == "" || err != nil {
			t.Errorf("%s: changed: %q, %v", name, changed, err)
		}
	}
}

// TestVerifyFindsOneByte flips single bytes of storages: verify names file and tensor each time.
func TestVerifyFindsOneByte(t *testing.T) {
	f := newFolder(t)
	files := torchSave(t, "ranks")
	f.writeAll("a", files)
	c := f.open("/a", Options{})
	flipped := 0
	for _, tensor := range c.Tensors {
		for _, ch := range tensor.Chunks {
			name := c.Files[ch.File].Name
			data := slices.Clone(files[name])
			it, err := dcp.ParseItem(data[ch.Off : ch.Off+ch.Len])
			must(t, err)
			if it.StorageLen == 0 {
				continue
			}
			data[ch.Off+it.StorageOff+it.StorageLen/2] ^= 1
			flipped++
			f.write("a/"+name, data)
			v, err := f.open("/a", Options{}).Verify(t.Context(), ReadOptions{})
			if err != nil || len(v.Problems) != 1 || v.Problems[0].Kind != "crc" || v.Problems[0].Tensor != tensor.Name || v.Problems[0].File != name {
				t.Errorf("%q: %+v, %v", tensor.Name, v, err)
			}
			f.write("a/"+name, files[name])
		}
	}
	if flipped < 6 {
		t.Errorf("%d bytes flipped", flipped)
	}
}

// TestVerifyFindsSwappedItems puts one item where another should be.
func TestVerifyFindsSwappedItems(t *testing.T) {
	f := newFolder(t)
	files := torchSave(t, "plain")
	f.writeAll("a", files)
	c := f.open("/a", Options{})
	first, _ := c.Lookup("dtype.float8_e5m2")
	second, _ := c.Lookup("dtype.float8_e5m2fnuz")
	a, b := first.Chunks[0], second.Chunks[0]
	name := c.Files[a.File].Name
	data := slices.Clone(files[name])
	copy(data[a.Off:a.Off+a.Len], files[name][b.Off:b.Off+b.Len])
	f.write("a/"+name, data)
	now := f.open("/a", Options{})
	v, err := now.Verify(t.Context(), ReadOptions{})
	if err != nil || len(v.Problems) != 1 || v.Problems[0].Kind != "item-mismatch" || v.Problems[0].Tensor != first.Name || !strings.Contains(v.Problems[0].Detail, "float8_e5m2fnuz") {
		t.Errorf("%+v, %v", v.Problems, err)
	}
	swapped, _ := now.Lookup(first.Name)
	if _, err := now.Load(t.Context(), swapped); !errors.Is(err, ErrFormat) {
		t.Errorf("loaded: %v", err)
	}
}

// TestMismatch: whatever reads an item asks the same of it.
func TestMismatch(t *testing.T) {
	chunk := &Chunk{Sizes: []int64{2, 3}}
	for want, it := range map[string]*dcp.Item{
		"":                               {Dtype: "float32", Shape: []int64{2, 3}},
		"the file holds int32 [2 3], ":   {Dtype: "int32", Shape: []int64{2, 3}},
		"the file holds float32 [3 2], ": {Dtype: "float32", Shape: []int64{3, 2}},
		"the file holds float32 [2 3] big-endian, ": {Dtype: "float32", Shape: []int64{2, 3}, BigEndian: true},
	} {
		if got := mismatch(it, "float32", chunk); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDigest(t *testing.T) {
	f := newFolder(t)
	f.writeAll("a", torchSave(t, "ranks"))
	f.writeAll("copy", torchSave(t, "ranks"))
	f.writeAll("other", with(torchSave(t, "ranks"), map[string][]byte{"README": {1}}))
	digest := func(name string) (*Checkpoint, string) {
		c := f.open(name, Options{})
		read := int64(0)
		d, err := c.Digest(t.Context(), ReadOptions{Progress: func(done int64) { read = done }})
		if err != nil || read != c.Bytes() || len(d.Files) != len(c.Files) {
			t.Errorf("%s: %v, %d of %d bytes", name, err, read, c.Bytes())
		}
		return c, d.Sum
	}
	a, sumA := digest("/a")
	copied, sumCopy := digest("/copy")
	_, sumOther := digest("/other")
	if sumA != sumCopy || sumA == sumOther || a.Identity() == copied.Identity() || a.Identity() != f.open("/a", Options{}).Identity() {
		t.Errorf("digests %s %s %s, identities %s %s", sumA, sumCopy, sumOther, a.Identity(), copied.Identity())
	}
}

// TestDigestRate reads no faster than it may.
func TestDigestRate(t *testing.T) {
	f := newFolder(t)
	f.write("m.safetensors", safetensorsFile("", bytesTensor("a", 100_000)))
	c := f.open("/m.safetensors", Options{})
	start := time.Now()
	if _, err := c.Digest(t.Context(), ReadOptions{Rate: 1_000_000}); err != nil || time.Since(start) < 90*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Digest(ctx, ReadOptions{Rate: 1}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestLatest kills a writer at each phase of a save: it is never seen, and the older checkpoint is.
func TestLatest(t *testing.T) {
	ranks := torchSave(t, "ranks")
	order := []string{"common.pt", "__0_0.distcp", "__1_0.distcp", ".metadata.tmp", ".metadata", "metadata.json"}
	megatron := with(ranks, map[string][]byte{"common.pt": torchZip(4), "metadata.json": []byte(`{"sharded_backend": "torch_dist"}`), ".metadata.tmp": ranks[".metadata"]})
	f := newFolder(t)
	for _, name := range order {
		if name != ".metadata.tmp" {
			f.write("iter_0000010/"+name, megatron[name])
		}
	}
	f.write("latest_checkpointed_iteration.txt", []byte("20")) // a lie
	f.write("logs/x", nil)
	latest := func() (*Checkpoint, []error) {
		c, skipped, err := Latest(t.Context(), f, "/", Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c, skipped
	}
	for n, name := range order {
		f.write("iter_0000020/"+name, megatron[name])
		if name == ".metadata" {
			f.remove("iter_0000020/.metadata.tmp")
		}
		c, skipped := latest()
		if n < len(order)-1 && c.Step != 10 {
			t.Errorf("after %s: step %d, skipped %v", name, c.Step, skipped)
		}
		for cut := range megatron[name] {
			if cut%97 != 0 || name == "common.pt" {
				continue
			}
			f.write("iter_0000020/"+name, megatron[name][:cut]) // killed within the file
			if c, _ := latest(); c.Step != 10 {
				t.Errorf("%s cut to %d: step %d", name, cut, c.Step)
			}
		}
		f.write("iter_0000020/"+name, megatron[name])
	}
	f.remove("iter_0000020/.metadata.tmp")
	if c, skipped := latest(); c.Step != 20 || len(skipped) != 0 {
		t.Errorf("step %d, skipped %v", c.Step, skipped)
	}
	for root, want := range map[string]string{"/logs": "none of 0 folders is one", "/iter_0000010": "it is a checkpoint itself: give the folder above it"} {
		if _, _, err := Latest(t.Context(), f, root, Options{}); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", root, err, want)
		}
	}
	if _, err := Open(t.Context(), f, "/", Options{}); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "such as iter_0000020: give one of those") {
		t.Error(err)
	}
	if _, err := Open(t.Context(), f, "/iter_0000010/.metadata", Options{}); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "or the folder of a checkpoint") {
		t.Error(err)
	}
}

// TestSettle sees a rank that is still writing.
func TestSettle(t *testing.T) {
	f := newFolder(t)
	f.writeAll("global_step1", deepSpeed(2, 1))
	f.write("latest", []byte("global_step1")) // rank 0 is done, others are not
	late := &lateStore{folder: f}
	c, err := Open(t.Context(), late, "/global_step1", Options{Settle: time.Nanosecond})
	if err != nil || kinds(c.Problems) != "still-changing" {
		t.Errorf("%v, %v", c, err)
	}
}

// lateStore has one file more each time it lists.
type lateStore struct {
	*folder
	lists int
}

func (s *lateStore) List(ctx context.Context, name string) ([]store.Info, error) {
	infos, err := s.folder.List(ctx, name)
	s.lists++
	s.write(fmt.Sprintf("global_step1/bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt", 1+s.lists), torchZip(1))
	return infos, err
}

func TestDiff(t *testing.T) {
	f := newFolder(t)
	f.writeAll("a", torchSave(t, "plain"))
	f.writeAll("b", torchSave(t, "threads")) // the same state in other files
	c := f.open("/a", Options{})
	var tensors []simple
	for i := range c.Tensors {
		tensor := &c.Tensors[i]
		name, ok := safetensorsNames[tensor.Dtype]
		if !ok {
			continue
		}
		data, err := c.Load(t.Context(), tensor)
		must(t, err)
		if tensor.Name == "view" {
			data[5] ^= 1
		}
		tensors = append(tensors, simple{tensor.Name, name, tensor.Shape, data})
	}
	f.write("c.safetensors", safetensorsFile("", tensors...))
	f.writeAll("d", deepSpeed(1, 1))
	f.writeAll("e", with(deepSpeed(1, 1), map[string][]byte{"mp_rank_00_model_states.pt": torchZip(9)}))
	diff := func(a, b string, o DiffOptions) string {
		var found []string
		err := Diff(t.Context(), f.open(a, Options{}), f.open(b, Options{}), o, func(d Difference) error {
			found = append(found, d.Kind+" "+d.Tensor+d.Blob+d.File)
			return nil
		})
		must(t, err)
		return strings.Join(found, ", ")
	}
	if got := diff("/a", "/b", DiffOptions{}); got != "" {
		t.Errorf("the same state: %s", got)
	}
	got := diff("/a", "/c.safetensors", DiffOptions{})
	if !strings.Contains(got, "bytes view") || !strings.Contains(got, "only-first dtype.complex128") || !strings.Contains(got, "only-first nested.step") || strings.Count(got, "bytes") != 1 {
		t.Errorf("a flipped byte, and what safetensors has not: %s", got)
	}
	if got := diff("/a", "/c.safetensors", DiffOptions{Metadata: true}); strings.Contains(got, "bytes") {
		t.Error(got)
	}
	if got := diff("/d", "/e", DiffOptions{}); got != "bytes mp_rank_00_model_states.pt" {
		t.Error(got)
	}
}

// TestCallsThatGoTogether opens a checkpoint in a store in which some calls only end when another one has begun: whoever made them one after the other would
// wait for each way there and back.
func TestCallsThatGoTogether(t *testing.T) {
	f := newFolder(t)
	f.writeAll("step-1", torchSave(t, "plain"))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	far := &togetherStore{folder: f, begun: map[string]chan struct{}{}}
	for _, what := range []string{"stat /step-1", "list /step-1", "stat /step-1-unfinished", "open /step-1/.metadata"} {
		far.begun[what] = make(chan struct{})
	}
	c, err := Open(ctx, far, "/step-1", Options{})
	if err != nil || len(c.Problems) > 0 || c.Layout != DCP {
		t.Errorf("%v, %v", c, err)
	}
}

// togetherStore has calls that wait for others.
type togetherStore struct {
	*folder
	begun map[string]chan struct{}
}

// wait says that a call has begun, and waits for the other one.
func (s *togetherStore) wait(ctx context.Context, one, other string) error {
	if s.begun[one] == nil {
		return nil
	}
	close(s.begun[one]) // a second such call panics
	select {
	case <-s.begun[other]:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s waits for %s: %w", one, other, ctx.Err())
	}
}

func (s *togetherStore) Stat(ctx context.Context, name string) (store.Info, error) {
	other := "list " + name
	if base, ok := strings.CutSuffix(name, "-unfinished"); ok {
		other = "open " + base + "/.metadata"
	}
	if err := s.wait(ctx, "stat "+name, other); err != nil {
		return store.Info{}, err
	}
	return s.folder.Stat(ctx, name)
}

func (s *togetherStore) List(ctx context.Context, name string) ([]store.Info, error) {
	if err := s.wait(ctx, "list "+name, "stat "+name); err != nil {
		return nil, err
	}
	return s.folder.List(ctx, name)
}

func (s *togetherStore) Open(ctx context.Context, name string) (store.File, error) {
	if err := s.wait(ctx, "open "+name, "stat /step-1-unfinished"); err != nil {
		return nil, err
	}
	return s.folder.Open(ctx, name)
}
