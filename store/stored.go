package store

// Stored says how the bytes of an open file are kept.
type Stored struct {
	// ErasureCoded: they are units of an erasure code, not replicas.
	ErasureCoded bool
	// Writing: the file was still being written when it was opened.
	Writing bool
}

// StoredFile is implemented by Files of stores in which it may be otherwise than as whole replicas of a file that is whole.
type StoredFile interface {
	Stored() Stored
}

// StoredOf is Stored of a File, the zero value if it is no StoredFile.
func StoredOf(f File) Stored {
	if s, ok := f.(StoredFile); ok {
		return s.Stored()
	}
	return Stored{}
}
