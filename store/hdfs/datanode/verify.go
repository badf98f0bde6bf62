package datanode

import (
	"encoding/binary"
	"hash/crc32"
)

// verify checks data, which lies in pieces, against one big-endian checksum for each chunk; the last chunk may be
// shorter. It returns the first chunk that is wrong, or -1. Without checksums nothing is wrong.
func (s checksums) verify(sums []byte, data [][]byte) int {
	if s.table == nil {
		return -1
	}
	var crc uint32
	chunk, filled := 0, 0 // of the chunk that pieces share
	for _, piece := range data {
		if filled > 0 {
			n := min(s.chunk-filled, len(piece))
			crc = crc32.Update(crc, s.table, piece[:n])
			piece = piece[n:]
			if filled += n; filled < s.chunk {
				continue
			}
			if crc != binary.BigEndian.Uint32(sums[4*chunk:]) {
				return chunk
			}
			chunk, filled = chunk+1, 0
		}
		for len(piece) >= s.chunk {
			if crc32.Update(0, s.table, piece[:s.chunk]) != binary.BigEndian.Uint32(sums[4*chunk:]) {
				return chunk
			}
			piece = piece[s.chunk:]
			chunk++
		}
		if filled = len(piece); filled > 0 {
			crc = crc32.Update(0, s.table, piece)
		}
	}
	if filled > 0 && crc != binary.BigEndian.Uint32(sums[4*chunk:]) {
		return chunk
	}
	return -1
}
