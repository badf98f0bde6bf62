package checkpoint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// plannedPart is a chunk of a tensor, or a value, and the file that torch's planners put it into.
type plannedPart struct {
	Name                  string
	Shape, Offsets, Sizes []int64
	File                  string
}

// plannedCase is a save, and how many ranks of a job read each file.
type plannedCase struct {
	Saved                   any
	Ranks, Tensor, Pipeline int
	Chunks, Blobs           []plannedPart
	Readers                 map[string]int
}

func (g plannedCase) checkpoint(layout Layout) *Checkpoint {
	c := &Checkpoint{Layout: layout, byName: map[string]int{}}
	for file := range g.Readers {
		c.Files = append(c.Files, File{Name: file})
	}
	c.number()
	at := map[string]int{}
	for _, p := range g.Chunks {
		i, known := at[p.Name]
		if !known {
			i = len(c.Tensors)
			at[p.Name] = i
			c.Tensors = append(c.Tensors, Tensor{Name: p.Name, Shape: p.Shape})
		}
		c.Tensors[i].Chunks = append(c.Tensors[i].Chunks, Chunk{File: c.file(p.File), Offsets: p.Offsets, Sizes: p.Sizes})
	}
	for _, p := range g.Blobs {
		c.Blobs = append(c.Blobs, Blob{Name: p.Name, File: c.file(p.File)})
	}
	return c
}

// exact tells whether the readers of a file can be known: which stages of a pipeline read what is of no layer cannot.
func (g plannedCase) exact(file string) bool {
	if g.Pipeline <= 1 {
		return true
	}
	for _, p := range append(g.Chunks, g.Blobs...) {
		if p.File == file && !strings.Contains(p.Name, ".layers.") && !strings.HasPrefix(p.Name, randomState) {
			return false
		}
	}
	return true
}

// TestReadersIsTorch compares the counts with the ranks that the planners of torch and Megatron-core have read each file, for saves and loads of
// several sizes (testdata/readers.py, readers_megatron.py): they are the same, or larger where it cannot be known.
func TestReadersIsTorch(t *testing.T) {
	for file, layout := range map[string]Layout{"readers.json": DCP, "readers_megatron.json": TorchDist} {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		must(t, err)
		var golden struct{ Cases []plannedCase }
		must(t, json.Unmarshal(data, &golden))
		exact, all := 0, 0
		for _, g := range golden.Cases {
			for name, n := range readersByName(t, g.checkpoint(layout), Parallel{Ranks: g.Ranks, Tensor: g.Tensor, Pipeline: g.Pipeline}) {
				all++
				if g.exact(name) {
					exact++
				}
				if want := g.Readers[name]; n < want || n > want && g.exact(name) {
					t.Errorf("%s: saved by %v, loaded by %d (%d x %d): %s is read by %d, and by %d of torch's", file, g.Saved, g.Ranks, g.Tensor, g.Pipeline, name, n, want)
				}
			}
		}
		if len(golden.Cases) < 20 || exact < all/4 {
			t.Errorf("%s: %d cases, %d of %d files exact", file, len(golden.Cases), exact, all)
		}
	}
}
