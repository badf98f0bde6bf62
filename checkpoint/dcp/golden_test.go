package dcp

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// golden is testdata/golden.json, which testdata/golden.py makes with torch.
type golden struct {
	Saves map[string]struct {
		SaveID  string `json:"save_id"`
		Version string
		Tensors map[string]struct {
			Dtype          string
			Shape, Strides []int64
			Chunks         []goldenChunk
			SHA256         string
		}
		Blobs map[string]goldenBlob
	}
	Items []struct {
		Name    string
		Item    []byte
		SHA256  *string
		Refused *string
	}
}

type goldenChunk struct {
	Offsets, Sizes []int64
	Place
}

func (c *goldenChunk) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&c.Offsets, &c.Sizes, &c.File, &c.Off, &c.Len})
}

type goldenBlob struct{ Place }

func (b *goldenBlob) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&b.File, &b.Off, &b.Len})
}

func readGolden(t testing.TB) golden {
	t.Helper()
	return testdata.ReadJSON[golden](t, "testdata/golden.json")
}

// unzip reads a file of a save as torch wrote it.
func unzip(t testing.TB, save, file string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", save, strings.TrimPrefix(file, ".")+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

func TestGoldenMetadata(t *testing.T) {
	for name, want := range readGolden(t).Saves {
		m, err := Decode(unzip(t, name, MetadataName))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m.SaveID != want.SaveID || m.Version != want.Version || m.Megatron || m.CheckpointID == "" || len(m.Tensors) != len(want.Tensors) || len(m.Blobs) != len(want.Blobs) {
			t.Errorf("%s: %s %s %q, %d tensors, %d blobs", name, m.SaveID, m.Version, m.CheckpointID, len(m.Tensors), len(m.Blobs))
		}
		for _, b := range m.Blobs {
			if want.Blobs[b.Name].Place != b.Place {
				t.Errorf("%s: blob %q at %+v, want %+v", name, b.Name, b.Place, want.Blobs[b.Name].Place)
			}
		}
		for _, tensor := range m.Tensors {
			w, ok := want.Tensors[tensor.Name]
			if !ok || tensor.Dtype != w.Dtype || !slices.Equal(tensor.Shape, w.Shape) || !slices.Equal(tensor.Strides, w.Strides) || len(tensor.Chunks) != len(w.Chunks) {
				t.Errorf("%s: %+v, want %+v", name, tensor, w)
				continue
			}
			for i, c := range tensor.Chunks {
				if !slices.Equal(c.Offsets, w.Chunks[i].Offsets) || !slices.Equal(c.Sizes, w.Chunks[i].Sizes) || c.Place != w.Chunks[i].Place {
					t.Errorf("%s: %q: chunk %+v, want %+v", name, tensor.Name, c, w.Chunks[i])
				}
			}
			if err := tensor.Covered(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestGoldenBytes puts the bytes of all chunks where they belong and compares them with the tensor that torch loaded.
func TestGoldenBytes(t *testing.T) {
	for name, want := range readGolden(t).Saves {
		m, err := Decode(unzip(t, name, MetadataName))
		if err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		for file, end := range m.Files() {
			files[file] = unzip(t, name, file)
			if end != int64(len(files[file])) {
				t.Errorf("%s: items of %s end at %d, the file has %d bytes", name, file, end, len(files[file]))
			}
		}
		for _, tensor := range m.Tensors {
			whole := assemble(t, &tensor, files)
			if got := sum(whole); got != want.Tensors[tensor.Name].SHA256 {
				t.Errorf("%s: %q: the bytes differ from torch's", name, tensor.Name)
			}
		}
	}
}

// assemble copies the elements of each chunk to their place in the whole tensor, in C order.
func assemble(t *testing.T, tensor *Tensor, files map[string][]byte) []byte {
	width, _ := DtypeBytes(tensor.Dtype)
	count := int64(1)
	for _, n := range tensor.Shape {
		count *= n
	}
	whole := make([]byte, count*width)
	for _, c := range tensor.Chunks {
		data := files[c.File][c.Off : c.Off+c.Len]
		it, err := ParseItem(data)
		if err != nil {
			t.Fatalf("%q: %v", tensor.Name, err)
		}
		head, err := ParseHead(data[:min(len(data), HeadBytes)], c.Len)
		if err != nil || head.Off != it.Off {
			t.Fatalf("%q: %+v by its head, %+v: %v", tensor.Name, head, it, err)
		}
		if it.Dtype != tensor.Dtype || !slices.Equal(it.Shape, c.Sizes) || it.BigEndian {
			t.Fatalf("%q: item %+v in a chunk of %v", tensor.Name, it, c.Sizes)
		}
		stored := data[it.StorageOff : it.StorageOff+it.StorageLen]
		crc, ok, err := it.StorageCRC(data[it.StorageOff+it.StorageLen:][:BehindBytes])
		if err != nil || !ok || crc != crc32.ChecksumIEEE(stored) {
			t.Errorf("%q: CRC %08x, %v, %v", tensor.Name, crc, ok, err)
		}
		each(c.Sizes, func(at []int64) {
			from, to, stride := it.Off, int64(0), int64(1)
			for d := len(at) - 1; d >= 0; d-- {
				from += at[d] * it.Strides[d] * width
				to += (at[d] + c.Offsets[d]) * stride
				stride *= tensor.Shape[d]
			}
			copy(whole[to*width:(to+1)*width], data[from:from+width])
		})
	}
	return whole
}

// each calls f with every place in a box.
func each(sizes []int64, f func(at []int64)) {
	if slices.Contains(sizes, 0) {
		return
	}
	at := make([]int64, len(sizes))
	for {
		f(at)
		d := len(at) - 1
		for ; d >= 0; d-- {
			if at[d]++; at[d] < sizes[d] {
				break
			}
			at[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

func TestGoldenItems(t *testing.T) {
	g := readGolden(t)
	if len(g.Items) < 15 {
		t.Fatalf("%d items", len(g.Items))
	}
	for _, c := range g.Items {
		it, err := ParseItem(c.Item)
		if c.Refused != nil {
			if err == nil || !strings.Contains(err.Error(), *c.Refused) {
				t.Errorf("%s: %v, want a refusal that names %s", c.Name, err, *c.Refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if c.SHA256 != nil && (!it.Contiguous() || sum(c.Item[it.Off:it.Off+it.Len]) != *c.SHA256) {
			t.Errorf("%s: %+v has other bytes than torch's", c.Name, it)
		}
		if c.SHA256 == nil && it.Contiguous() {
			t.Errorf("%s: %+v is contiguous", c.Name, it)
		}
		crc, ok, err := it.StorageCRC(c.Item[it.StorageOff+it.StorageLen:])
		if ok == (c.Name == "without sums") || err != nil || ok && crc != crc32.ChecksumIEEE(c.Item[it.StorageOff:it.StorageOff+it.StorageLen]) {
			t.Errorf("%s: CRC %08x, %v, %v", c.Name, crc, ok, err)
		}
	}
}

// TestItemHeads holds for every length of a head: it is enough, or more is asked for, and what is found is the same. A cut item is
// never accepted.
func TestItemHeads(t *testing.T) {
	for _, c := range readGolden(t).Items {
		whole, err := ParseItem(c.Item)
		if err != nil {
			continue
		}
		enough := len(c.Item)
		for n := range len(c.Item) {
			got, err := ParseHead(c.Item[:n], int64(len(c.Item)))
			switch {
			case err == nil:
				enough = min(enough, n)
				if got.Off != whole.Off || got.Len != whole.Len || got.StorageOff != whole.StorageOff {
					t.Fatalf("%s: %+v by %d bytes, %+v by all", c.Name, got, n, whole)
				}
			case !errors.Is(err, io.ErrUnexpectedEOF):
				t.Fatalf("%s: %d bytes: %v", c.Name, n, err)
			case n > enough:
				t.Fatalf("%s: %d bytes were enough, and %d are not: %v", c.Name, enough, n, err)
			}
			if _, err := ParseItem(c.Item[:n]); n < int(whole.StorageOff+whole.StorageLen) && !errors.Is(err, ErrFormat) {
				t.Fatalf("%s: cut to %d of %d bytes: %v", c.Name, n, len(c.Item), err)
			}
		}
		if enough > HeadBytes {
			t.Errorf("%s: needs %d bytes", c.Name, enough)
		}
	}
}

func FuzzParseItem(f *testing.F) {
	for _, c := range readGolden(f).Items {
		f.Add(c.Item, 100)
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		it, err := ParseItem(data)
		known(t, err)
		if err == nil && (it.Off < it.StorageOff || it.Off+it.Len > it.StorageOff+it.StorageLen || it.StorageOff+it.StorageLen > int64(len(data)) || len(it.Shape) != len(it.Strides)) {
			t.Fatalf("%+v in %d bytes", it, len(data))
		}
		if cut >= 0 && cut < len(data) {
			_, err = ParseHead(data[:cut], int64(len(data)))
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				known(t, err)
			}
		}
	})
}

func known(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrForbidden) && !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
}

func FuzzDecode(f *testing.F) {
	for name := range readGolden(f).Saves {
		f.Add(unzip(f, name, MetadataName))
	}
	for _, c := range readHostile(f) {
		f.Add(c.Metadata)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data)
		known(t, err)
		if err != nil {
			return
		}
		for file := range m.Files() {
			if !inside(file) || bytes.ContainsAny([]byte(file), "\\\x00") || strings.HasPrefix(file, "/") {
				t.Fatalf("%q leaves the folder", file)
			}
		}
		for i := range m.Tensors {
			known(t, m.Tensors[i].Covered())
		}
	})
}
