package dcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strings"

	"github.com/stepahead-io/stepahead/checkpoint/dcp/pickle"
)

// Decode reads a .metadata, or that of one rank of a save without collectives. Nothing that the pickle asks for is run: a global
// that is not among those that torch and Megatron write matches ErrForbidden and is named. Every item is checked to lie in a
// file inside the checkpoint's folder, and every chunk in its tensor and in storage. Items that were transformed as they were
// written (compressed, say) match ErrUnsupported. Everything else that is wrong matches ErrFormat. The memory taken is at most
// about 32 bytes for each byte of data, plus the result.
func Decode(data []byte) (*Metadata, error) {
	root, err := pickle.Load(data, pickle.Options{Class: metadataClass})
	if errors.Is(err, ErrForbidden) {
		return nil, fmt.Errorf("dcp: %w", err)
	}
	if err != nil {
		return nil, formatf("%w", err)
	}
	d := &decoder{m: &Metadata{}}
	if err := d.metadata(root); err != nil {
		return nil, err
	}
	return d.m, nil
}

type decoder struct {
	m *Metadata
	// stored are the places of items by what their index names, until a tensor or blob takes them.
	stored map[string]*info
	key    []byte
}

func (d *decoder) metadata(root any) error {
	r, ok := root.(*record)
	if !ok || r.class != "Metadata" && r.class != "MCoreMetadata" {
		return formatf("the pickle holds no Metadata")
	}
	_, d.m.Megatron = r.attrs["mcore_data"]
	d.m.Megatron = d.m.Megatron || r.class == "MCoreMetadata"
	if d.m.Version, ok = optional[string](r.attrs["version"]); !ok {
		return formatf("version is no text")
	}
	if err := d.storageMeta(r.attrs["storage_meta"]); err != nil {
		return err
	}
	if err := d.storage(r.attrs["storage_data"]); err != nil {
		return err
	}
	if err := d.states(r.attrs["state_dict_metadata"]); err != nil {
		return err
	}
	return d.unclaimed()
}

// optional is a value that may be None or left out.
func optional[T any](v any) (T, bool) {
	t, ok := v.(T)
	return t, ok || v == nil
}

func (d *decoder) storageMeta(v any) error {
	if v == nil {
		return nil
	}
	r, ok := v.(*record)
	if !ok || r.class != "StorageMeta" {
		return formatf("storage_meta is no StorageMeta")
	}
	if d.m.SaveID, ok = optional[string](r.attrs["save_id"]); !ok {
		return formatf("save_id is no text")
	}
	switch id := r.attrs["checkpoint_id"].(type) {
	case string:
		d.m.CheckpointID = id
	case location:
		d.m.CheckpointID = string(id)
	case *record:
		if id.class == clientPath {
			d.m.CheckpointID, _ = id.attrs["_path"].(string)
		}
	}
	return nil
}

// storage reads where items lie.
func (d *decoder) storage(v any) error {
	dict, ok := v.(*pickle.Dict)
	if !ok {
		return formatf("storage_data is missing, or no dict")
	}
	d.stored = make(map[string]*info, len(dict.Pairs))
	for _, p := range dict.Pairs {
		x, ok := p.Key.(*index)
		if !ok {
			return formatf("a key of storage_data is no MetadataIndex")
		}
		i, ok := p.Value.(*info)
		if !ok {
			return formatf("%s: its value in storage_data is no _StorageInfo", named(x.name, x.offset))
		}
		if err := i.check(named(x.name, x.offset)); err != nil {
			return err
		}
		key := d.keyOf(x.name, x.offset)
		if _, double := d.stored[string(key)]; double {
			return formatf("%s: it is in storage_data twice", named(x.name, x.offset))
		}
		d.stored[string(key)] = i
	}
	return nil
}

// named is a chunk's name for a message. A blob has no offset.
func named(name string, offset size) string {
	if offset == nil {
		return fmt.Sprintf("%q", clip(name))
	}
	return fmt.Sprintf("%q at %s", clip(name), clip(fmt.Sprint([]int64(offset))))
}

// keyOf is the text under which an index is stored. It is valid until the next call.
func (d *decoder) keyOf(name string, offset size) []byte {
	d.key = binary.AppendUvarint(d.key[:0], uint64(len(name)))
	d.key = append(d.key, name...)
	if offset == nil {
		return d.key
	}
	d.key = append(d.key, '@') // a tensor without dimensions has an offset, a blob none
	for _, o := range offset {
		d.key = binary.AppendUvarint(d.key, uint64(o))
	}
	return d.key
}

func (i *info) check(name string) error {
	if len(i.transforms) > 0 {
		return fmt.Errorf("dcp: %s in %s was written through %s: %w", name, clip(i.path), clip(strings.Join(i.transforms, ", ")), ErrUnsupported)
	}
	if !inside(i.path) {
		return formatf("%s lies in %q, which is no path inside the checkpoint", name, clip(i.path))
	}
	if i.inSafetensors {
		i.off, i.len = 0, -1
		return nil
	}
	if i.off < 0 || i.len < 0 || i.off > math.MaxInt64-i.len {
		return formatf("%s lies at %d+%d of %s", name, i.off, i.len, i.path)
	}
	return nil
}

// inside tells whether a path, whatever opens it, stays in the folder it is relative to.
func inside(name string) bool {
	return fs.ValidPath(name) && name != "." && path.Base(name) != "" && !strings.ContainsAny(name, "\\\x00\n\r")
}

// states reads which tensors and blobs there are.
func (d *decoder) states(v any) error {
	dict, ok := v.(*pickle.Dict)
	if !ok {
		return formatf("state_dict_metadata is missing, or no dict")
	}
	seen := make(map[string]bool, len(dict.Pairs))
	for _, p := range dict.Pairs {
		name, ok := p.Key.(string)
		if !ok {
			return formatf("a key of state_dict_metadata is no text")
		}
		if seen[name] {
			return formatf("%s: it is in state_dict_metadata twice", named(name, nil))
		}
		seen[name] = true
		r, ok := p.Value.(*record)
		switch {
		case ok && r.class == "TensorStorageMetadata":
			if err := d.tensor(name, r); err != nil {
				return err
			}
		case ok && r.class == "BytesStorageMetadata":
			place, err := d.claim(name, nil)
			if err != nil {
				return err
			}
			d.m.Blobs = append(d.m.Blobs, Blob{Name: name, Place: place})
		default:
			return formatf("%s: its metadata is neither that of a tensor nor of bytes", named(name, nil))
		}
	}
	return nil
}

func (d *decoder) tensor(name string, r *record) error {
	p, ok := r.attrs["properties"].(*properties)
	if !ok || p.dtype == "" {
		return formatf("%s: its properties are no TensorProperties", named(name, nil))
	}
	shape, ok := asSize(r.attrs["size"])
	if !ok {
		return formatf("%s: its size is no torch.Size", named(name, nil))
	}
	chunks, ok := r.attrs["chunks"].(*pickle.List)
	if !ok {
		return formatf("%s: its chunks are no list", named(name, nil))
	}
	t := Tensor{
		Name: name, Dtype: p.dtype, Shape: shape, Layout: string(p.layout), Strides: p.strides,
		RequiresGrad: p.requiresGrad, MemoryFormat: memoryFormats[p.memory], Chunks: make([]Chunk, 0, len(chunks.Items)),
	}
	for _, item := range chunks.Items {
		c, ok := item.(*chunk)
		if !ok {
			return formatf("%s: one of its chunks is no ChunkStorageMetadata", named(name, nil))
		}
		if err := c.check(shape); err != nil {
			return formatf("%s: %w", named(name, c.offsets), err)
		}
		place, err := d.claim(name, c.offsets)
		if err != nil {
			return err
		}
		t.Chunks = append(t.Chunks, Chunk{Offsets: c.offsets, Sizes: c.sizes, Place: place})
	}
	d.m.Tensors = append(d.m.Tensors, t)
	return nil
}

// check compares a chunk with its tensor's shape.
func (c *chunk) check(shape size) error {
	if len(c.offsets) != len(shape) || len(c.sizes) != len(shape) {
		return fmt.Errorf("a chunk of %d offsets and %d sizes in a tensor of %d dimensions", len(c.offsets), len(c.sizes), len(shape))
	}
	for i, n := range shape {
		if c.offsets[i] > n || c.sizes[i] > n-c.offsets[i] {
			return fmt.Errorf("a chunk of %s does not fit into a tensor of %s", clip(fmt.Sprint([]int64(c.sizes))), clip(fmt.Sprint([]int64(shape))))
		}
	}
	return nil
}

// claim takes the place of an item.
func (d *decoder) claim(name string, offset size) (Place, error) {
	key := d.keyOf(name, offset)
	i, ok := d.stored[string(key)]
	if !ok {
		return Place{}, formatf("%s: storage_data does not say where it lies", named(name, offset))
	}
	delete(d.stored, string(key))
	return Place{File: i.path, Off: i.off, Len: i.len}, nil
}

// unclaimed finds items that no tensor and no blob has.
func (d *decoder) unclaimed() error {
	least := ""
	for key := range d.stored {
		if least == "" || key < least {
			least = key
		}
	}
	if least == "" {
		return nil
	}
	n, w := binary.Uvarint([]byte(least))
	return formatf("%d items of storage_data belong to no tensor and no bytes, one of them to %q", len(d.stored), clip(least[w:w+int(n)]))
}
