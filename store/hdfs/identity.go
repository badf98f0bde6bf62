package hdfs

import (
	"fmt"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// version is what makes a file's content this one: the inode, which renaming keeps and replacing does not, its length and
// its time of change. Replication and renaming do not touch it. An open file holds fast to its blocks, too.
type version struct {
	inode    uint64
	length   int64
	modified int64 // in milliseconds since 1970, by the NameNode's clock
}

func versionOf(s *hproto.FileStatus) version {
	return version{inode: s.GetFileId(), length: int64(s.GetLength()), modified: int64(s.GetModificationTime())}
}

// identity is the version as the store shows it.
func (v version) identity() store.Identity {
	return store.Identity(fmt.Sprintf("hdfs:%d-%d-%d", v.inode, v.length, v.modified))
}

// describe is what the store says of a file or folder. Links have no identity: they are not followed.
func describe(name string, s *hproto.FileStatus) store.Info {
	info := store.Info{
		Name: name, Dir: s.GetFileType() == hproto.FileStatus_DIR, ModTime: time.UnixMilli(int64(s.GetModificationTime())),
		Owner: s.GetOwner(),
	}
	if s.GetFileType() == hproto.FileStatus_FILE {
		info.Size, info.Identity, info.Replicas = int64(s.GetLength()), versionOf(s).identity(), int(s.GetBlockReplication())
	}
	return info
}

// sameBlock tells why a block is not the one it was when the file was opened; "" if it is. A block keeps its bytes as long
// as its id, its generation stamp and its length are the same.
func sameBlock(pinned, now *block) string {
	switch {
	case pinned.open && pinned.id.id == now.id.id:
		return "" // closing it, or a recovery, gives it another stamp and length, and keeps what all replicas had
	case pinned.id != now.id:
		return fmt.Sprintf("its block at offset %d was %s and is %s", pinned.off, pinned.id, now.id)
	case pinned.len != now.len:
		return fmt.Sprintf("its block %s at offset %d had %d bytes and has %d", pinned.id, pinned.off, pinned.len, now.len)
	}
	return ""
}
