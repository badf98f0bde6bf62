package binfmt

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// The containers that a foreign bin may be.
const (
	Tar      = "tar"      // a shard of a WebDataset
	Megatron = "megatron" // a .bin; the .idx beside it is its index
	MDS      = "mds"      // a shard of a Mosaic dataset
	TFRecord = "tfrecord"
	Folder   = "folder" // one small file a part
)

// AsPeer is the policy of bins whose odd input was taken as the container's usual reader takes it.
const AsPeer = "as-peer"

// Foreign says what a bin is that another program wrote, and which version of it was indexed.
type Foreign struct {
	Container string `json:"container"`
	// Path of the data file, relative to the dataset's folder: clean, with slashes. It may begin with "..".
	Path string `json:"path"`
	// Identity is the store's identity of the data file when it was indexed. A file that has another one is
	// another file. For a folder it is empty: every part has the identity of its file.
	Identity string `json:"identity"`
	// Policy for odd input that the indexer followed: empty for strict, else AsPeer.
	Policy string `json:"policy,omitempty"`
}

// limits of text in a Foreign, in bytes.
const (
	maxForeignPath = 4096
	maxIdentity    = 255
)

func (f *Foreign) check(bad func(string, ...any), bin int) {
	switch f.Container {
	case Tar, Megatron, MDS, TFRecord, Folder:
	default:
		bad("bins[%d].foreign.container: %q is none of %s, %s, %s, %s, %s", bin, f.Container, Tar, Megatron, MDS, TFRecord, Folder)
	}
	if err := checkForeignPath(f.Path); err != nil {
		bad("bins[%d].foreign.path: %w", bin, err)
	}
	if f.Container == Megatron && !strings.HasSuffix(f.Path, ".bin") {
		bad("bins[%d].foreign.path: %q does not end in .bin", bin, f.Path)
	}
	if (f.Identity == "") != (f.Container == Folder) || len(f.Identity) > maxIdentity || printable(f.Identity) != nil {
		bad("bins[%d].foreign.identity: %q: want 1 to %d printable characters, none for a %s", bin, f.Identity, maxIdentity, Folder)
	}
	if f.Policy != "" && f.Policy != AsPeer {
		bad("bins[%d].foreign.policy: %q: want %s, or no such key", bin, f.Policy, AsPeer)
	}
}

// checkForeignPath keeps paths to one spelling for each file.
func checkForeignPath(p string) error {
	switch {
	case p == "" || len(p) > maxForeignPath:
		return fmt.Errorf("a path has 1 to %d bytes, this one %d", maxForeignPath, len(p))
	case !utf8.ValidString(p) || strings.ContainsRune(p, 0):
		return fmt.Errorf("%q is not UTF-8, or has a zero byte", p)
	case path.IsAbs(p) || path.Clean(p) != p || p == "." || p == "..":
		return fmt.Errorf("%q is not a clean path relative to the dataset's folder", p)
	}
	return nil
}

// CheckFile says whether a part may lie in a file of that name below its bin's folder.
func CheckFile(name string) error {
	if err := checkForeignPath(name); err != nil {
		return err
	}
	if strings.HasPrefix(name, "../") {
		return fmt.Errorf("%q leaves the bin's folder", name)
	}
	return nil
}

func checkFilePart(p Part) error {
	if p.Version == "" || len(p.Version) > maxIdentity || printable(p.Version) != nil {
		return fmt.Errorf("the identity %q: want 1 to %d printable characters", p.Version, maxIdentity)
	}
	return CheckFile(p.File)
}

func (b Bin) container() string {
	if b.Foreign == nil {
		return ""
	}
	return b.Foreign.Container
}

// checkForeign holds a data file that another program wrote against the manifest.
func checkForeign(name string, size int64, identity string, b Bin) error {
	switch {
	case b.Foreign.Identity != identity:
		return fmt.Errorf("binfmt.CheckBin %s: the file is %s, indexed was %s: it was changed or replaced since: index it again: %w",
			name, identity, b.Foreign.Identity, ErrMismatch)
	case size != b.Bytes:
		return fmt.Errorf("binfmt.CheckBin %s: the file has %d bytes, the manifest says %d: index it again: %w", name, size, b.Bytes, ErrMismatch)
	}
	return nil
}
