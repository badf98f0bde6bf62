package sampler

// A source is what a Source becomes: all that its order depends on.
type source struct {
	samples       uint64
	shuffle       string
	chunk, window uint64 // of a block shuffle
	key           sourceKey
}

func newSources(s *Spec) []source {
	out, shuffle := make([]source, len(s.Sources)), s.Shuffle
	if s.Tokens.inOrder() {
		shuffle = ShuffleNone
	}
	for i, src := range s.Sources {
		chunk := min(s.Chunk, src.Samples)
		out[i] = source{samples: src.Samples, shuffle: shuffle, chunk: chunk, window: s.Window, key: newSourceKey(s.Seed, src.Name)}
	}
	return out
}

// order replaces the Sample of every ref, a place in the epoch, by the sample of that place.
func (s *source) order(epoch uint64, refs []SampleRef) {
	switch s.shuffle {
	case ShuffleFull:
		var p permutation
		s.key.permutation(&p, epoch, 0, s.samples)
		p.apply(refs)
	case ShuffleBlock:
		b := s.blockOrder(epoch)
		b.apply(refs)
	}
}

// substitute returns the sample that replaces sample, that of place, at an attempt of at least 1.
func (s *source) substitute(epoch, place, sample, attempt uint64) uint64 {
	others := s.samples - 1
	if others == 0 {
		return sample
	}
	var p permutation
	s.key.permutation(&p, epoch, place+1, others)
	away := 1 + p.at((attempt-1)%others) // in 1..N-1: never back at sample
	return (sample + away) % s.samples
}
