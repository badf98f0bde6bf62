// Package dcp knows what torch's distributed checkpoint and Megatron's torch_dist write: the .metadata of a checkpoint, read
// without running its pickle, and the items in .distcp files.
package dcp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stepahead-io/stepahead/checkpoint/dcp/pickle"
)

// The names of files. A save without collectives writes RankPrefix + rank + MetadataName for each rank.
const (
	MetadataName = ".metadata"
	RankPrefix   = "__"
	DataSuffix   = ".distcp"
)

// Metadata is what a .metadata says: which tensors a checkpoint has, and where the bytes of their chunks lie. It is not changed
// after it was made.
type Metadata struct {
	// Tensors and Blobs in the order of the pickle, which is that of the plan.
	Tensors []Tensor
	// Blobs are the values that are not tensors, pickled by torch.
	Blobs []Blob
	// SaveID is new at every save; "" of torch before 2.3.
	SaveID string
	// CheckpointID is where the writer thought the checkpoint to be; "" if it is not said.
	CheckpointID string
	// Version is that of the metadata, such as "1.0.0"; "" if it is not said.
	Version string
	// Megatron is true of what Megatron's strategies wrote.
	Megatron bool
}

// Tensor is a whole tensor, in chunks.
type Tensor struct {
	Name string
	// Dtype is torch's name without the module, such as "bfloat16".
	Dtype string
	// Shape is that of the whole tensor; empty for a scalar.
	Shape []int64
	// Layout is torch's, such as "torch.strided".
	Layout string
	// Strides are those in memory when it was saved; nil where the writer does not say (torch before 2.6).
	Strides []int64
	// RequiresGrad and MemoryFormat ("contiguous", "channels_last" or "preserve") are as torch says.
	RequiresGrad bool
	MemoryFormat string
	Chunks       []Chunk
}

// Chunk is a box of a tensor and where its bytes lie.
type Chunk struct {
	// Offsets and Sizes have one number for each dimension of the tensor.
	Offsets, Sizes []int64
	Place
}

// Blob is a value that is not a tensor.
type Blob struct {
	Name string
	Place
}

// Place is where an item lies.
type Place struct {
	// File is the slash-separated path in the checkpoint's folder, which it does not leave.
	File string
	// Off and Len are the item's bytes in the file: for a tensor a file of torch.save, see ParseItem; for a blob the bytes. Len is
	// -1 of an item in a safetensors file, whose header says where it lies.
	Off, Len int64
}

var (
	// ErrFormat: the metadata or item is not what torch writes, or it is cut.
	ErrFormat = errors.New("not a valid torch distributed checkpoint")
	// ErrForbidden: a pickle asks for a global or a call that is not needed to describe tensors, and may be hostile. Nothing was run.
	ErrForbidden = pickle.ErrForbidden
	// ErrUnsupported: only torch itself can read it.
	ErrUnsupported = errors.New("not supported: load it with torch")
)

func formatf(format string, args ...any) error {
	return fmt.Errorf("dcp: %w: %w", fmt.Errorf(format, args...), ErrFormat)
}

// Lookup returns the tensor of a name. It is slow: for many names make a map.
func (m *Metadata) Lookup(name string) (*Tensor, bool) {
	for i := range m.Tensors {
		if m.Tensors[i].Name == name {
			return &m.Tensors[i], true
		}
	}
	return nil, false
}

// Files returns the end of the last item in each file, so that files can be checked to hold what the metadata says.
func (m *Metadata) Files() map[string]int64 {
	ends := map[string]int64{}
	m.places(func(_ string, p Place) { ends[p.File] = max(ends[p.File], p.Off+max(p.Len, 0)) })
	return ends
}

// places calls each with every item.
func (m *Metadata) places(each func(name string, p Place)) {
	for i := range m.Tensors {
		for _, c := range m.Tensors[i].Chunks {
			each(m.Tensors[i].Name, c.Place)
		}
	}
	for _, b := range m.Blobs {
		each(b.Name, b.Place)
	}
}

// clip shortens a text from a file for a message.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// Join joins the metadata of the ranks of a save without collectives: the chunks of a tensor that several ranks have. Ranks that do
// not agree about a tensor's dtype or shape are ErrFormat. What several ranks have is taken from the first.
func Join(ranks []*Metadata) (*Metadata, error) {
	whole := &Metadata{}
	tensors, blobs, chunks := map[string]int{}, map[string]bool{}, map[string]bool{}
	for k, m := range ranks {
		if k == 0 {
			whole.SaveID, whole.CheckpointID, whole.Version = m.SaveID, m.CheckpointID, m.Version
		}
		whole.Megatron = whole.Megatron || m.Megatron
		for _, t := range m.Tensors {
			i, known := tensors[t.Name]
			if !known {
				i = len(whole.Tensors)
				tensors[t.Name] = i
				first := t
				first.Chunks = nil
				whole.Tensors = append(whole.Tensors, first)
			}
			if err := whole.Tensors[i].join(t, chunks); err != nil {
				return nil, err
			}
		}
		for _, b := range m.Blobs {
			if !blobs[b.Name] {
				blobs[b.Name] = true
				whole.Blobs = append(whole.Blobs, b)
			}
		}
	}
	return whole, nil
}

// join adds the chunks of a rank that no other has.
func (t *Tensor) join(rank Tensor, seen map[string]bool) error {
	if t.Dtype != rank.Dtype || !slices.Equal(t.Shape, rank.Shape) {
		return formatf("%q is %s of %v to one rank and %s of %v to another", clip(t.Name), t.Dtype, t.Shape, rank.Dtype, rank.Shape)
	}
	for _, c := range rank.Chunks {
		key := fmt.Sprintf("%q %v %v", t.Name, c.Offsets, c.Sizes)
		if !seen[key] {
			seen[key] = true
			t.Chunks = append(t.Chunks, c)
		}
	}
	return nil
}
