package sampler

// A Shuffle is the family of permutations that a domain, a seed and a source name choose: the
// permutations of this package's order, for orders that other packages define. It holds nothing but
// its key and may be used concurrently.
type Shuffle struct{ key sourceKey }

// NewShuffle returns the family of a domain, which tells what the permutations are for. Families of
// different domains, seeds or names have nothing to do with each other.
func NewShuffle(domain string, seed uint64, source string) *Shuffle {
	return &Shuffle{keyOf(domain, seed, source)}
}

// Permutation returns the permutation of 0 to n-1 for an epoch, n being at least 1. Use tells apart
// the permutations of one epoch.
func (s *Shuffle) Permutation(epoch, use, n uint64) (p Permutation) {
	if n < 1 {
		panic("sampler.Shuffle: a permutation of nothing")
	}
	s.key.permutation(&p.p, epoch, use, n)
	return p
}

// A Permutation is a bijection of 0 to n-1 in constant memory. It may be used concurrently.
type Permutation struct{ p permutation }

// At returns the image of i, which is below n.
func (p *Permutation) At(i uint64) uint64 {
	if i >= p.p.n {
		panic("sampler.Permutation: outside what it permutes")
	}
	return p.p.at(i)
}
