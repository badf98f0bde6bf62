package store

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
)

// What the controller needs of a store beyond Store, so that it can make things for a while and undo them. What a store cannot do it does not
// implement, or answers with errors.ErrUnsupported.

// Attributer is implemented by stores that keep small named values with a file or folder. Names have the form "stepahead.xyz"; values have at most 1 KiB.
// A value belongs to the file and not to its name: it goes with Rename and ends with Remove.
type Attributer interface {
	// Attribute returns a value; ok is false where the file has none of the name. A missing file matches fs.ErrNotExist.
	Attribute(ctx context.Context, name, attribute string) (value []byte, ok bool, err error)
	// SetAttribute sets a value, or, nil, removes it. It is idempotent.
	SetAttribute(ctx context.Context, name, attribute string, value []byte) error
}

const (
	maxAttribute = 128
	maxValue     = 1 << 10
)

// CheckAttribute returns nil if an attribute has a name of two or more parts of the letters a to z, digits, '-' and '_' with dots between them, of
// at most 128 bytes, and a value of at most 1 KiB; else an error that matches fs.ErrInvalid.
func CheckAttribute(attribute string, value []byte) error {
	parts := strings.Split(attribute, ".")
	bad := len(parts) < 2 || len(attribute) > maxAttribute
	for _, p := range parts {
		bad = bad || p == "" || strings.Trim(p, "abcdefghijklmnopqrstuvwxyz0123456789-_") != ""
	}
	switch {
	case bad:
		return fmt.Errorf("%w: attribute %.128q: write for example stepahead.mark", fs.ErrInvalid, attribute)
	case len(value) > maxValue:
		return fmt.Errorf("%w: attribute %s: a value of %d bytes is more than %d", fs.ErrInvalid, attribute, len(value), maxValue)
	}
	return nil
}

// StoragePolicy is on which types of storage a file's replicas are to lie.
type StoragePolicy struct {
	// Name is the policy in effect, such as "HOT" or "COLD".
	Name string
	// Own is set where the file itself has it, and did not inherit it.
	Own bool
}

// StoragePolicer is implemented by stores with types of storage.
type StoragePolicer interface {
	StoragePolicy(ctx context.Context, name string) (StoragePolicy, error)
	// SetStoragePolicy gives a file or folder a policy of its own, or, "", lets it inherit again. Replicas that exist do not move. It is idempotent.
	SetStoragePolicy(ctx context.Context, name, policy string) error
}

// Placement says where the blocks of a new file go.
type Placement struct {
	// Replicas of each block; BlockSize in bytes. 0: the store's own.
	Replicas  int
	BlockSize int64
	// Exclude, if not nil, names the nodes that may not get the block that begins at an offset. Where the store has no place on the others for as many as
	// Replicas, all blocks have as many as the one with fewest, and the file asks for no more (Info.Replicas): a store that is short of replicas would make
	// them later, on any node. Where a block has no place at all, writing fails with ErrUnavailable.
	Exclude func(off int64) []string
}

// Validate returns all that is wrong with p, as errors that match fs.ErrInvalid.
func (p Placement) Validate() error {
	if p.Replicas < 0 || p.BlockSize < 0 || p.BlockSize%512 != 0 {
		return fmt.Errorf("%w: store.Placement: Replicas %d, BlockSize %d: give 0 or more, and blocks of a multiple of 512 bytes", fs.ErrInvalid, p.Replicas, p.BlockSize)
	}
	return nil
}

// PlacedCreator is implemented by stores that let a writer say where blocks go.
type PlacedCreator interface {
	// CreatePlaced is Create with a placement.
	CreatePlaced(ctx context.Context, name string, p Placement) (Writer, error)
}

// Access is who may do what with a file or folder.
type Access struct {
	Owner, Group string
	Mode         fs.FileMode // permission bits
	// ACL are the entries of an access control list beyond Mode, as the store writes them, sorted; nil where there is none.
	ACL []string
}

// Protector is implemented by stores that say and change who may do what.
type Protector interface {
	Access(ctx context.Context, name string) (Access, error)
	// Protect changes it. "" leaves owner or group as they are. One that the caller may not give away matches fs.ErrPermission, and nothing is changed then.
	Protect(ctx context.Context, name string, a Access) error
}

// Node is a storage node that is alive.
type Node struct {
	// Node is its name, as in Replica.Node; "" where the store does not tell.
	Node, Addr, Rack string
	// Free is how many bytes it takes.
	Free int64
	// Load is how many transfers it has in progress; -1 where it cannot be told.
	Load int
	// InService is false where it takes no new blocks.
	InService bool
	// Types are the types of its storages, such as "DISK" and "ARCHIVE", sorted; nil where it cannot be told.
	Types []string
}

// NodeLister is implemented by stores with nodes.
type NodeLister interface {
	Nodes(ctx context.Context) ([]Node, error)
}

// Tracker is implemented by stores that find a file again that was renamed.
type Tracker interface {
	// Track returns what leads to the file that a name means now, whatever it is called later, for as long as it exists; no other file has it. It has at most
	// 128 bytes. A store that cannot find this one so answers with errors.ErrUnsupported.
	Track(ctx context.Context, name string) (handle string, err error)
	// Tracked returns the store with one difference: to Stat and the methods of Attributer, StoragePolicer and Replicator name is the file that a handle leads to.
	// That it is no more matches fs.ErrNotExist. What is no handle matches fs.ErrInvalid.
	Tracked(name, handle string) (Store, error)
}

// Mover is implemented by stores that can move one replica of one block.
type Mover interface {
	// MoveReplica has the replica of the block at off that one node has lie on another one instead; both are named as in Replica.Node. It returns when the
	// other one has it; the first loses its own soon after. A caller who may not, where stores want more than the right to write the file, gets an error that
	// matches fs.ErrPermission.
	MoveReplica(ctx context.Context, name string, off int64, from, to string) error
}
