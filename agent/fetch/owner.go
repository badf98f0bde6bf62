package fetch

import (
	"crypto/sha256"
	"encoding/binary"
)

// Node is an agent: its name, which is the name that the store's locations use, and its address.
type Node struct{ Name, Addr string }

// Owner returns which of the holders prepares a sample: the one with the largest first 8 bytes
// (big-endian) of SHA-256(dataset | u64le sample | node name), and of two equal ones the one whose
// name is smaller. It depends on the set of names only, not on their order, so that both sides come
// to the same answer, and a holder that leaves moves only the samples it owned. It is false when
// there are no holders.
func Owner(dataset [32]byte, sample uint64, holders []Node) (Node, bool) {
	if len(holders) == 0 {
		return Node{}, false
	}
	best := 0
	bestWeight := weight(dataset, sample, holders[0].Name)
	for i := 1; i < len(holders); i++ {
		w := weight(dataset, sample, holders[i].Name)
		if w > bestWeight || w == bestWeight && holders[i].Name < holders[best].Name {
			best, bestWeight = i, w
		}
	}
	return holders[best], true
}

func weight(dataset [32]byte, sample uint64, node string) uint64 {
	buf := make([]byte, 0, 128) // stays on the stack for names up to 88 bytes
	buf = append(buf, dataset[:]...)
	buf = binary.LittleEndian.AppendUint64(buf, sample)
	buf = append(buf, node...)
	sum := sha256.Sum256(buf)
	return binary.BigEndian.Uint64(sum[:8])
}
