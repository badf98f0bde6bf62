package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/store"
)

// packDir is the folder inside a dataset's while it is packed.
const packDir = ".stepahead-pack"

// maxShards and maxNumber are what the numbers in keys count to.
const (
	maxShards = 1e6
	maxNumber = 1e9
)

// PackOptions configure Pack. The zero value is usable.
type PackOptions struct {
	Options
	draft.Sizes
}

// Pack makes a dataset in the folder dir of dst of the samples of containers, which are copied into bins: of containers that Index
// cannot take too, and of compressed files. It reads the source twice, once to learn everything about it and once to copy it. What
// holds of Index holds of it. Samples are in the order of the peer's reader. Their keys say where they came from: the shard's place
// and name, the sample's number in it and, where it has one, its name.
func Pack(ctx context.Context, containers []Container, src Source, dst store.Store, dir string, o PackOptions) (*binfmt.Manifest, error) {
	src.Unpack = true
	x := &indexer{Options: o.Options.withDefaults(), src: src, dir: dir, draft: draft.Draft{Store: dst, Dir: dir, Work: packDir}, whole: true}
	sizes, err := o.Sizes.Of(dst)
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	p := &packer{indexer: x, sizes: sizes}
	m, err := p.run(ctx, containers)
	if err != nil {
		return nil, x.draft.Advise("pack", fmt.Errorf("pack: %w", err))
	}
	return m, nil
}

type packer struct {
	*indexer
	sizes draft.Sizes
	from  []origin // of the rows, in their order
}

// origin is where a row of the dataset comes from.
type origin struct {
	shard  int
	number int64 // of the sample in it
}

func (p *packer) run(ctx context.Context, containers []Container) (*binfmt.Manifest, error) {
	if err := p.plan(ctx, containers); err != nil {
		return nil, err
	}
	if len(p.shards) > maxShards {
		return nil, fmt.Errorf("%d shards, more than %d: pack them in parts: %w", len(p.shards), int(maxShards), ErrContainer)
	}
	p.Report.Container, p.Report.Shards = p.container.Name(), len(p.shards)
	for _, s := range p.shards {
		p.Report.Bytes += s.size
	}
	if err := p.scan(ctx); err != nil {
		return nil, err
	}
	fields, classes, err := p.schema()
	if err != nil {
		return nil, err
	}
	rows, err := p.rowsOfAll(ctx)
	if err != nil {
		return nil, err
	}
	bins := draft.Layout(rows, p.sizes)
	if err := p.seal(ctx, bins, fields); err != nil {
		return nil, err
	}
	m := draft.Manifest(fields, classes, bins)
	if err := m.Validate(); err != nil {
		return nil, err
	}
	p.Report.Already, err = p.draft.Finish(ctx, m, p.Force, func() error { return p.write(ctx, bins, fields) })
	return m, err
}

// rowsOfAll makes the rows of the dataset out of what the scan found.
func (p *packer) rowsOfAll(ctx context.Context) ([]binfmt.Row, error) {
	var rows []binfmt.Row
	for i := range p.shards {
		number, s := int64(-1), &p.shards[i]
		_, err := journal{p.draft}.read(ctx, s.journal, func(r Row) error {
			number++
			row, ok, err := p.project(r)
			if err != nil || !ok {
				return err
			}
			if row.Key, err = p.key(i, number, r.Key); err != nil {
				return err
			}
			rows, p.from = append(rows, row), append(p.from, origin{i, number})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.address(s.Name), err)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no sample has all fields: %w", ErrContainer)
	}
	return rows, nil
}

// key names a sample of the packed dataset. Keys ascend in the order of the samples.
func (p *packer) key(shard int, number int64, name string) (string, error) {
	if number >= maxNumber {
		return "", fmt.Errorf("more than %d samples in one shard: %w", int(maxNumber), ErrContainer)
	}
	key := fmt.Sprintf("%06d-%s/%09d", shard, KeyText(path.Base(p.shards[shard].Name)), number)
	if _, named := p.container.(Named); named {
		key += "/" + name
	}
	if err := binfmt.CheckKey(key); err != nil {
		return "", fmt.Errorf("%w: %w", err, ErrContainer)
	}
	return key, nil
}

func (p *packer) seal(ctx context.Context, bins []*draft.Bin, fields []binfmt.Field) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(p.Workers)
	for i, b := range bins {
		g.Go(func() error { return errors.Join(ctx.Err(), b.Seal(i, fields)) })
	}
	return g.Wait()
}

// write is the second pass.
func (p *packer) write(ctx context.Context, bins []*draft.Bin, fields []binfmt.Field) error {
	total := int64(0)
	for _, b := range bins {
		total += b.Bytes
	}
	p.start(Progress{Phase: "write", Total: total})
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(p.Workers)
	for _, b := range bins {
		g.Go(func() error {
			made, err := p.draft.WriteBin(ctx, b, fields, func(out *draft.BinWriter) error { return p.fill(ctx, b, out) })
			if err == nil && !made {
				p.step(b.Bytes)
			}
			return err
		})
	}
	return g.Wait()
}

// fill writes the parts of a bin, shard by shard.
func (p *packer) fill(ctx context.Context, b *draft.Bin, out *draft.BinWriter) error {
	p.step(binfmt.HeaderSize)
	for from := 0; from < len(b.Rows); {
		shard, to := p.from[b.First+from].shard, from+1
		for to < len(b.Rows) && p.from[b.First+to].shard == shard {
			to++
		}
		c := &copying{packer: p, rows: b.Rows[from:to], from: p.from[b.First+from : b.First+to], out: out}
		if err := c.run(ctx, p.shards[shard]); err != nil {
			return fmt.Errorf("%s: %w", p.address(p.shards[shard].Name), err)
		}
		from = to
	}
	return nil
}

// copying copies some samples of one shard.
type copying struct {
	*packer
	rows   []binfmt.Row
	from   []origin
	out    *draft.BinWriter
	number int64 // of the sample that comes next in the shard
	next   int   // of rows
}

// run reads the shard. Other bins may be written of other samples of it at the same time.
func (c *copying) run(ctx context.Context, s shard) error {
	sum := summary{Unpacked: s.sum.Unpacked}
	to := reading{sum: &sum, step: func(int64) {}, warn: func(string, ...any) {}, each: c.row}
	if err := c.samples(ctx, &s, to); err != nil {
		return err
	}
	if c.next < len(c.rows) {
		return fmt.Errorf("%d samples, more before: %w", c.number, errChanged)
	}
	return nil
}

// errChanged: the second reading found other samples than the first.
var errChanged = fmt.Errorf("the file changed while it was packed: run the command again: %w", ErrContainer)

func (c *copying) row(f File, r Row) error {
	number := c.number
	c.number++
	if number != c.from[c.next].number {
		return nil
	}
	places, err := pick(r, c.fields, new([]binfmt.Value))
	if err != nil {
		return err
	}
	for i, want := range c.rows[c.next].Parts {
		if err := c.part(f, r, r.Parts[places[i]], want); err != nil {
			return err
		}
	}
	if c.next++; c.next == len(c.rows) {
		return errEnough
	}
	return nil
}

// part copies one part, and compares it with what the first reading saw.
func (c *copying) part(f File, r Row, p Part, want binfmt.Part) error {
	filled, err := c.out.At(want.Off)
	if err != nil {
		return err
	}
	sum := &summing{out: c.out}
	if _, err := io.Copy(sum, partReader(f, p)); err != nil {
		return err
	}
	if sum.n != want.Len || sum.crc != want.CRC {
		return fmt.Errorf("sample %q, field %s: %d bytes with CRC32C %08x, before %d with %08x: %w", r.Key, p.Field, sum.n, sum.crc, want.Len, want.CRC, errChanged)
	}
	c.step(filled + want.Len)
	return nil
}

// summing sums what is written through it.
type summing struct {
	out io.Writer
	n   int64
	crc uint32
}

func (s *summing) Write(p []byte) (int, error) {
	n, err := s.out.Write(p)
	s.n += int64(n)
	s.crc = binfmt.CRC32C(s.crc, p[:n])
	return n, err
}
