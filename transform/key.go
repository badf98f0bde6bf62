package transform

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key names one sample in one epoch of one job. Nothing else decides what random operators draw: no
// worker, rank, position or time.
type Key struct {
	Seed   uint64
	Source string // "" for a single dataset; never a path
	Epoch  uint64
	Sample uint64
}

// Op returns the key of the operator at index in the whole plan: the first 16 bytes of SHA-256 over
// u64le seed, u32le length and bytes of the source name, u64le epoch, u64le sample, u32le index.
func (k Key) Op(index uint32) [16]byte {
	var fixed [64]byte
	b := binary.LittleEndian.AppendUint64(fixed[:0], k.Seed)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(k.Source)))
	b = append(b, k.Source...)
	b = binary.LittleEndian.AppendUint64(b, k.Epoch)
	b = binary.LittleEndian.AppendUint64(b, k.Sample)
	b = binary.LittleEndian.AppendUint32(b, index)
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}
