package pybind

import (
	"context"
	"fmt"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/store"
)

// checkpointOpened is what Python learns of a checkpoint.
type checkpointOpened struct {
	Checkpoint int64                `json:"checkpoint"`
	Layout     checkpoint.Layout    `json:"layout"`
	Identity   string               `json:"identity"`
	Files      []checkpoint.File    `json:"files"`
	Tensors    []tensorDescription  `json:"tensors,omitempty"`
	Problems   []checkpoint.Problem `json:"problems"`
	Incomplete string               `json:"incomplete"` // the first problems, in words

	s *openStore
}

// tensorDescription is a checkpoint.Tensor.
type tensorDescription struct {
	Name   string             `json:"name"`
	Dtype  string             `json:"dtype"`
	Shape  []int64            `json:"shape"`
	Chunks []chunkDescription `json:"chunks"`
}

// chunkDescription is a checkpoint.Chunk.
type chunkDescription struct {
	File    int     `json:"file"`
	Off     int64   `json:"off"`
	Len     int64   `json:"len"`
	Item    bool    `json:"item"`
	Offsets []int64 `json:"offsets"`
	Sizes   []int64 `json:"sizes"`
}

func (c checkpointOpened) drop() { c.s.checkpoints.take(c.Checkpoint) }

// checkpoint looks at a checkpoint and pins the version of each file.
func (s *openStore) checkpoint(ctx context.Context, a struct {
	Name    string `json:"name"`
	Tensors bool   `json:"tensors"` // they are described
	// Names, unless null, are those of the tensors that are described, as far as there are any of that name.
	Names *[]string `json:"names"`
}) (any, error) {
	st := s.place.Store
	if s.cache != nil {
		st = sharing{Store: st, cache: s.cache, address: st.Address("/")}
	}
	c, err := checkpoint.Open(ctx, st, a.Name, checkpoint.Options{})
	if err != nil {
		return nil, err
	}
	out := checkpointOpened{Layout: c.Layout, Identity: c.Identity(), Files: c.Files, Problems: c.Problems, s: s}
	if err := c.Complete(); err != nil {
		out.Incomplete = err.Error()
	}
	if a.Tensors {
		out.Tensors = describe(named(c.Tensors, a.Names))
	}
	out.Checkpoint = s.checkpoints.add(c)
	return out, nil
}

// dims are numbers that JSON shows as a list, also where there are none.
func dims(numbers []int64) []int64 { return append([]int64{}, numbers...) }

// named are the tensors of some names, all if it is nil.
func named(tensors []checkpoint.Tensor, names *[]string) []checkpoint.Tensor {
	if names == nil {
		return tensors
	}
	wanted := make(map[string]bool, len(*names))
	for _, name := range *names {
		wanted[name] = true
	}
	var out []checkpoint.Tensor
	for _, t := range tensors {
		if wanted[t.Name] {
			out = append(out, t)
		}
	}
	return out
}

func describe(tensors []checkpoint.Tensor) []tensorDescription {
	out := make([]tensorDescription, len(tensors))
	for i, t := range tensors {
		out[i] = tensorDescription{Name: t.Name, Dtype: t.Dtype, Shape: dims(t.Shape), Chunks: make([]chunkDescription, len(t.Chunks))}
		for k, c := range t.Chunks {
			out[i].Chunks[k] = chunkDescription{File: c.File, Off: c.Off, Len: c.Len, Item: c.Item, Offsets: dims(c.Offsets), Sizes: dims(c.Sizes)}
		}
	}
	return out
}

// latest is the URL of the newest complete checkpoint below a folder.
func (s *openStore) latest(ctx context.Context, a nameArguments) (any, error) {
	c, _, err := checkpoint.Latest(ctx, s.place.Store, a.Name, checkpoint.Options{})
	if err != nil {
		return nil, err
	}
	return c.URL(), nil
}

func (s *openStore) release(_ context.Context, a struct {
	Checkpoint int64 `json:"checkpoint"`
}) (any, error) {
	s.checkpoints.take(a.Checkpoint)
	return nil, nil
}

// boxArgument is a checkpoint.Box.
type boxArgument struct {
	Name    string  `json:"name"`
	Dtype   string  `json:"dtype"`
	File    int     `json:"file"`
	Off     int64   `json:"off"`
	Len     int64   `json:"len"`
	Item    bool    `json:"item"`
	Sizes   []int64 `json:"sizes"`
	At      []int64 `json:"at"`
	Shape   []int64 `json:"shape"`
	Address int64   `json:"address"`
	Bytes   int64   `json:"bytes"`
}

// unshared gives files that are not shared, unless they shall be.
func unshared(share bool) func(int, store.File) store.File {
	return func(_ int, f store.File) store.File {
		if s, ok := f.(shared); ok && !share {
			return s.alone
		}
		return f
	}
}

// readBoxes fills memory with parts of tensors. Its result are the places of those that only torch can read.
func (s *openStore) readBoxes(ctx context.Context, a struct {
	Checkpoint int64         `json:"checkpoint"`
	Shared     bool          `json:"shared"`
	Boxes      []boxArgument `json:"boxes"`
}) (any, error) {
	c, err := s.checkpoints.get(a.Checkpoint)
	if err != nil {
		return nil, err
	}
	boxes := make([]checkpoint.Box, len(a.Boxes))
	for i, b := range a.Boxes {
		dst, err := memoryAt(b.Address, b.Bytes)
		if err != nil {
			return nil, &optionError{fmt.Errorf("box %d: %w", i, err)}
		}
		boxes[i] = checkpoint.Box{
			Name: b.Name, Dtype: b.Dtype, At: b.At, Shape: b.Shape, Dst: dst,
			Chunk: checkpoint.Chunk{File: b.File, Off: b.Off, Len: b.Len, Item: b.Item, Sizes: b.Sizes},
		}
	}
	torch, err := c.ReadBoxes(ctx, boxes, unshared(a.Shared))
	if torch == nil {
		torch = []int{}
	}
	return torch, err
}

// readFiles fills memory with ranges of a checkpoint's files; the file of a want is an index of the checkpoint's.
func (s *openStore) readFiles(ctx context.Context, a struct {
	Checkpoint int64          `json:"checkpoint"`
	Shared     bool           `json:"shared"`
	Wants      []wantArgument `json:"wants"`
}) (any, error) {
	c, err := s.checkpoints.get(a.Checkpoint)
	if err != nil {
		return nil, err
	}
	wants, err := wantsOf(a.Wants)
	if err != nil {
		return nil, err
	}
	return nil, c.ReadFiles(ctx, wants, unshared(a.Shared))
}
