package sampler

// A Piece is a run of tokens inside one sequence of a token dataset. The samples of every token
// order (fixed windows, chunks, packs, Megatron's) are lists of pieces.
type Piece struct {
	// Sequence is the number of the sequence in the dataset, from 0.
	Sequence int64
	// Off is the first token inside the sequence, from 0; Len is the number of tokens, at least 1.
	Off, Len int64
}

// Lengths tells how long the sequences of a token dataset are. It is all that a token order depends
// on beside its own options. Implementations are safe for concurrent use and answer in constant time.
type Lengths interface {
	// Sequences returns the number of sequences.
	Sequences() int64
	// Length returns the number of tokens of sequence i, 0 to Sequences()-1. It is never negative.
	Length(i int64) int64
}

// Offsets is what Lengths offers too when the sequences lie back to back in one stream.
type Offsets interface {
	Lengths
	// Offset returns the number of tokens before sequence i, 0 to Sequences(): the last is the number
	// of all tokens. Offset(i+1)-Offset(i) is Length(i).
	Offset(i int64) int64
}
