// Package checkpoint knows what checkpoints look like in a store: which layout a folder has, which tensors lie where in it,
// whether it is whole, and which version of it that is.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
	"github.com/stepahead-io/stepahead/checkpoint/safetensors"
	"github.com/stepahead-io/stepahead/store"
)

// Layout is how a checkpoint is laid out.
type Layout string

// The layouts.
const (
	// Safetensors is one file, or a set of files with an index, without a trainer's state.
	Safetensors Layout = "safetensors"
	// HuggingFace is a folder of Hugging Face's Trainer: weights, and trainer_state.json, which is written last.
	HuggingFace Layout = "huggingface"
	// DCP is torch's distributed checkpoint.
	DCP Layout = "dcp"
	// DCPSafetensors is what torch's distributed checkpoint writes as safetensors, before it is consolidated: files without an
	// index, each with parts of tensors.
	DCPSafetensors Layout = "dcp-safetensors"
	// TorchDist is Megatron's torch_dist: a DCP with metadata.json and common state.
	TorchDist Layout = "torch_dist"
	// DeepSpeed is a tag's folder of DeepSpeed. Its tensors are torch's to load.
	DeepSpeed Layout = "deepspeed"
	// DeepSpeedUniversal is what DeepSpeed's conversion makes of a tag's folder: a folder for each parameter, which any number of ranks can load.
	DeepSpeedUniversal Layout = "deepspeed-universal"
	// TorchCheckpointing is what the torch_checkpointing package writes: for each item a file of each rank, and metadata.pkl. The folder is
	// renamed to its name when all ranks are done.
	TorchCheckpointing Layout = "torch-checkpointing"
	// Torch is one or more files of torch.save, such as FSDP's full state. Their tensors are torch's to load.
	Torch Layout = "torch"
)

var (
	// ErrNone: there is no checkpoint at the path, or none that is complete.
	ErrNone = errors.New("no checkpoint")
	// ErrIncomplete: the checkpoint is not whole, or it cannot be known that it is. Problems say why.
	ErrIncomplete = errors.New("the checkpoint is not complete")
	// ErrFormat: a file of the checkpoint is not what its layout asks for.
	ErrFormat = errors.New("not what the checkpoint's layout asks for")
	// ErrUnsupported: another program has to read it.
	ErrUnsupported = errors.New("not supported")
)

// Options say how to look at a checkpoint. The zero value is usable.
type Options struct {
	// WorldSize is the number of ranks that saved it, where it is known: layouts without a list of files are complete only then, or
	// after Settle.
	WorldSize int
	// Settle, where the number of ranks is not known, is how long files must stay as they are before they are taken for all there are.
	// 0 never takes them so.
	Settle time.Duration
}

// Checkpoint is a checkpoint as it was when it was opened. It keeps no file open. It is safe for concurrent use.
type Checkpoint struct {
	Path   string
	Layout Layout
	// SaveID is the layout's own name of this save, new at every save; "" where it has none.
	SaveID string
	// Step is the step that the folder's name says; -1 if it says none.
	Step int64
	// Files are all files of the checkpoint, sorted by name.
	Files []File
	// Tensors sorted by name; nil where they are not known: of layouts whose tensors are torch's to load, and without metadata.
	Tensors []Tensor
	// Blobs are the values that are not tensors, sorted by name.
	Blobs []Blob
	// Problems are the reasons why it is not complete; none means that it is.
	Problems []Problem
	// Doubts do not make it incomplete, and should be looked at.
	Doubts []Problem

	st     store.Store
	dir    string         // the folder that names of Files are relative to
	byName map[string]int // of Files
}

// File is one file of a checkpoint, as it was when the checkpoint was opened.
type File struct {
	// Name is relative to the checkpoint's path, with slashes; of a checkpoint that is one file it is the file's name.
	Name     string         `json:"name"`
	Size     int64          `json:"size"`
	Identity store.Identity `json:"identity"`

	changed time.Time
}

// Tensor is a whole tensor.
type Tensor struct {
	Name string
	// Dtype is the layout's name of the type: "BF16" in safetensors, "bfloat16" of torch.
	Dtype  string
	Shape  []int64
	Chunks []Chunk
}

// Chunk is a box of a tensor and where it lies.
type Chunk struct {
	// File is an index of Files; -1 if the file is missing.
	File int
	// Off and Len are the bytes in the file.
	Off, Len int64
	// Item is true where the bytes are a zip file of torch.save around the elements (see dcp.ParseHead), and false where they are the
	// elements in C order.
	Item bool
	// Offsets and Sizes place the box in the tensor.
	Offsets, Sizes []int64
}

// Blob is a value that is not a tensor.
type Blob struct {
	Name string
	// File is an index of Files; -1 if the file is missing.
	File     int
	Off, Len int64
}

// Problem is one thing that is wrong with a checkpoint. The words of its Kind, for programs, are listed in docs/checkpoints.md.
type Problem = safetensors.Problem

// Complete returns nil, or an error that matches ErrIncomplete and names the first reasons.
func (c *Checkpoint) Complete() error {
	if len(c.Problems) == 0 {
		return nil
	}
	const most = 3
	var reasons []string
	for _, p := range c.Problems[:min(len(c.Problems), most)] {
		reasons = append(reasons, p.String())
	}
	if n := len(c.Problems) - most; n > 0 {
		reasons = append(reasons, fmt.Sprintf("and %d more", n))
	}
	return fmt.Errorf("checkpoint %s: %w: %s", c.URL(), ErrIncomplete, strings.Join(reasons, "; "))
}

// Bytes is the size of all files.
func (c *Checkpoint) Bytes() int64 {
	n := int64(0)
	for _, f := range c.Files {
		n += f.Size
	}
	return n
}

// Open finds out what the checkpoint at a path is: a folder, or one file. It lists the folder, pins the identity of every file, and reads
// metadata and headers, never tensors. A checkpoint that is not whole is opened too: ask Complete. A folder that holds no
// checkpoint of a known layout is ErrNone; metadata that is not what it should be matches ErrFormat and the error of the
// package that reads it (safetensors.ErrFormat, dcp.ErrFormat, dcp.ErrForbidden, ...); a file that was replaced in between is store.ErrIdentity.
func Open(ctx context.Context, st store.Store, name string, o Options) (*Checkpoint, error) {
	c, err := look(ctx, st, name)
	if err != nil {
		return nil, err
	}
	if err := (&reader{c: c, o: o}).read(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Single tells whether the checkpoint is one file, at Path, and not a folder.
func (c *Checkpoint) Single() bool { return c.dir != c.Path }

// Folder is the name of the folder that the names of Files are relative to.
func (c *Checkpoint) Folder() string { return c.dir }

// file returns the index of a file; -1 if there is none.
func (c *Checkpoint) file(name string) int {
	if i, ok := c.byName[name]; ok {
		return i
	}
	return -1
}

// full is a file's name in the store.
func (c *Checkpoint) full(f File) string { return path.Join(c.dir, f.Name) }

// URL is what the checkpoint is called outside of its store: a path of the operating system, or a URL.
func (c *Checkpoint) URL() string { return c.st.Address(c.Path) }

// at is what a file is called in messages.
func (c *Checkpoint) at(f File) string { return c.st.Address(c.full(f)) }

// wrap gives an error of a file's content the file's name.
func wrap(name string, err error) error {
	for _, bad := range []error{safetensors.ErrFormat, safetensors.ErrIndex, dcp.ErrFormat, dcp.ErrForbidden} {
		if errors.Is(err, bad) {
			return fmt.Errorf("checkpoint: %s: %w: %w", name, ErrFormat, err)
		}
	}
	if errors.Is(err, dcp.ErrUnsupported) {
		return fmt.Errorf("checkpoint: %s: %w: %w", name, ErrUnsupported, err)
	}
	return err
}
