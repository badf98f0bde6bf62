package checkpoint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestReadersIsTorch compares the counts with the ranks that torch's own planners have read each file, for saves and loads of several numbers of
// ranks (testdata/readers.py).
func TestReadersIsTorch(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "readers.json"))
	must(t, err)
	type part struct {
		Name                  string
		Shape, Offsets, Sizes []int64
		File                  string
	}
	var golden struct {
		Cases []struct {
			Saved, Ranks  int
			Chunks, Blobs []part
			Readers       map[string]int
		}
	}
	must(t, json.Unmarshal(data, &golden))
	if len(golden.Cases) < 20 {
		t.Fatalf("%d cases", len(golden.Cases))
	}
	for _, g := range golden.Cases {
		c := &Checkpoint{Layout: DCP, byName: map[string]int{}}
		for file := range g.Readers {
			c.Files = append(c.Files, File{Name: file})
		}
		c.number()
		tensors := map[string]*Tensor{}
		var names []string
		for _, p := range g.Chunks {
			if tensors[p.Name] == nil {
				tensors[p.Name] = &Tensor{Name: p.Name, Shape: p.Shape}
				names = append(names, p.Name)
			}
			tensors[p.Name].Chunks = append(tensors[p.Name].Chunks, Chunk{File: c.file(p.File), Offsets: p.Offsets, Sizes: p.Sizes})
		}
		for _, name := range names {
			c.Tensors = append(c.Tensors, *tensors[name])
		}
		for _, p := range g.Blobs {
			c.Blobs = append(c.Blobs, Blob{Name: p.Name, File: c.file(p.File)})
		}
		for file, n := range readersByName(t, c, Parallel{Ranks: g.Ranks}) {
			if n != g.Readers[file] {
				t.Errorf("saved by %d, loaded by %d: %s is read by %d, torch has %d ranks read it", g.Saved, g.Ranks, file, n, g.Readers[file])
			}
		}
	}
}
