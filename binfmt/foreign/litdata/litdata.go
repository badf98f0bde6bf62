// Package litdata reads LitData's datasets: chunks of serialised items, and an index.json that lists the chunks and says how the leaves
// of an item are serialised. They can be packed, not indexed: chunks may be compressed, and what a leaf means only its serialiser knows.
package litdata

import (
	"context"
	"encoding/binary"
	"fmt"
	"path"
	"strconv"

	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/store"
)

// Options configure a Container. The zero value is usable.
type Options struct {
	// Wanted says which fields will be used: others may be of serialisers that are not known. Default: all.
	Wanted func(field string) bool
}

// Container is the chunks of a LitData dataset.
type Container struct{ wanted func(string) bool }

// New returns the container.
func New(o Options) *Container {
	if o.Wanted == nil {
		o.Wanted = func(string) bool { return true }
	}
	return &Container{o.Wanted}
}

// Name implements foreign.Container.
func (*Container) Name() string { return "litdata" }

// Reading implements foreign.Container.
func (*Container) Reading() string { return "litdata 1" }

// known is what Rows needs of a chunk.
type known struct {
	chunk  chunk
	leaves []leaf
	packed unit
}

// Shards implements foreign.Container. A dataset is named by its folder or by its index.json; several are joined in the order given.
func (c *Container) Shards(ctx context.Context, src foreign.Source) ([]foreign.Shard, error) {
	var shards []foreign.Shard
	for _, name := range src.Names {
		file, err := indexFile(ctx, src.Store, name)
		if err != nil {
			return nil, err
		}
		if file == "" {
			continue
		}
		data, err := store.ReadFile(ctx, src.Store, file, maxIndex)
		if err != nil {
			return nil, err
		}
		x, ours, err := parseIndex(data)
		if err == nil && ours {
			var some []foreign.Shard
			some, err = c.shardsOf(x, path.Dir(file))
			shards = append(shards, some...)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", src.Store.Address(file), err, foreign.ErrContainer)
		}
	}
	return shards, nil
}

// indexFile returns the index.json that a name of the source stands for, "" if it stands for none.
func indexFile(ctx context.Context, st store.Store, name string) (string, error) {
	info, err := st.Stat(ctx, name)
	switch {
	case err != nil:
		return "", err
	case !info.Dir && path.Base(name) == indexName:
		return name, nil
	case !info.Dir:
		return "", nil
	}
	file := path.Join(name, indexName)
	if found, err := foreign.Exists(ctx, st, file); err != nil || found == nil {
		return "", err
	}
	return file, nil
}

func (c *Container) shardsOf(x index, dir string) ([]foreign.Shard, error) {
	packed, err := x.Config.compressed()
	if err != nil {
		return nil, err
	}
	leaves, err := x.Config.check(c.wanted)
	if err != nil {
		return nil, err
	}
	how := ""
	if packed == chunks {
		how = foreign.Zstandard
	}
	var shards []foreign.Shard
	for i, e := range x.Chunks {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("chunks[%d]: %w", i, err)
		}
		shards = append(shards, foreign.Shard{
			Name: path.Join(dir, e.Name), Known: known{e, leaves, packed}, Compression: how,
			Depends: fmt.Sprintf("%d %s %v", e.Items, packed, leaves),
		})
	}
	if len(shards) == 0 {
		return nil, fmt.Errorf("the dataset has no chunks")
	}
	return shards, nil
}

// Rows implements foreign.Container. The key of a sample is the chunk's name and the item's number in it.
func (c *Container) Rows(ctx context.Context, _ foreign.Source, s foreign.Shard, f foreign.File, to foreign.Sink) error {
	k := s.Known.(known)
	r := &reader{known: k, f: f, w: foreign.NewWindow(f)}
	base, number := foreign.KeyText(path.Base(s.Name)), int64(0)
	each := func(begin, end int64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		row, err := r.item(begin, end)
		if err != nil {
			return fmt.Errorf("item %d: %w", number, err)
		}
		row.Key = base + "/" + strconv.FormatInt(number, 10)
		number++
		return to.Row(row)
	}
	switch k.packed {
	case batches:
		return r.framed(each)
	case samples:
		return r.items(func(begin, end int64) error {
			n, err := r.inflate(begin, end-begin, 0)
			if err != nil {
				return fmt.Errorf("item %d at offset %d: %w", number, begin, err)
			}
			return each(0, n)
		})
	}
	return r.items(each)
}

// reader reads one chunk: the number of items, the offsets of the items and of the end, each u32, then the items.
type reader struct {
	known
	f   foreign.File
	w   *foreign.Window
	row foreign.Row
	// inflated holds the bytes from base on, where offsets count what was compressed; nil where they count the file.
	inflated []byte
	base     int64
	packed   []byte // memory
}

// items gives the places of the items, one after the other.
func (r *reader) items(each func(begin, end int64) error) error {
	begins, err := r.head()
	if err != nil {
		return err
	}
	for i := range r.chunk.Items {
		if err := each(int64(begins[i]), int64(begins[i+1])); err != nil {
			return err
		}
	}
	return nil
}

// at returns bytes of an item, good until the next call.
func (r *reader) at(off, n int64) ([]byte, error) {
	if r.inflated != nil {
		return r.inflated[off-r.base : off-r.base+n], nil
	}
	b, _, err := r.w.At(off, n)
	return b, err
}

// head reads the offsets, one more than there are items.
func (r *reader) head() ([]uint32, error) {
	size, n := r.f.Size(), r.chunk.Items
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", fmt.Errorf(format, args...), foreign.ErrContainer)
	}
	if want := 4 * (n + 2); size < want {
		return nil, bad("%d bytes, the offsets of %d items alone have %d: the chunk is cut", size, n, want)
	}
	b := make([]byte, 4*(n+2))
	if _, err := r.f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	if got := binary.LittleEndian.Uint32(b); int64(got) != n {
		return nil, bad("the chunk counts %d items at offset 0, %s counts %d: they do not belong together, or the chunk is encrypted", got, indexName, n)
	}
	begins, err := ascending(b[4:])
	if err != nil {
		return nil, err
	}
	if int64(begins[0]) != int64(len(b)) || int64(begins[n]) != size {
		return nil, bad("the items are from offset %d to %d, want %d to %d, the end of the chunk: it is cut, or damaged", begins[0], begins[n], len(b), size)
	}
	return begins, nil
}

// ascending reads offsets, which never decrease.
func ascending(b []byte) ([]uint32, error) {
	offsets := make([]uint32, len(b)/4)
	for i := range offsets {
		offsets[i] = binary.LittleEndian.Uint32(b[4*i:])
		if i > 0 && offsets[i] < offsets[i-1] {
			return nil, fmt.Errorf("item %d begins at %d, the one before it at %d: offsets never decrease; those of a chunk of more than 4 GiB wrap: %w", i, offsets[i], offsets[i-1], foreign.ErrContainer)
		}
	}
	return offsets, nil
}

// item finds the leaves of the item from begin to end. The row is good until the next call.
func (r *reader) item(begin, end int64) (foreign.Row, error) {
	words := 4 * int64(len(r.leaves))
	if words > end-begin {
		return r.row, fmt.Errorf("%d bytes, the sizes of its leaves alone have %d: %w", end-begin, words, foreign.ErrContainer)
	}
	b, err := r.at(begin, words)
	if err != nil {
		return r.row, err
	}
	at := begin + words
	sizes, left := make([]int64, len(r.leaves)), end-at
	for i := range sizes {
		sizes[i] = int64(binary.LittleEndian.Uint32(b[4*i:]))
		left -= sizes[i]
	}
	if left != 0 {
		return r.row, fmt.Errorf("its leaves have %d bytes, there are %d: %w", end-at-left, end-at, foreign.ErrContainer)
	}
	r.row.Clear()
	for i, l := range r.leaves {
		if err := r.leaf(l, at, sizes[i]); err != nil {
			return r.row, err
		}
		at += sizes[i]
	}
	return r.row, nil
}

// leaf adds a leaf to the row.
func (r *reader) leaf(l leaf, off, size int64) error {
	if l.unused {
		return nil
	}
	p := foreign.Part{Field: l.field}
	p.Off, p.Len, p.Type = off, size, l.typ
	if r.inflated != nil {
		b, err := r.at(off, size)
		if err != nil {
			return err
		}
		p.Off, p.Data = 0, b
	}
	r.row.Parts = append(r.row.Parts, p)
	if !l.isScalar(size) {
		return nil
	}
	b, err := r.at(off, size)
	if err != nil {
		return err
	}
	if v, ok := l.value(b); ok {
		r.row.Set(l.field, v)
	}
	return nil
}

var _ foreign.Container = (*Container)(nil)
