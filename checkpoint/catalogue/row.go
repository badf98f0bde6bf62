// Package catalogue says where temporary copies of files and checkpoints are, so that readers find them without asking anybody: one signed file for each
// path, beside the data. Whatever is unreadable, expired or doubtful means the original.
package catalogue

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// Folder is the catalogue's place in a store.
const Folder = "/.stepahead/catalogue"

// Version is that of rows.
const Version = 1

// Row says where else the content of a path is. Exactly one of Copy and Sources is set.
type Row struct {
	Version int `json:"v"`
	// Placement is the controller's number of it, and Controller the name of the journal that gave it.
	Placement  uint64 `json:"placement"`
	Controller string `json:"controller"`
	// Path is the original, as its store's Address gives it: a checkpoint, or a hot file.
	Path string `json:"path"`
	// Identity is that of the original: checkpoint.Checkpoint.Identity, or the file's store.Identity.
	Identity string `json:"identity"`
	// TTL is how long the row holds after it was written, by the clock of the store in which it lies.
	TTL     time.Duration `json:"ttl_ns"`
	Copy    *Copy         `json:"copy,omitempty"`
	Sources *Sources      `json:"sources,omitempty"`
}

// Copy is a checkpoint's copy at another site. Its row lies in the store of the copy.
type Copy struct {
	// Place is the folder of the copy, a name in the store in which the row lies.
	Place string `json:"place"`
	// Digest is checkpoint.Digest.Sum of the content.
	Digest string            `json:"digest"`
	Files  []CopyFile        `json:"files"`
	Labels map[string]string `json:"labels,omitempty"`
}

// CopyFile is one file of a copy.
type CopyFile struct {
	// Name is relative to the checkpoint, with slashes; of a checkpoint that is one file it is the file's name. Files are sorted by it.
	Name string `json:"name"`
	Size int64  `json:"size"`
	// Original and Here are the versions of the original and of the copy.
	Original store.Identity `json:"original"`
	Here     store.Identity `json:"here"`
	CRC32C   uint32         `json:"crc32c"`
}

// Sources tells readers of a hot file who reads where. Its row lies in the store of the file.
type Sources struct {
	Size int64 `json:"size"`
	// Readers is how many there are.
	Readers int `json:"readers"`
	// Siblings are files with the same content on other nodes, names in the same store; none: only the replicas of the original.
	Siblings []Sibling `json:"siblings,omitempty"`
}

// Sibling is a temporary copy of a hot file.
type Sibling struct {
	Name     string         `json:"name"`
	Identity store.Identity `json:"identity"`
	CRC32C   uint32         `json:"crc32c"`
}

// NameOf is the base name of a path's row: of copies in the site's store, of hot files in the store of the file. url is the path as Row.Path has it.
func NameOf(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:]) + rowSuffix
}

const rowSuffix = ".json"

// file finds a file by its name in the copy.
func (c *Copy) file(rel string) (CopyFile, bool) {
	i, ok := slices.BinarySearchFunc(c.Files, rel, func(f CopyFile, name string) int { return strings.Compare(f.Name, name) })
	if !ok {
		return CopyFile{}, false
	}
	return c.Files[i], true
}
