package checkpoint

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
)

var (
	// layerInName finds the number of a layer in a tensor's name.
	layerInName = regexp.MustCompile(`^(.*\blayers\.)(\d{1,6})\.`)
	// stackedLayers finds tensors of all layers, one layer after the other in their first dimension.
	stackedLayers = regexp.MustCompile(`\blayers\.`)
	// expertTensor finds tensors of which each expert-parallel rank has its own part.
	expertTensor = regexp.MustCompile(`\bexperts?\b`)
	// objectOfRank finds one of several values that Megatron saves under a name: its number, and how many there are, in one dimension or more.
	objectOfRank = regexp.MustCompile(`^(.*)/shard_(\d+(?:\.\d+)*)_(\d+(?:\.\d+)*)$`)
)

// randomState is the name of the states of random numbers.
const randomState = "rng_state"

// division is how the tensors of a distributed checkpoint fall to the places of a job.
type division struct {
	p      Parallel
	shards int // places beside tensor and pipeline ones
	layers map[string]int64
	// megatron: each data-parallel rank reads what its model-parallel rank holds.
	megatron bool
}

// countParts counts the ranks that hold a part of what lies in each file.
func (c *Checkpoint) countParts(p Parallel, counts []int) {
	d := division{p: p, shards: p.Shards, layers: map[string]int64{}, megatron: c.Layout == TorchDist}
	if d.megatron {
		d.shards = 1
		if p.data()%p.Expert == 0 {
			d.shards = p.Expert
		}
	}
	for _, t := range c.Tensors {
		if stack, n, ok := layerOf(t.Name); ok {
			d.layers[stack] = max(d.layers[stack], n+1)
		}
	}
	sets := make([]*holders, len(c.Files))
	add := func(file int, b places) {
		if file < 0 {
			return
		}
		if sets[file] == nil {
			sets[file] = newHolders(p.Tensor, p.Pipeline, d.shards)
		}
		sets[file].add(b)
	}
	for i := range c.Tensors {
		t := &c.Tensors[i]
		cut := d.cuts(t)
		for k := range t.Chunks {
			if len(t.Chunks) > 1 && slices.Contains(t.Chunks[k].Sizes, 0) {
				continue // of a rank that got no rows: nobody reads it
			}
			add(t.Chunks[k].File, d.readersOf(t, &t.Chunks[k], cut))
		}
	}
	for _, b := range c.Blobs {
		add(b.File, d.readersOfBlob(b.Name))
	}
	for i, set := range sets {
		if set != nil {
			counts[i] = set.count(p.Ranks)
		}
	}
	for i, f := range c.Files {
		switch {
		case f.Name == dcp.MetadataName, f.Name == megatronConfig, f.Name == commonState:
			counts[i] = p.Ranks
		case rankMetadata.MatchString(f.Name):
			counts[i] = 1
		}
	}
}

// layerOf is the number of the layer that a tensor is of, and what counts the layers; false if its name says none.
func layerOf(tensor string) (stack string, n int64, ok bool) {
	m := layerInName.FindStringSubmatch(tensor)
	if m == nil {
		return "", 0, false
	}
	n, _ = strconv.ParseInt(m[2], 10, 64) // six digits
	return m[1], n, true
}

// cuts says in which dimensions a tensor is cut.
func (d *division) cuts(t *Tensor) []bool {
	cut := make([]bool, len(t.Shape))
	for _, ch := range t.Chunks {
		for dim := range cut {
			cut[dim] = cut[dim] || ch.Sizes[dim] != t.Shape[dim]
		}
	}
	return cut
}

func (d *division) everywhere() places {
	return places{[2]int{0, d.p.Tensor}, [2]int{0, d.p.Pipeline}, [2]int{0, d.shards}}
}

// readersOf are the places of a job that need something of a chunk. A dimension that is cut is divided among the ranks that divide
// tensors so; a tensor that is not cut is needed by all, or by those that have its layer.
func (d *division) readersOf(t *Tensor, ch *Chunk, cut []bool) places {
	b := d.everywhere()
	if stack, n, ok := layerOf(t.Name); ok {
		b.pipeline = evenly(n, n+1, d.layers[stack], d.p.Pipeline)
	}
	sharded := false
	for dim, isCut := range cut {
		from, to, size := ch.Offsets[dim], ch.Offsets[dim]+ch.Sizes[dim], t.Shape[dim]
		switch {
		case !isCut:
		case d.megatron && dim == 0 && ch.Sizes[0] == 1 && stackedLayers.MatchString(t.Name):
			b.pipeline = evenly(from, to, size, d.p.Pipeline)
		case d.megatron && expertTensor.MatchString(t.Name) && !sharded:
			b.shard, sharded = evenly(from, to, size, d.shards), true
		case d.megatron || d.p.Tensor > 1 && dim > 0:
			b.tensor = evenly(from, to, size, d.p.Tensor)
		case !sharded:
			b.shard, sharded = inChunks(from, to, size, d.shards), true
		}
	}
	return b
}

// readersOfBlob are the places that need a value. Of those that Megatron saves for each layer it is the layer's stage; of the state of
// random numbers the pipeline stage and the tensor-parallel rank, which number it in this order.
func (d *division) readersOfBlob(name string) places {
	b := d.everywhere()
	m := objectOfRank.FindStringSubmatch(name)
	if m == nil {
		return b
	}
	at, of := strings.Split(m[2], "."), strings.Split(m[3], ".")
	if len(at) != len(of) {
		return b
	}
	part := func(dim, n int) [2]int {
		i, err := strconv.ParseInt(at[dim], 10, 32)
		size, err2 := strconv.ParseInt(of[dim], 10, 32)
		if err != nil || err2 != nil || i >= size {
			return [2]int{0, n}
		}
		return evenly(i, i+1, size, n)
	}
	switch {
	case stackedLayers.MatchString(m[1]):
		b.pipeline = part(0, d.p.Pipeline)
	case m[1] == randomState && len(at) > 1:
		b.pipeline, b.tensor = part(0, d.p.Pipeline), part(1, d.p.Tensor)
	}
	return b
}

// evenly is which of n equal parts of size the stretch [from, to) touches.
func evenly(from, to, size int64, n int) [2]int {
	if size <= 0 {
		return [2]int{0, n}
	}
	part := func(x int64) float64 { return float64(x) * float64(n) / float64(size) }
	first, last := int(part(from)), int(part(to))
	if float64(last) < part(to) {
		last++
	}
	return [2]int{min(first, n-1), max(min(last, n), min(first, n-1)+1)}
}

// inChunks is evenly as torch.chunk divides: into parts of the same length, of which the last may be shorter or missing.
func inChunks(from, to, size int64, n int) [2]int {
	if size <= 0 {
		return [2]int{0, n}
	}
	length := (size + int64(n) - 1) / int64(n)
	return [2]int{int(from / length), int((to-1)/length) + 1}
}
