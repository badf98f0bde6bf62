package safetensors

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
)

func sortedNames(h *Header) []string { return slices.Sorted(maps.Keys(h.byName)) }

// memory is a file in memory that counts its reads.
type memory struct {
	store.File
	data  []byte
	reads []store.Range
}

func (m *memory) Size() int64 { return int64(len(m.data)) }

func (m *memory) ReadRanges(_ context.Context, ranges []store.Range) error {
	for _, r := range ranges {
		if n := copy(r.Buf, m.data[r.Off:]); n < len(r.Buf) {
			return fmt.Errorf("%d+%d: %w", r.Off, len(r.Buf), store.ErrRange)
		}
		m.reads = append(m.reads, r)
	}
	return nil
}

func TestReadAsksForTheHeaderOnce(t *testing.T) {
	for _, c := range []struct{ tensors, reads int }{{0, 1}, {3, 1}, {3000, 2}} {
		data := manyTensors(c.tensors)
		m := &memory{data: data}
		h, err := Read(t.Context(), m)
		if err != nil || len(h.Tensors) != c.tensors || len(m.reads) != c.reads {
			t.Errorf("%d tensors: %d reads, %v", c.tensors, len(m.reads), err)
		}
		read := 0
		for _, r := range m.reads {
			read += len(r.Buf)
		}
		if most := max(firstRead, int(h.DataOff)); read > most {
			t.Errorf("%d tensors: %d bytes read, the header has %d", c.tensors, read, h.DataOff)
		}
	}
	for _, data := range [][]byte{nil, make([]byte, 5), file("{", 9)} {
		if _, err := Read(t.Context(), &memory{data: data}); err == nil {
			t.Errorf("%q is read", data)
		}
	}
}

// manyTensors is a file of n tensors as a large model has them.
func manyTensors(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"__metadata__":{"format":"pt"}`)
	at := 0
	for i := range n {
		fmt.Fprintf(&b, `,"model.layers.%d.mlp.experts.%d.down_proj.weight":{"dtype":"BF16","shape":[4,%d],"data_offsets":[%d,%d]}`, i/64, i%64, i%3, at, at+8*(i%3))
		at += 8 * (i % 3)
	}
	b.WriteString("}")
	return file(b.String(), at)
}

// drawn is a header that a property test made up, with what should come out.
type drawn struct {
	want []Tensor
	meta map[string]string
}

func drawHeader(t *rapid.T) drawn {
	names := rapid.SliceOfNDistinct(rapid.String(), 0, 12, rapid.ID[string]).Draw(t, "names")
	d := drawn{meta: rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "metadata")}
	at := int64(0)
	for _, name := range names {
		if name == metadataKey {
			continue
		}
		tensor := Tensor{Name: name, Dtype: Dtype(rapid.IntRange(int(Bool), int(U64)).Draw(t, "dtype")), Off: at}
		n := int64(1)
		for range rapid.IntRange(0, 3).Draw(t, "rank") {
			dim := rapid.Int64Range(0, 5).Draw(t, "dim")
			tensor.Shape = append(tensor.Shape, dim)
			n *= dim
		}
		if n*int64(tensor.Dtype.Bits())%8 != 0 {
			tensor.Shape, n = append(tensor.Shape, 4), n*4
		}
		tensor.Len = n * int64(tensor.Dtype.Bits()) / 8
		at += tensor.Len
		d.want = append(d.want, tensor)
	}
	return d
}

// bytes writes the header in an order and with blanks of its own.
func (d drawn) bytes(r *rand.Rand) []byte {
	blank := func() string { return strings.Repeat(" ", r.IntN(2)) + strings.Repeat("\n", r.IntN(2)) }
	quote := func(s string) string { q, _ := json.Marshal(s); return blank() + string(q) + blank() }
	list := func(v []int64) string {
		var texts []string
		for _, x := range v {
			texts = append(texts, blank()+fmt.Sprint(x)+blank())
		}
		return "[" + strings.Join(texts, ",") + "]"
	}
	var entries []string
	end := int64(0)
	for _, t := range d.want {
		members := []string{
			quote("dtype") + ":" + quote(t.Dtype.String()), quote("shape") + ":" + list(t.Shape),
			quote("data_offsets") + ":" + list([]int64{t.Off, t.Off + t.Len}),
		}
		r.Shuffle(3, func(i, j int) { members[i], members[j] = members[j], members[i] })
		entries = append(entries, quote(t.Name)+":{"+strings.Join(members, ",")+"}")
		end = t.Off + t.Len
	}
	var meta []string
	for k, v := range d.meta {
		meta = append(meta, quote(k)+":"+quote(v))
	}
	entries = append(entries, quote(metadataKey)+":{"+strings.Join(meta, ",")+"}")
	r.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	return file(blank()+"{"+strings.Join(entries, ",")+"}"+blank(), int(end))
}

// TestWrittenIsRead holds for any header: what one writes is what the other reads, whatever order and blanks it has, and every cut
// and every appended byte is refused.
func TestWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawHeader(t)
		data := d.bytes(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1)))
		h, err := Parse(data, int64(len(data)))
		if err != nil {
			t.Fatalf("%v: %q", err, data)
		}
		if len(h.Tensors) != len(d.want) || !maps.Equal(h.Metadata, d.meta) {
			t.Fatalf("%d tensors, metadata %v, want %d, %v", len(h.Tensors), h.Metadata, len(d.want), d.meta)
		}
		for _, want := range d.want {
			got, ok := h.Lookup(want.Name)
			if !ok || got.Dtype != want.Dtype || !slices.Equal(got.Shape, want.Shape) || got.Off != want.Off+h.DataOff || got.Len != want.Len {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
		size := rapid.Int64Range(0, int64(len(data))+9).Draw(t, "size")
		cut := data[:min(size, int64(len(data)))]
		if _, err := Parse(cut, size); (err == nil) != (size == int64(len(data))) {
			t.Fatalf("a file of %d bytes, cut or grown to %d: %v", len(data), size, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, c := range readGolden(f).Cases {
		f.Add(c.File)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Parse(data, int64(len(data)))
		if err != nil {
			return
		}
		end := h.DataOff
		for i, tensor := range h.Tensors {
			if tensor.Off != end || tensor.Len < 0 || tensor.Dtype.Bits() == 0 {
				t.Fatalf("tensor %d at %d+%d, the one before ends at %d", i, tensor.Off, tensor.Len, end)
			}
			end += tensor.Len
		}
		if end != int64(len(data)) {
			t.Fatalf("tensors end at %d of %d", end, len(data))
		}
		// What our parser accepts, Go's accepts too.
		var theirs map[string]json.RawMessage
		if err := json.Unmarshal(data[prefix:h.DataOff], &theirs); err != nil {
			t.Fatalf("accepted, and encoding/json says %v", err)
		}
		if _, _, err := h.Sharding(); err != nil && !strings.Contains(err.Error(), shardingKey) {
			t.Fatal(err)
		}
	})
}

// BenchmarkParse reads the header of a file of 100,000 tensors. The reference is safetensors' own reader:
//
//	python testdata/bench.py
func BenchmarkParse(b *testing.B) {
	data := manyTensors(100_000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(data, int64(len(data))); err != nil {
			b.Fatal(err)
		}
	}
}
