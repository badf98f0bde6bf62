package mds

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/media"
)

// Rows implements foreign.Container. The key of a sample is the shard's name and the sample's number in it.
func (c *Container) Rows(ctx context.Context, _ foreign.Source, s foreign.Shard, f foreign.File, to foreign.Sink) error {
	r := shard{entry: s.Known.(entry), f: f, w: foreign.NewWindow(f)}
	for i := range r.entry.Columns {
		r.fields = append(r.fields, foreign.FieldName(r.entry.Columns[i]))
	}
	begins, err := r.head()
	if err != nil {
		return fmt.Errorf("%w: %w", err, foreign.ErrContainer)
	}
	for i := range r.entry.Samples {
		if err := ctx.Err(); err != nil {
			return err
		}
		row, err := r.sample(int64(begins[i]), int64(begins[i+1]))
		if err != nil {
			return fmt.Errorf("sample %d, offset %d: %w", i, begins[i], err)
		}
		row.Key = r.entry.Raw.Name + "/" + strconv.FormatInt(i, 10)
		if err := to.Row(row); err != nil {
			return err
		}
	}
	return nil
}

// shard reads one shard.
type shard struct {
	entry  entry
	fields []string
	f      foreign.File
	w      *foreign.Window
	row    foreign.Row
	sizes  []int64
}

// head reads the offsets of the samples, one more than there are samples, and holds them and the writer's configuration
// between them and the first sample against the rules and the index.
func (r *shard) head() ([]uint32, error) {
	size, n := r.f.Size(), r.entry.Samples
	if want := 4 * (n + 2); size < want {
		return nil, fmt.Errorf("%d bytes, the offsets of %d samples alone have %d: the shard is cut", size, n, want)
	}
	b := make([]byte, 4*(n+2))
	if _, err := r.f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	if got := binary.LittleEndian.Uint32(b); int64(got) != n {
		return nil, fmt.Errorf("the shard counts %d samples at offset 0, %s counts %d: they do not belong together", got, indexName, n)
	}
	begins := make([]uint32, n+1)
	for i := range begins {
		begins[i] = binary.LittleEndian.Uint32(b[4+4*i:])
		if i > 0 && begins[i] < begins[i-1] {
			return nil, fmt.Errorf("sample %d begins at %d, the one before it at %d: offsets never decrease; a shard of more than 4 GiB, whose offsets wrap, has to be written again with a size_limit", i, begins[i], begins[i-1])
		}
	}
	if end := int64(begins[n]); end != size {
		return nil, fmt.Errorf("the last sample ends at %d, the shard has %d bytes: it is cut, or of more than 4 GiB, whose offsets wrap (write it again with a size_limit)", end, size)
	}
	if first := int64(begins[0]); first < int64(len(b)) {
		return nil, fmt.Errorf("the first sample begins at %d, inside the %d bytes of the offsets", first, len(b))
	}
	return begins, r.config(int64(len(b)), int64(begins[0]))
}

// maxConfig bounds the writer's configuration in a shard, in bytes.
const maxConfig = 16 << 20

// config holds the writer's configuration in the shard against the index.
func (r *shard) config(from, to int64) error {
	if to-from > maxConfig {
		return fmt.Errorf("the configuration from offset %d to %d is longer than %d bytes", from, to, maxConfig)
	}
	b := make([]byte, to-from)
	if len(b) > 0 {
		if _, err := r.f.ReadAt(b, from); err != nil {
			return err
		}
	}
	var in entry
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("the configuration at offset %d, before the first sample: %w", from, err)
	}
	if want := r.entry; !slices.Equal(in.Columns, want.Columns) || !slices.Equal(in.Encodings, want.Encodings) || !slices.EqualFunc(in.Sizes, want.Sizes, sameSize) {
		return fmt.Errorf("the shard was written with the columns %s, %s says %s: they do not belong together", in.columns(), indexName, want.columns())
	}
	return nil
}

func sameSize(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// sample finds the columns of the sample from begin to end. The row is good until the next call.
func (r *shard) sample(begin, end int64) (foreign.Row, error) {
	if end == begin {
		return foreign.Row{}, fmt.Errorf("the sample has no bytes: Mosaic's reader refuses it too: write the shard again without it: %w", foreign.ErrContainer)
	}
	at, err := r.columns(begin, end)
	if err != nil {
		return foreign.Row{}, err
	}
	r.row.Clear()
	for i, size := range r.sizes {
		if err := r.column(i, at, size); err != nil {
			return foreign.Row{}, err
		}
		at += size
	}
	return r.row, nil
}

// columns sets the sizes of a sample's columns and returns where the first one begins, behind the sizes of those that are
// not fixed.
func (r *shard) columns(begin, end int64) (int64, error) {
	words := int64(0)
	for i := range r.entry.Columns {
		if r.entry.fixed(i) == 0 {
			words++
		}
	}
	if 4*words > end-begin {
		return 0, fmt.Errorf("the sample has %d bytes, the sizes of its columns alone %d: %w", end-begin, 4*words, foreign.ErrContainer)
	}
	b, _, err := r.w.At(begin, 4*words)
	if err != nil {
		return 0, err
	}
	r.sizes = r.sizes[:0]
	left := end - begin - 4*words
	for i, name := range r.entry.Columns {
		size := r.entry.fixed(i)
		if size == 0 {
			size, b = int64(binary.LittleEndian.Uint32(b)), b[4:]
		}
		if size > left {
			return 0, fmt.Errorf("column %q has %d bytes, %d are left of the sample: %w", name, size, left, foreign.ErrContainer)
		}
		left -= size
		r.sizes = append(r.sizes, size)
	}
	if left != 0 {
		return 0, fmt.Errorf("%d bytes behind the last column: the sizes do not fit the sample: %w", left, foreign.ErrContainer)
	}
	return begin + 4*words, nil
}

// column adds a part to the row, and its value where it is a scalar.
func (r *shard) column(i int, at, size int64) error {
	p := foreign.Part{Field: r.fields[i]}
	p.Off, p.Len, p.Type = at, size, media.Unknown
	e := encodingOf(r.entry.Encodings[i])
	switch {
	case e.scalar(size):
		b, _, err := r.w.At(at, size)
		if err != nil {
			return err
		}
		if v, ok := e.value(b); ok {
			r.row.Set(p.Field, v)
		}
	case e.file:
		if err := r.w.Sniff(&p); err != nil {
			return err
		}
	}
	if p.Type == media.Unknown && e.typ != "" {
		p.Type = e.typ
	}
	r.row.Parts = append(r.row.Parts, p)
	return nil
}
