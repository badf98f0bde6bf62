package tokens

import (
	"context"
	"fmt"
	"math"
	"sort"

	"github.com/stepahead-io/stepahead/sampler"
)

// A packing is the plan of best fit: how the ends of sequences, those parts that do not fill a sample of
// their own, share samples.
//
// A sequence of n tokens gives n/L full pieces, each a sample, and an end of n%L tokens. Ends are packed
// by best fit decreasing (D. S. Johnson 1973): the longest first, each into the sample with the least
// room that still holds it. Which samples there are depends on the lengths alone, so every epoch has as
// many, and sequences whose ends are equally long may change places from epoch to epoch.
type packing struct {
	lengths sampler.Lengths
	length  int64 // L
	shuffle *sampler.Shuffle

	// ends are the sequences that have an end, the longest first; those of length n begin at class[n]
	// and end where the next shorter begin.
	ends  []uint32
	class []int64
	// slots are places in ends; pack p has slots[starts[p]:starts[p+1]].
	slots  []uint32
	starts []uint32
	// long are the sequences with full pieces, and full the number of full pieces up to and with each.
	long []uint32
	full []int64
}

// maxPacked bounds the sequences of a plan, which holds them as 32-bit numbers.
const maxPacked = math.MaxUint32

func (o *Order) bestFit(ctx context.Context, lengths sampler.Lengths) error {
	n := lengths.Sequences()
	if n < 0 || n > maxPacked {
		return fmt.Errorf("%d sequences: best-fit packing plans at most %d: use another packing or a smaller dataset: %w", n, int64(maxPacked), ErrLengths)
	}
	p := &packing{lengths: lengths, length: o.options.SequenceLength}
	if o.options.Shuffle {
		p.shuffle = sampler.NewShuffle(domain, o.options.Seed, o.options.Source)
	}
	if err := p.split(ctx); err != nil {
		return err
	}
	if err := p.fit(ctx); err != nil {
		return err
	}
	o.samples = p.fulls() + p.packs()
	o.pieces = func(_ context.Context, epoch uint64, sample int64, dst []sampler.Piece) ([]sampler.Piece, error) {
		return p.pieces(epoch, sample, dst), nil
	}
	if o.samples == 0 {
		return fmt.Errorf("the %d sequences have no token: %w", n, ErrTooShort)
	}
	return nil
}

func (p *packing) fulls() int64 {
	if len(p.full) == 0 {
		return 0
	}
	return p.full[len(p.full)-1]
}

func (p *packing) packs() int64 { return int64(len(p.starts)) - 1 }

// split lists full pieces and sorts the ends by length: counted first, then put where they belong.
func (p *packing) split(ctx context.Context) error {
	counts := make([]int64, p.length)
	var sum, full int64
	for i := range p.lengths.Sequences() {
		if i%every == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		n, err := checkedLength(p.lengths, i, sum)
		if err != nil {
			return err
		}
		sum += n
		counts[n%p.length]++
		if n >= p.length {
			full += n / p.length
			p.long, p.full = append(p.long, uint32(i)), append(p.full, full)
		}
	}
	p.class = make([]int64, p.length)
	for n := p.length - 1; n >= 1; n-- {
		p.class[n-1] = p.class[n] + counts[n]
	}
	p.ends = make([]uint32, p.class[0])
	next := counts // reused: where the next end of each length goes
	copy(next, p.class)
	for i := range p.lengths.Sequences() {
		if i%every == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if n := p.lengths.Length(i) % p.length; n > 0 {
			p.ends[next[n]] = uint32(i)
			next[n]++
		}
	}
	return nil
}

// fit gives every end its pack.
func (p *packing) fit(ctx context.Context) error {
	owner, packs, err := p.owners(ctx)
	if err != nil {
		return err
	}
	p.starts = make([]uint32, packs+1)
	for _, pack := range owner {
		p.starts[pack+1]++
	}
	for i := 1; i < len(p.starts); i++ {
		p.starts[i] += p.starts[i-1]
	}
	p.slots = make([]uint32, len(p.ends))
	for place := len(owner) - 1; place >= 0; place-- { // from behind: starts come out as starts
		if place%every == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		pack := owner[place]
		p.starts[pack+1]--
		p.slots[p.starts[pack+1]] = uint32(place)
	}
	copy(p.starts, p.starts[1:])
	p.starts[len(p.starts)-1] = uint32(len(p.slots))
	return nil
}

// owners returns the pack of each place in ends, and how many packs there are.
func (p *packing) owners(ctx context.Context) (owner []uint32, packs uint32, err error) {
	owner = make([]uint32, len(p.ends))
	rooms := newRooms(p.length)
	for n := p.length - 1; n >= 1; n-- {
		for place := p.class[n]; place < p.class[n-1]; place++ {
			if place%every == 0 && ctx.Err() != nil {
				return nil, 0, ctx.Err()
			}
			owner[place] = rooms.put(n)
		}
	}
	return owner, rooms.packs, nil
}

// pieces of sample s: the full pieces come first, in the order of sequences, then the packs.
func (p *packing) pieces(epoch uint64, s int64, dst []sampler.Piece) []sampler.Piece {
	if fulls := p.fulls(); s >= fulls {
		return p.pack(epoch, s-fulls, dst)
	}
	i := sort.Search(len(p.full), func(i int) bool { return p.full[i] > s })
	if i > 0 {
		s -= p.full[i-1]
	}
	return append(dst, sampler.Piece{Sequence: int64(p.long[i]), Off: s * p.length, Len: p.length})
}

func (p *packing) pack(epoch uint64, pack int64, dst []sampler.Piece) []sampler.Piece {
	for _, place := range p.slots[p.starts[pack]:p.starts[pack+1]] {
		i := int64(p.ends[place])
		n := p.lengths.Length(i) % p.length
		if i = p.exchanged(epoch, int64(place), n); i < 0 {
			panic("tokens: the lengths changed while in use")
		}
		whole := p.lengths.Length(i)
		dst = append(dst, sampler.Piece{Sequence: i, Off: whole - n, Len: n})
	}
	return dst
}

// exchanged returns the sequence that takes a place among ends of length n in an epoch; negative if
// the place is not among them.
func (p *packing) exchanged(epoch uint64, place, n int64) int64 {
	if n < 1 || place < p.class[n] || place >= p.class[n-1] {
		return -1
	}
	if p.shuffle == nil {
		return int64(p.ends[place])
	}
	first, count := p.class[n], p.class[n-1]-p.class[n]
	exchange := p.shuffle.Permutation(epoch, uint64(n), uint64(count))
	return int64(p.ends[first+int64(exchange.At(uint64(place-first)))])
}
