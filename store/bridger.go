package store

// Bridger is implemented by Files that read over the holes between the ranges of one call by themselves: what lies between
// two ranges takes no request and no memory of its own.
type Bridger interface {
	// Bridges returns the largest hole, in bytes, that ReadRanges reads over where that at most doubles what is read; 0 if
	// it reads over none.
	Bridges() int64
}

// BridgesOf is Bridges of a File, 0 if it is no Bridger.
func BridgesOf(f File) int64 {
	if b, ok := f.(Bridger); ok {
		return b.Bridges()
	}
	return 0
}
