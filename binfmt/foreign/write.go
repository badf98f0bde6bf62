package foreign

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// write makes the index of every shard that has samples, and returns the manifest.
func (x *indexer) write(ctx context.Context) (*binfmt.Manifest, error) {
	fields, classes, err := x.schema()
	if err != nil {
		return nil, err
	}
	m := &binfmt.Manifest{Format: binfmt.FormatForeign, Fields: fields, Classes: classes}
	x.begin("write")
	bins := make([]*binfmt.Bin, len(x.shards))
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(x.Workers)
	for i := range x.shards {
		g.Go(func() (err error) {
			if bins[i], err = x.writeShard(group, i, m.Fields); err != nil {
				return fmt.Errorf("%s: %w", x.address(x.shards[i].Name), err)
			}
			x.step(x.shards[i].size)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, b := range bins {
		if b == nil {
			continue
		}
		m.Bins = append(m.Bins, *b)
		if b.IsFolder() {
			x.Report.Bytes += b.Bytes // a folder has no size before its files are known
		}
	}
	x.Report.Empty = len(bins) - len(m.Bins)
	return m, nil
}

// schema returns the dataset's fields and classes, when all shards are scanned.
func (x *indexer) schema() (fields []binfmt.Field, classes []string, err error) {
	for _, c := range x.fields {
		fields = append(fields, c.Field)
	}
	label := binfmt.Field{Name: binfmt.LabelField, Kind: binfmt.Int64}
	if !slices.Contains(fields, label) {
		if len(x.Classes) > 0 {
			return nil, nil, fmt.Errorf("there are names of classes, but no field %s with whole numbers: %w", binfmt.LabelField, ErrContainer)
		}
		return fields, nil, nil
	}
	if l, ok := x.container.(Labelled); ok && len(x.Classes) == 0 {
		return fields, l.Classes(x.containerShards()), nil
	}
	return fields, x.Classes, nil
}

func (x *indexer) containerShards() []Shard {
	all := make([]Shard, len(x.shards))
	for i, s := range x.shards {
		all[i] = s.Shard
	}
	return all
}

// writeShard writes the index of the shard at a place; nil if it has no sample.
func (x *indexer) writeShard(ctx context.Context, place int, fields []binfmt.Field) (*binfmt.Bin, error) {
	s := &x.shards[place]
	if s.stats.Rows == 0 {
		return nil, nil
	}
	if x.container.Name() == binfmt.Folder { // which has no identity of its own
		digest, err := x.digestJournal(ctx, s)
		if err != nil {
			return nil, err
		}
		s.scanned += digest
	}
	b, uuid, err := x.bin(s, place)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	err = x.draft.WriteFile(ctx, b.IndexName(), func(out io.Writer) error {
		w, err := binfmt.NewForeignIndexWriter(io.MultiWriter(out, sum), fields, uuid, b.Foreign.Container)
		if err != nil {
			return err
		}
		return errors.Join(x.writeRows(ctx, s, b, w), w.Close())
	})
	if err != nil || b.Samples == 0 {
		return nil, err
	}
	b.IndexSHA256 = hex.EncodeToString(sum.Sum(nil))
	return b, nil
}

// writeRows copies the samples from the journal into an index, and counts them.
func (x *indexer) writeRows(ctx context.Context, s *shard, b *binfmt.Bin, w *binfmt.IndexWriter) error {
	_, err := journal{x.draft}.read(ctx, s.journal, func(r Row) error {
		row, ok, err := x.project(r)
		if err != nil || !ok {
			return err
		}
		if b.IsFolder() {
			b.Bytes += sizeOf(row)
		}
		b.Samples++
		return w.Append(row)
	})
	return err
}

// project makes the row of the index out of a sample; false if it is left out.
func (x *indexer) project(r Row) (row binfmt.Row, ok bool, err error) {
	row, err = project(r, x.fields)
	var lacking *incomplete
	switch {
	case errors.As(err, &lacking) && x.SkipIncomplete:
		x.mu.Lock()
		defer x.mu.Unlock()
		x.Report.Incomplete++
		return row, false, nil
	case lacking != nil:
		return row, false, fmt.Errorf("%w: choose fields that every sample has (--field), or leave such samples out with --skip-incomplete: %w", lacking, ErrContainer)
	}
	return row, err == nil, err
}

func sizeOf(r binfmt.Row) int64 {
	n := int64(0)
	for _, p := range r.Parts {
		n += p.Len
	}
	return n
}

// bin is a shard's entry in the manifest, but for what its index is. The uuid says which version of which file
// was indexed, and how.
func (x *indexer) bin(s *shard, place int) (*binfmt.Bin, [16]byte, error) {
	b := &binfmt.Bin{Bytes: s.size, Foreign: &binfmt.Foreign{Container: x.container.Name(), Path: s.path, Identity: string(s.identity)}}
	if x.Policy != Strict {
		b.Foreign.Policy = string(x.Policy)
	}
	if b.IsFolder() {
		b.Foreign.Identity = ""
	}
	said, err := json.Marshal([]any{"stepahead foreign 1", x.container.Reading(), b.Foreign, s.size, x.fields, s.scanned})
	sum := sha256.Sum256(said)
	uuid := [16]byte(sum[:16])
	b.UUID = hex.EncodeToString(uuid[:])
	b.Name = fmt.Sprintf("%05d-%s", place, b.UUID[:12])
	return b, uuid, err
}

// adopt makes the manifest of containers whose own indexes are used.
func (x *indexer) adopt(ctx context.Context, own Indexed) (*binfmt.Manifest, error) {
	x.begin("scan")
	bins, fields := make([]binfmt.Bin, len(x.shards)), make([][]binfmt.Field, len(x.shards))
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(x.Workers)
	for i := range x.shards {
		g.Go(func() (err error) {
			s := &x.shards[i]
			if bins[i], fields[i], err = x.adoptShard(group, own, s, i); err != nil {
				return fmt.Errorf("%s: %w", x.address(s.Name), err)
			}
			x.step(s.size)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	m := &binfmt.Manifest{Format: binfmt.FormatForeign, Fields: fields[0]}
	for i, f := range fields {
		if !slices.Equal(f, m.Fields) {
			return nil, fmt.Errorf("%s has the fields %v, %s has %v: shards of one dataset have the same: %w", x.address(x.shards[0].Name), m.Fields, x.address(x.shards[i].Name), f, ErrContainer)
		}
		if bins[i].Samples == 0 {
			x.Report.Empty++
			continue
		}
		m.Bins = append(m.Bins, bins[i])
	}
	if len(m.Bins) == 0 {
		return nil, fmt.Errorf("there is no sample in %d shards: %w", len(x.shards), ErrContainer)
	}
	return m, nil
}

func (x *indexer) adoptShard(ctx context.Context, own Indexed, s *shard, place int) (b binfmt.Bin, fields []binfmt.Field, err error) {
	var read int64
	data, err := x.open(ctx, s, func(n int64) { read += n }, func(int64) {})
	if err != nil {
		return b, nil, err
	}
	defer data.f.Close()
	f, err := x.src.Store.Open(ctx, s.Index)
	if err != nil {
		return b, nil, err
	}
	defer f.Close()
	index := &storeFile{ctx: ctx, f: f, read: func(n int64) { read += n }, step: func(int64) {}}
	fields, samples, err := own.Describe(ctx, s.Shard, data, index)
	if err != nil {
		return b, nil, err
	}
	digest, err := digestOf(ctx, f)
	if err != nil {
		return b, nil, err
	}
	s.scanned = digest
	bin, _, err := x.bin(s, place)
	if err != nil {
		return b, nil, err
	}
	bin.Samples, bin.IndexSHA256 = samples, digest
	x.mu.Lock()
	x.Report.Read += read + f.Size()
	x.mu.Unlock()
	return *bin, fields, nil
}

func (x *indexer) digestJournal(ctx context.Context, s *shard) (string, error) {
	f, err := x.src.Store.Open(ctx, s.journal)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return digestOf(ctx, f)
}

// digestOf is the SHA-256 of a file.
func digestOf(ctx context.Context, f store.File) (string, error) {
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, onlyReader{&sequential{ctx: ctx, f: f}}, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// onlyReader hides what else the reader can do, so that the buffer is used.
type onlyReader struct{ io.Reader }
