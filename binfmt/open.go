package binfmt

// BinIndex finds the parts and scalars of the samples of one bin. Its readers may run concurrently with each
// other, not with Close. What it returns does not refer to the mapping.
type BinIndex interface {
	Rows() int64
	Key(row int64) (string, error)
	Part(row int64, field string) (Part, error)
	Scalar(row int64, field string) (Value, error)
	// Close unmaps the file. A second call does nothing.
	Close() error
}

// OpenBin maps the index of the bin at place in the manifest, whatever its kind, and checks its structure.
func OpenBin(index LocalIndex, m *Manifest, place int) (BinIndex, error) {
	if m.Bins[place].container() == Megatron {
		x, err := openTokensOf(index, m, place)
		if err != nil {
			return nil, err
		}
		return x, nil
	}
	x, err := OpenIndex(index, m, place)
	if err != nil {
		return nil, err // not x: an interface that holds a nil *Index is not nil
	}
	return x, nil
}
