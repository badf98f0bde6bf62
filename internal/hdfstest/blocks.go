package hdfstest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Block is one block of a file, or one group of an erasure-coded file, with the places of the DataNodes that hold it.
type Block struct {
	Pool       string `json:"pool"`
	ID         int64  `json:"id"`
	Generation int64  `json:"generation"`
	Offset     int64  `json:"offset"`
	Length     int64  `json:"length"`
	Corrupt    bool   `json:"corrupt"` // the NameNode knows of no good replica
	Nodes      []int  `json:"nodes"`
}

// Locations returns the blocks of a file as the NameNode knows them.
func (c *Cluster) Locations(path string) []Block {
	c.t.Helper()
	var blocks []Block
	c.do("locations", args{"path": path}, &blocks)
	return blocks
}

// SetReplication asks for n replicas of a file.
func (c *Cluster) SetReplication(path string, n int) {
	c.t.Helper()
	c.do("setReplication", args{"path": path, "n": n, "user": User}, nil)
}

// WaitReplication waits until every block of a file has exactly n locations.
func (c *Cluster) WaitReplication(path string, n int) {
	c.t.Helper()
	c.do("waitReplication", args{"path": path, "n": n}, nil)
}

// Move moves one replica of a block to another DataNode, as the balancer does, and waits until the NameNode knows. The
// cluster must be without Kerberos.
func (c *Cluster) Move(path string, block, from, to int) {
	c.t.Helper()
	c.do("move", args{"path": path, "block": block, "from": from, "to": to}, nil)
}

// A Damage is what can be done to the files of a replica.
type Damage string

const (
	FlipData     Damage = "a byte of the data in the middle"
	FlipChecksum Damage = "a byte of the checksums in the middle"
	Truncate     Damage = "the data end in the middle"
	Delete       Damage = "the data are gone"
)

// Corrupt damages the replica of a file's block on one DataNode, on disk; nobody is told.
func (c *Cluster) Corrupt(path string, block, dn int, what Damage) {
	c.t.Helper()
	data, meta := c.Replica(path, block, dn)
	if err := damage(data, meta, what); err != nil {
		c.t.Fatal(err)
	}
}

func damage(data, meta string, what Damage) error {
	switch what {
	case FlipData:
		return flip(data)
	case FlipChecksum:
		return flip(meta)
	case Truncate:
		info, err := os.Stat(data)
		if err != nil {
			return err
		}
		return os.Truncate(data, info.Size()/2)
	case Delete:
		return os.Remove(data)
	}
	return fmt.Errorf("hdfstest: unknown damage %q", what)
}

// flip inverts the byte in the middle of a file.
func flip(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	var b [1]byte
	if _, err := file.ReadAt(b[:], info.Size()/2); err != nil {
		return err
	}
	b[0] = ^b[0]
	_, err = file.WriteAt(b[:], info.Size()/2)
	return err
}

// Replica returns the paths of the files that hold a block's data and checksums on one DataNode; of an erasure-coded
// file, those of the DataNode's part of the group.
func (c *Cluster) Replica(path string, block, dn int) (data, meta string) {
	c.t.Helper()
	b := c.Locations(path)[block]
	for deadline := time.Now().Add(commandTime); time.Now().Before(deadline); {
		data, meta = findReplica(c.DataNodes()[dn].Folders, b)
		if data != "" && meta != "" {
			return data, meta
		}
		time.Sleep(20 * time.Millisecond) // the DataNode names the files when it has closed the block
	}
	c.t.Fatalf("hdfstest: DataNode %d has no replica of block %d of %s", dn, block, path)
	return "", ""
}

// maxGroup is how many block numbers belong to one group of an erasure-coded file; such numbers are negative.
const maxGroup = 16

func findReplica(folders []string, b Block) (data, meta string) {
	ids := int64(1)
	if b.ID < 0 {
		ids = maxGroup
	}
	for _, folder := range folders {
		filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			for id := b.ID; err == nil && id < b.ID+ids; id++ {
				name := fmt.Sprintf("blk_%d", id)
				if d.Name() == name {
					data = path
				} else if strings.HasPrefix(d.Name(), name+"_") && strings.HasSuffix(d.Name(), ".meta") {
					meta = path
				}
			}
			return nil // files come and go while we look
		})
	}
	return data, meta
}
