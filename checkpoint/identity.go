package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// Identity names this version of the checkpoint in its store: SHA-256 over layout, save id and, for each file, name, identity and
// length. A copy has another one; Digest has one for the content.
func (c *Checkpoint) Identity() string {
	h := sha256.New()
	text(h, "stepahead checkpoint identity 1")
	text(h, string(c.Layout))
	text(h, c.SaveID)
	for _, f := range c.Files {
		text(h, f.Name)
		text(h, string(f.Identity))
		number(h, uint64(f.Size))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Digest says what a checkpoint's files hold.
type Digest struct {
	// Sum is the SHA-256, in hexadecimal digits, over layout, save id and, for each file, name, length and CRC32C: two checkpoints with
	// the same one have the same bytes, wherever they lie.
	Sum   string       `json:"sum"`
	Files []FileDigest `json:"files"`
}

// FileDigest is what one file holds.
type FileDigest struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	CRC32C uint32 `json:"crc32c"`
}

// DigestOf is the Digest of a checkpoint whose files have these CRC32Cs, in the order of Files.
func (c *Checkpoint) DigestOf(sums []uint32) *Digest {
	d := &Digest{Files: make([]FileDigest, len(c.Files))}
	h := sha256.New()
	text(h, "stepahead checkpoint digest 1")
	text(h, string(c.Layout))
	text(h, c.SaveID)
	for i, f := range c.Files {
		d.Files[i] = FileDigest{Name: f.Name, Size: f.Size, CRC32C: sums[i]}
		text(h, f.Name)
		number(h, uint64(f.Size))
		number(h, uint64(sums[i]))
	}
	d.Sum = hex.EncodeToString(h.Sum(nil))
	return d
}

// text hashes a text with its length, so that no two lists of texts are one.
func text(h hash.Hash, s string) {
	number(h, uint64(len(s)))
	h.Write([]byte(s))
}

func number(h hash.Hash, n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	h.Write(b[:])
}
