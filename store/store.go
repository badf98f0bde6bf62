// Package store knows files in a data lake: ranged reads into the caller's memory, where the bytes
// lie, writes that appear whole or not at all, and what kind of failure an error is.
package store

import (
	"context"
	"io"
	"time"
)

// Store is a tree of files. It is safe for concurrent use.
//
// Names are absolute, clean, slash-separated paths inside the store, such as "/photos/dataset.json"
// ("/" is the root folder); any other name is refused with ErrName, see CheckName. A missing file or
// folder matches fs.ErrNotExist. Every method returns soon after ctx ends, with an error that
// matches ctx.Err(). What an error means is asked with ClassOf, never by its text.
type Store interface {
	// Address is what a name is called outside of the store, so that whoever reads it in a message can give it to a program: the
	// operating system's path, or a URL such as hdfs://cluster/path. It asks nobody, and takes any name. Errors of the other
	// methods name files so.
	Address(name string) string
	// Open opens a file for reading and pins the version of its content that it found.
	Open(ctx context.Context, name string) (File, error)
	// Stat describes a file or folder as it is now.
	Stat(ctx context.Context, name string) (Info, error)
	// List describes what a folder holds, not deeper, sorted by name (byte order). Files that are
	// still being written do not appear.
	List(ctx context.Context, dir string) ([]Info, error)
	// Create starts a new file and makes missing parent folders. The file becomes visible, whole,
	// when the Writer is closed. A name that exists, or that another Writer is writing, matches
	// fs.ErrExist, here or at Close. ctx bounds the life of the Writer, not only this call.
	Create(ctx context.Context, name string) (Writer, error)
	// Rename moves a file or folder in one step: an observer sees the old state or the new one. It
	// replaces a file at the new name, never a folder. The new parent folder must exist.
	Rename(ctx context.Context, from, to string) error
	// Remove deletes a file, or a folder that List shows as empty, whatever killed writers left in it.
	// Files opened before stay readable where the store can do it (store/dir), else their reads fail with
	// class NotFound or IdentityChanged.
	Remove(ctx context.Context, name string) error
	// Locate says which nodes hold the bytes [off, off+n) of a file: the rows of every block that
	// the range touches, sorted by Off and then nearest first. n = 0 touches none. A range outside
	// the file is ErrRange.
	Locate(ctx context.Context, name string, off, n int64) ([]Replica, error)
}

// File is one version of a file's content, open for reading. It is safe for concurrent use; Close
// makes the calls that follow fail with fs.ErrClosed.
type File interface {
	// ReadRanges fills every range entirely, or returns an error; a short read is an error, and a
	// file whose content changed since Open is one of class IdentityChanged. Ranges may come in any
	// order and overlap in the file, but their buffers must not overlap in memory. All ranges are
	// checked first: a negative offset or an end behind the file's is ErrRange and nothing is read.
	// An empty Buf reads nothing and is valid at any offset from 0 to Size. A replica that fails is
	// replaced by another. The buffers belong to the store until the call returns, in the error case
	// too, and after an error their content is undefined.
	ReadRanges(ctx context.Context, r []Range) error
	// Size is the length in bytes of the version that Open pinned.
	Size() int64
	// Identity is that of the version that Open pinned, the same as Stat gave at that moment.
	Identity() Identity
	Close() error
}

// Pieces is a File for those who read one piece at a time.
type Pieces struct{ File }

// OpenPieces opens a file of a store.
func OpenPieces(ctx context.Context, st Store, name string) (Pieces, error) {
	f, err := st.Open(ctx, name)
	return Pieces{f}, err
}

// ReadAt fills b from an offset, or fails as ReadRanges does.
func (p Pieces) ReadAt(ctx context.Context, b []byte, off int64) error {
	return p.ReadRanges(ctx, []Range{{Off: off, Buf: b}})
}

// Identity names one version of a file's content. It is opaque; equal means the same version. It is
// empty for folders.
type Identity string

// Range asks for the bytes [Off, Off+len(Buf)) of a file.
type Range struct {
	Off int64
	Buf []byte
}

// Info describes a file or folder.
type Info struct {
	// Name is the whole name in the store, ready to be given to Open or List.
	Name string
	// Size in bytes; 0 for folders.
	Size     int64
	Dir      bool
	ModTime  time.Time
	Identity Identity
	// Owner is the user that the file or folder belongs to, as the store names users (dir: the numeric
	// user id); "" where the store cannot tell.
	Owner string
	// Replicas is the number of replicas that the file is to have; 0 for folders, and where the store
	// cannot tell.
	Replicas int
}

// Replica says that a node holds the bytes [Off, Off+Len) of a file: one row for each pair of block
// and node.
type Replica struct {
	Node, Rack string
	Off, Len   int64
	// Addr is the node's address, host:port, for people; "" where nodes have none.
	Addr string
	// Storage is what the replica lies on, such as DISK or SSD; "" where the store cannot tell.
	Storage string
}

// Writer writes one new file in order. It must not be used by several goroutines at once.
type Writer interface {
	io.Writer
	// Close makes the file durable (content and name survive a power failure) and visible, in this
	// order. After an error the file is not visible and nothing is left behind.
	Close() error
	// Abort gives the file up and leaves nothing behind. After Close or Abort it does nothing, so
	// it can be deferred.
	Abort() error
}

// ReplicaReader is implemented by Files that can be told which replica to read. It lets a caller who
// found wrong bytes try the other ones.
type ReplicaReader interface {
	// ReadReplica is ReadRanges from one node alone: there is no fallback to another. A node that
	// does not hold all the blocks touched is an error of class NotFound. errors.ErrUnsupported
	// means that this File cannot do it.
	ReadReplica(ctx context.Context, node string, r []Range) error
}

// Localizer is implemented by stores whose files may be ordinary local files.
type Localizer interface {
	// LocalPath returns the operating system's path of a file; false where there is none or where
	// reading it directly would go around what the store does (limits, faults, simulated nodes).
	LocalPath(name string) (path string, ok bool)
}

// BlockSizer is implemented by stores that cut files into blocks.
type BlockSizer interface {
	// BlockSize is the size in bytes of new files' blocks; 0 means that there are no blocks.
	BlockSize() int64
}

// Replicator is implemented by stores that can change a file's number of replicas.
type Replicator interface {
	// SetReplication asks for n >= 1 replicas of an existing file. It is idempotent. A store with
	// fewer nodes keeps the wish and holds as many replicas as it can. errors.ErrUnsupported means
	// that the store cannot do it.
	SetReplication(ctx context.Context, name string, n int) error
}

// Replacer is implemented by stores that replace a whole small file with less work than ReplaceFile makes of a Writer and a
// Rename.
type Replacer interface {
	// Replace writes a file, makes it durable and puts it in the place of the one that has the name, if there is one, in one
	// step. Missing parent folders are made. A folder is not replaced. After an error the name has the old content or the new,
	// whole.
	Replace(ctx context.Context, name string, data []byte) error
}
