// Package binfmt knows the bytes of a bin, its index and manifest: it addresses a part of a sample
// as an Extent, finds it by memory-mapping the index, and checks what was read.
package binfmt

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"
	"strings"
)

// The versions of the manifest that this package writes and reads.
const (
	// Format is that of datasets all of whose bins were packed.
	Format = 1
	// FormatForeign is that of datasets with bins that other programs wrote, or with fields of tokens.
	FormatForeign = 2
)

// ManifestName is the name of the manifest in a dataset's folder.
const ManifestName = "dataset.json"

// LabelField is the scalar field whose values count into Manifest.Classes.
const LabelField = "label"

// Kind says what a field holds.
type Kind string

// The kinds of fields. A media field is an encoded file, and one of tokens an array of numbers, stored in a
// bin; the others are scalars, stored in the index.
const (
	Media   Kind = "media"
	Tokens  Kind = "tokens"
	Int64   Kind = "int64"
	Float64 Kind = "float64"
	Bool    Kind = "bool"
	UTF8    Kind = "utf8"
)

// Sentinels of this package. Errors wrap exactly one of them.
var (
	// ErrManifest: dataset.json breaks a rule of the format.
	ErrManifest = errors.New("bad manifest")
	// ErrHeader: the first 64 bytes of a .bin break a rule of the format.
	ErrHeader = errors.New("bad bin header")
	// ErrIndex: an index file is cut, damaged or breaks a rule of the format.
	ErrIndex = errors.New("bad index")
	// ErrVersion: the file was written by a newer version of the format.
	ErrVersion = errors.New("unknown version")
	// ErrMismatch: two files of a dataset do not belong together.
	ErrMismatch = errors.New("files do not belong together")
	// ErrChanged: an index was written to in place after it was opened.
	ErrChanged = errors.New("index changed since it was opened")
	// ErrShort: fewer or more bytes than the index promises.
	ErrShort = errors.New("wrong length")
	// ErrNoSample: the sample's number is outside the dataset.
	ErrNoSample = errors.New("no such sample")
	// ErrNoField: the dataset has no field of that name, or it is of another kind.
	ErrNoField = errors.New("no such field")
)

// InBin tells whether values of the kind are parts in a bin, not columns of the index.
func (k Kind) InBin() bool { return k == Media || k == Tokens }

// Field is one named value of every sample.
type Field struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Dtype is the NumPy name of the numbers of a field of tokens, little-endian; empty for other kinds.
	Dtype string `json:"dtype,omitempty"`
}

// Bin is one pair of data file and index file.
type Bin struct {
	Name    string `json:"name"`
	UUID    string `json:"uuid"`    // 32 hexadecimal digits
	Samples int64  `json:"samples"` // rows of the index
	Bytes   int64  `json:"bytes"`   // size of the data file, header included
	// IndexSHA256 is the digest of the index file, 64 hexadecimal digits.
	IndexSHA256 string `json:"index_sha256"`
	// Foreign says where the data are that another program wrote; nil for a bin that was packed.
	Foreign *Foreign `json:"foreign,omitempty"`
}

// DataName returns the name of the bin's data file, relative to the dataset's folder. For a bin that is a
// folder of small files it is that folder.
func (b Bin) DataName() string {
	if b.Foreign != nil {
		return b.Foreign.Path
	}
	return b.Name + ".bin"
}

// IndexName returns the name of the bin's index file, relative to the dataset's folder.
func (b Bin) IndexName() string {
	if b.Foreign != nil && b.Foreign.Container == Megatron {
		return strings.TrimSuffix(b.Foreign.Path, ".bin") + ".idx"
	}
	return b.Name + ".arrow"
}

// Files returns the names, in the dataset's folder, of the files that are the dataset's own. What a foreign bin
// points at belongs to somebody else.
func (b Bin) Files() []string {
	switch {
	case b.Foreign == nil:
		return []string{b.DataName(), b.IndexName()}
	case b.Foreign.Container == Megatron:
		return nil
	}
	return []string{b.IndexName()}
}

// IsFolder tells whether each part of the bin is a file of its own: Extent.File, below DataName.
func (b Bin) IsFolder() bool { return b.Foreign != nil && b.Foreign.Container == Folder }

// IndexDigest returns IndexSHA256 as bytes. It cannot fail for a bin of ParseManifest.
func (b Bin) IndexDigest() ([32]byte, error) {
	digest, err := hex.DecodeString(b.IndexSHA256)
	if err != nil || len(digest) != sha256.Size {
		return [32]byte{}, fmt.Errorf("bin %s: index_sha256: %q is not 64 hexadecimal digits: %w", b.Name, b.IndexSHA256, ErrManifest)
	}
	return [32]byte(digest), nil
}

// Manifest lists what a dataset is made of. Samples are numbered 0..N-1 over the bins in their
// order. It is read-only after ParseManifest and then safe for concurrent use.
type Manifest struct {
	Format  int      `json:"format"`
	Fields  []Field  `json:"fields"`
	Classes []string `json:"classes"`
	Bins    []Bin    `json:"bins"`
}

// Identity returns the SHA-256 of the canonical JSON: the identity of the dataset.
func (m *Manifest) Identity() [32]byte { return sha256.Sum256(m.Canonical()) }

// Samples returns the number of samples over all bins.
func (m *Manifest) Samples() int64 {
	var n int64
	for _, b := range m.Bins {
		n += b.Samples
	}
	return n
}

// Field returns the field of that name.
func (m *Manifest) Field(name string) (Field, bool) {
	for _, f := range m.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// ends returns, for each bin, the number of the first sample after it.
func (m *Manifest) ends() []uint64 {
	ends := make([]uint64, len(m.Bins))
	var n uint64
	for i, b := range m.Bins {
		n += uint64(b.Samples)
		ends[i] = n
	}
	return ends
}

// locate returns the bin that holds a sample, and the row in its index, by the sums that ends made.
func locate(ends []uint64, sample uint64) (bin int, row int64, err error) {
	i := sort.Search(len(ends), func(i int) bool { return sample < ends[i] })
	if i == len(ends) {
		var n uint64
		if len(ends) > 0 {
			n = ends[len(ends)-1]
		}
		return 0, 0, noSample(sample, int64(n))
	}
	if i == 0 {
		return 0, int64(sample), nil
	}
	return i, int64(sample - ends[i-1]), nil
}

func noSample(sample uint64, n int64) error {
	return fmt.Errorf("binfmt: sample %d: the dataset has samples 0 to %d: %w", sample, n-1, ErrNoSample)
}
