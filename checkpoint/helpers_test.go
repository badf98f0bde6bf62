package checkpoint

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// folder is a store over a folder of the test, and writes into it behind the store's back.
type folder struct {
	t    testing.TB
	root string
	store.Store
}

func newFolder(t testing.TB) *folder {
	t.Helper()
	root := t.TempDir()
	s, _, err := dir.Open(root, dir.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return &folder{t, s.Root(), s}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *folder) path(name string) string { return filepath.Join(f.root, filepath.FromSlash(name)) }

func (f *folder) write(name string, data []byte) {
	f.t.Helper()
	must(f.t, os.MkdirAll(filepath.Dir(f.path(name)), 0o755))
	must(f.t, os.WriteFile(f.path(name), data, 0o644))
}

func (f *folder) remove(name string) { must(f.t, os.RemoveAll(f.path(name))) }

func (f *folder) writeAll(dir string, files map[string][]byte) {
	f.t.Helper()
	for name, data := range files {
		f.write(dir+"/"+name, data)
	}
}

func (f *folder) open(name string, o Options) *Checkpoint {
	f.t.Helper()
	c, err := Open(f.t.Context(), f, name, o)
	if err != nil {
		f.t.Fatalf("%s: %v", name, err)
	}
	return c
}

// kinds are those of problems, in order, each once.
func kinds(problems []Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Kind)
	}
	return strings.Join(slices.Compact(all), " ")
}

// torchSave returns the files that torch wrote for a save of dcp/testdata.
func torchSave(t testing.TB, save string) map[string][]byte {
	t.Helper()
	packed, err := filepath.Glob(filepath.Join("dcp", "testdata", save, "*.gz"))
	must(t, err)
	files := map[string][]byte{}
	for _, p := range packed {
		data, err := os.ReadFile(p)
		must(t, err)
		z, err := gzip.NewReader(bytes.NewReader(data))
		must(t, err)
		content, err := io.ReadAll(z)
		must(t, err)
		name := strings.TrimSuffix(filepath.Base(p), ".gz")
		if name == "metadata" {
			name = ".metadata"
		}
		files[name] = content
	}
	if len(files) < 2 {
		t.Fatalf("%s: %d files", save, len(files))
	}
	return files
}

// torchSums are the SHA-256 of whole tensors as torch loaded them.
func torchSums(t testing.TB, save string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("dcp", "testdata", "golden.json"))
	must(t, err)
	var g struct {
		Saves map[string]struct {
			Tensors map[string]struct{ SHA256 string }
		}
	}
	must(t, json.Unmarshal(data, &g))
	sums := map[string]string{}
	for name, tensor := range g.Saves[save].Tensors {
		sums[name] = tensor.SHA256
	}
	return sums
}

// simple is a tensor of a safetensors file that a test writes.
type simple struct {
	name, dtype string
	shape       []int64
	data        []byte
}

func safetensorsFile(metadata string, tensors ...simple) []byte {
	var entries []string
	var data []byte
	if metadata != "" {
		entries = append(entries, `"__metadata__":`+metadata)
	}
	for _, t := range tensors {
		name, _ := json.Marshal(t.name)
		shape := strings.ReplaceAll(fmt.Sprint(t.shape), " ", ",")
		entries = append(entries, fmt.Sprintf(`%s:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, name, t.dtype, shape, len(data), len(data)+len(t.data)))
		data = append(data, t.data...)
	}
	header := "{" + strings.Join(entries, ",") + "}"
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), data...)
}

// bytesTensor is a tensor of n bytes that do not repeat.
func bytesTensor(name string, n int) simple {
	t := simple{name: name, dtype: "U8", shape: []int64{int64(n)}}
	for i := range n {
		t.data = append(t.data, byte(i*7+len(name)))
	}
	return t
}

// torchZip is a file that begins and ends as one of torch.save.
func torchZip(n int) []byte {
	file := append([]byte("PK\x03\x04"), make([]byte, n)...)
	return append(append(file, "PK\x05\x06"...), make([]byte, 18)...)
}

// set is a set of two files with an index.
func set() map[string][]byte {
	return map[string][]byte{
		"model-00001-of-00002.safetensors": safetensorsFile("", bytesTensor("a", 8), bytesTensor("b", 4)),
		"model-00002-of-00002.safetensors": safetensorsFile("", bytesTensor("c", 16)),
		"model.safetensors.index.json": []byte(`{"metadata":{"total_size":28},"weight_map":{"a":"model-00001-of-00002.safetensors",
			"b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}}`),
		"config.json": []byte(`{}`),
	}
}
