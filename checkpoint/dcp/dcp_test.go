package dcp

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// hostile is one case of testdata/hostile.json, which testdata/hostile.py makes with Python's pickler.
type hostile struct {
	Name     string
	Metadata []byte
	Refused  *string
}

func readHostile(t testing.TB) []hostile {
	t.Helper()
	data, err := os.ReadFile("testdata/hostile.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []hostile
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestHostileIsRefusedByName(t *testing.T) {
	refused := 0
	for _, c := range readHostile(t) {
		if c.Refused == nil {
			continue
		}
		refused++
		_, err := Decode(c.Metadata)
		if err == nil || !strings.Contains(err.Error(), *c.Refused) {
			t.Errorf("%s: %v, want a refusal that names %s", c.Name, err, *c.Refused)
		}
		known(t, err)
		if strings.Contains(c.Name, " in planner data") && !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v is not ErrForbidden", c.Name, err)
		}
		if c.Name == "transforms" && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v is not ErrUnsupported", c.Name, err)
		}
	}
	if refused < 40 {
		t.Errorf("%d cases", refused)
	}
}

func TestOtherWritersAreRead(t *testing.T) {
	read := 0
	for _, c := range readHostile(t) {
		if c.Refused != nil {
			continue
		}
		read++
		m, err := Decode(c.Metadata)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		w, ok := m.Lookup("w")
		if !ok || len(m.Tensors) != 1 || len(m.Blobs) != 1 || !slices.Equal(w.Shape, []int64{2, 3}) || len(w.Chunks) != 2 || w.Layout != "torch.strided" || w.Covered() != nil {
			t.Errorf("%s: %+v", c.Name, m)
			continue
		}
		kind, _, _ := strings.Cut(c.Name, ",")
		wantID := "/a/b"
		switch kind {
		case "no storage meta":
			wantID = ""
		case "path of the multi-storage client":
			wantID = "msc://lake/a"
		}
		if m.Megatron != (kind == "megatron") || (m.SaveID == "") != (wantID == "") || m.CheckpointID != wantID {
			t.Errorf("%s: %+v", c.Name, m)
		}
		wantDtype, wantFormat, wantStrides := "float32", "contiguous", 2
		switch kind {
		case "five properties":
			wantDtype, wantFormat, wantStrides = "bfloat16", "channels_last", 0
		case "old properties":
			wantFormat, wantStrides = "preserve", 0
		case "no strides":
			wantStrides = 0
		}
		if w.Dtype != wantDtype || w.MemoryFormat != wantFormat || len(w.Strides) != wantStrides || w.RequiresGrad != (kind == "old properties") {
			t.Errorf("%s: %+v", c.Name, w)
		}
		place := Place{File: "__0_0.distcp", Off: 1000, Len: 900}
		switch kind {
		case "folders":
			place.File = "a/b/__0_0.distcp"
		case "hugging face":
			place = Place{File: "shard-1.safetensors", Len: -1}
		}
		if w.Chunks[1].Place != place || m.Blobs[0].Place != (Place{"__0_0.distcp", 5000, 10}) {
			t.Errorf("%s: %+v, %+v", c.Name, w.Chunks[1].Place, m.Blobs[0].Place)
		}
	}
	if read < 30 {
		t.Errorf("%d cases", read)
	}
}

// TestEveryCutIsRefused cuts a real .metadata at every byte, and appends one.
func TestEveryCutIsRefused(t *testing.T) {
	data := unzip(t, "ranks", MetadataName)
	for n := range len(data) {
		if _, err := Decode(data[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(data), err)
		}
	}
	if _, err := Decode(append(data, 0)); !errors.Is(err, ErrFormat) {
		t.Errorf("appended: %v", err)
	}
}

// TestRealCheckpoints compares with what a reader that does not run pickles says of real checkpoints of other versions.
func TestRealCheckpoints(t *testing.T) {
	want := map[string][]string{}
	for _, row := range strings.Split(strings.TrimSpace(string(testdata.Read(t, "expect-dcp.tsv"))), "\n")[1:] {
		folder, rest, _ := strings.Cut(row, "\t")
		want[folder] = append(want[folder], rest)
	}
	if len(want) < 2 {
		t.Fatalf("%d checkpoints", len(want))
	}
	for folder, rows := range want {
		m, err := Decode(testdata.Read(t, folder+"/"+MetadataName))
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}
		got := rowsOf(m)
		slices.Sort(got)
		slices.Sort(rows)
		if !slices.Equal(got, rows) {
			t.Errorf("%s:\n%s\nwant\n%s", folder, strings.Join(got, "\n"), strings.Join(rows, "\n"))
		}
		for _, tensor := range m.Tensors {
			checkItems(t, folder, tensor)
		}
	}
}

// rowsOf writes metadata as the table of what is expected does.
func rowsOf(m *Metadata) []string {
	times := func(s []int64) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(s), " ", "x"), "[]") }
	var rows []string
	for _, tensor := range m.Tensors {
		for _, c := range tensor.Chunks {
			rows = append(rows, fmt.Sprintf("%s\tTensorStorageMetadata\t%s\t%s\t%s\t%s\t%d\t%d", tensor.Name, tensor.Dtype, times(tensor.Shape), times(c.Offsets), c.File, c.Off, c.Len))
		}
	}
	for _, b := range m.Blobs {
		rows = append(rows, fmt.Sprintf("%s\tBytesStorageMetadata\t\t\t\t%s\t%d\t%d", b.Name, b.File, b.Off, b.Len))
	}
	return rows
}

func checkItems(t *testing.T, folder string, tensor Tensor) {
	t.Helper()
	if err := tensor.Covered(); err != nil {
		t.Errorf("%s: %v", folder, err)
	}
	for _, c := range tensor.Chunks {
		data, err := os.ReadFile(filepath.Join(testdata.Path(t, folder), c.File))
		if err != nil {
			t.Fatal(err)
		}
		it, err := ParseItem(data[c.Off : c.Off+c.Len])
		if err != nil || it.Dtype != tensor.Dtype || !slices.Equal(it.Shape, c.Sizes) || !it.Contiguous() {
			t.Errorf("%s: %q: %+v, %v", folder, tensor.Name, it, err)
		}
	}
}

// TestCovered cuts a tensor into boxes at random: they cover it, and do not once one is missing, doubled or moved.
func TestCovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.Int64Range(1, 6), 1, 3).Draw(t, "shape")
		boxes := []Chunk{{Offsets: make([]int64, len(shape)), Sizes: slices.Clone(shape)}}
		for range rapid.IntRange(0, 8).Draw(t, "cuts") {
			i := rapid.IntRange(0, len(boxes)-1).Draw(t, "box")
			d := rapid.IntRange(0, len(shape)-1).Draw(t, "dimension")
			if n := boxes[i].Sizes[d]; n > 1 {
				at := rapid.Int64Range(1, n-1).Draw(t, "at")
				upper := Chunk{Offsets: slices.Clone(boxes[i].Offsets), Sizes: slices.Clone(boxes[i].Sizes)}
				upper.Offsets[d] += at
				upper.Sizes[d] -= at
				boxes[i].Sizes = slices.Clone(boxes[i].Sizes)
				boxes[i].Sizes[d] = at
				boxes = append(boxes, upper)
			}
		}
		boxes = rapid.Permutation(boxes).Draw(t, "order")
		whole := Tensor{Name: "w", Shape: shape, Chunks: boxes}
		if err := whole.Covered(); err != nil {
			t.Fatalf("%v: %+v", err, boxes)
		}
		i := rapid.IntRange(0, len(boxes)-1).Draw(t, "wrong")
		missing := Tensor{Name: "w", Shape: shape, Chunks: slices.Delete(slices.Clone(boxes), i, i+1)}
		doubled := Tensor{Name: "w", Shape: shape, Chunks: append(slices.Clone(boxes), boxes[i])}
		if missing.Covered() == nil || doubled.Covered() == nil {
			t.Fatalf("without box %d: %v; with it twice: %v", i, missing.Covered(), doubled.Covered())
		}
		j := (i + 1) % len(boxes)
		if j != i && slices.Equal(boxes[i].Sizes, boxes[j].Sizes) {
			moved := slices.Clone(boxes)
			moved[i].Offsets = boxes[j].Offsets // as many elements, in the wrong place
			if (&Tensor{Name: "w", Shape: shape, Chunks: moved}).Covered() == nil {
				t.Fatalf("box %d moved onto box %d of %+v", i, j, boxes)
			}
		}
	})
	scalar := Tensor{Chunks: []Chunk{{Offsets: []int64{}, Sizes: []int64{}}}}
	twice := Tensor{Chunks: append(scalar.Chunks, scalar.Chunks[0])}
	huge := Tensor{Shape: []int64{1 << 40, 1 << 40}}
	if scalar.Covered() != nil || twice.Covered() == nil || huge.Covered() == nil || (&Tensor{Shape: []int64{0, 4}}).Covered() != nil {
		t.Errorf("scalar %v, twice %v, huge %v", scalar.Covered(), twice.Covered(), huge.Covered())
	}
}

func TestJoin(t *testing.T) {
	chunk := func(rank, at int64) Chunk {
		return Chunk{Offsets: []int64{at}, Sizes: []int64{2}, Place: Place{File: fmt.Sprintf("__%d_0.distcp", rank), Len: 9}}
	}
	rank := func(n int64, chunks ...Chunk) *Metadata {
		return &Metadata{SaveID: fmt.Sprint(n), Tensors: []Tensor{{Name: "w", Dtype: "int8", Shape: []int64{4}, Chunks: chunks}}, Blobs: []Blob{{Name: "step", Place: Place{File: fmt.Sprint(n)}}}}
	}
	whole, err := Join([]*Metadata{rank(0, chunk(0, 0)), rank(1, chunk(1, 2)), rank(2, chunk(2, 0))})
	if err != nil || len(whole.Tensors) != 1 || len(whole.Tensors[0].Chunks) != 2 || whole.Tensors[0].Covered() != nil || whole.SaveID != "0" || len(whole.Blobs) != 1 || whole.Blobs[0].File != "0" {
		t.Errorf("%+v, %v", whole, err)
	}
	other := rank(1)
	other.Tensors[0].Dtype = "int16"
	if _, err := Join([]*Metadata{rank(0), other}); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// script writes pickles as Python's pickler does.
type script struct{ bytes.Buffer }

func (s *script) text(v string) {
	s.WriteString("\x8c")
	s.WriteByte(byte(len(v)))
	s.WriteString(v + "\x94")
}

func (s *script) global(module, name string) {
	s.text(module)
	s.text(name)
	s.WriteString("\x93\x94")
}

func (s *script) integer(n int64) {
	s.WriteString("J")
	s.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

// object writes an instance with attributes, each by a function.
func (s *script) object(module, name string, attrs ...any) {
	s.global(module, name)
	s.WriteString(")\x81\x94}\x94(")
	for i := 0; i < len(attrs); i += 2 {
		s.text(attrs[i].(string))
		attrs[i+1].(func())()
	}
	s.WriteString("ub")
}

func (s *script) size(dims ...int64) func() {
	return func() {
		s.global("torch", "Size")
		s.WriteString("(")
		for _, d := range dims {
			s.integer(d)
		}
		s.WriteString("t\x94\x85\x94R\x94")
	}
}

// largeMetadata is a .metadata of tensors in chunks. Its pickle names every class anew, which is longer than what torch writes.
func largeMetadata(tensors, chunks int) []byte {
	s := &script{}
	s.WriteString("\x80\x04")
	name := func(i int) string { return fmt.Sprintf("model.layers.%d.mlp.experts.down_proj.weight", i) }
	states := func() {
		s.WriteString("}\x94(")
		for i := range tensors {
			s.text(name(i))
			s.object(dcpMetadata, "TensorStorageMetadata", "properties", func() {
				s.global(dcpMetadata, "TensorProperties")
				s.WriteString(")\x81\x94(")
				s.global("torch", "bfloat16")
				s.global("torch.serialization", "_get_layout")
				s.text("torch.strided")
				s.WriteString("\x85R\x89")
				s.global(dcpMetadata, "_MEM_FORMAT_ENCODING")
				s.WriteString("K\x00\x85R\x89t\x94b")
			}, "size", s.size(int64(chunks), 4096), "chunks", func() {
				s.WriteString("]\x94(")
				for c := range chunks {
					s.object(dcpMetadata, "ChunkStorageMetadata", "offsets", s.size(int64(c), 0), "sizes", s.size(1, 4096))
				}
				s.WriteString("e")
			})
		}
		s.WriteString("u")
	}
	stored := func() {
		s.WriteString("}\x94(")
		for i := range tensors {
			for c := range chunks {
				s.object(dcpMetadata, "MetadataIndex", "fqn", func() { s.text(name(i)) }, "index", func() { s.integer(int64(c)) }, "offset", s.size(int64(c), 0))
				s.object("torch.distributed.checkpoint.filesystem", "_StorageInfo", "relative_path", func() { s.text(fmt.Sprintf("__%d_0.distcp", c)) },
					"offset", func() { s.integer(int64(i) * 9000) }, "length", func() { s.integer(8999) })
			}
		}
		s.WriteString("u")
	}
	s.object(dcpMetadata, "Metadata", "state_dict_metadata", states, "storage_data", stored)
	s.WriteString(".")
	return s.Bytes()
}

func TestLargeMetadata(t *testing.T) {
	m, err := Decode(largeMetadata(20, 300))
	if err != nil || len(m.Tensors) != 20 || len(m.Files()) != 300 {
		t.Fatalf("%v, %v", m, err)
	}
	for i := range m.Tensors {
		if err := m.Tensors[i].Covered(); err != nil || len(m.Tensors[i].Chunks) != 300 {
			t.Error(err)
		}
	}
}

// BenchmarkDecode reads a .metadata of 100,000 chunks.
func BenchmarkDecode(b *testing.B) {
	data := largeMetadata(200, 500)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
