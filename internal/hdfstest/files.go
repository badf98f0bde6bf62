package hdfstest

import (
	"math/rand/v2"
	"os"
)

// What follows is done by Hadoop's own client, as User where nothing else is said.

// Put writes a file, over one that is there. blockSize 0 is 1 MiB, replication 0 is 3.
func (c *Cluster) Put(path string, data []byte, replication int, blockSize int64) {
	c.t.Helper()
	c.write("put", path, data, args{"replication": replication, "blockSize": blockSize})
}

// PutOpen is Put for a file that is left open: its bytes are visible and its last block is under construction, until
// CloseFile.
func (c *Cluster) PutOpen(path string, data []byte, replication int, blockSize int64) {
	c.t.Helper()
	c.write("put", path, data, args{"replication": replication, "blockSize": blockSize, "open": true})
}

// Append adds to the end of a file.
func (c *Cluster) Append(path string, data []byte) {
	c.t.Helper()
	c.write("append", path, data, args{})
}

// CloseFile closes a file that PutOpen left open.
func (c *Cluster) CloseFile(path string) {
	c.t.Helper()
	c.do("close", args{"path": path}, nil)
}

func (c *Cluster) write(op, path string, data []byte, a args) {
	c.t.Helper()
	local := c.local("put")
	if err := os.WriteFile(local, data, 0o600); err != nil {
		c.t.Fatal(err)
	}
	if a["replication"] == 0 {
		a["replication"] = min(3, c.options.DataNodes)
	}
	if a["blockSize"] == int64(0) {
		a["blockSize"] = 1 << 20
	}
	a["path"], a["local"], a["user"] = path, local, User
	c.do(op, a, nil)
}

// Get reads a whole file.
func (c *Cluster) Get(path string) []byte {
	c.t.Helper()
	local := c.local("get")
	c.do("get", args{"path": path, "local": local, "user": Superuser}, nil)
	data, err := os.ReadFile(local)
	if err != nil {
		c.t.Fatal(err)
	}
	return data
}

// Bytes returns n bytes that look random and depend on the seed alone.
func Bytes(seed uint64, n int) []byte {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	data := make([]byte, n)
	rand.NewChaCha8(key).Read(data)
	return data
}

// Mkdir makes a folder, and those above it, that belongs to User.
func (c *Cluster) Mkdir(path string) {
	c.t.Helper()
	c.do("folder", args{"path": path, "owner": User, "mode": 0o755}, nil)
}

// Chmod sets the permissions of a file or folder, and its owner unless that is "".
func (c *Cluster) Chmod(path, owner string, mode uint32) {
	c.t.Helper()
	c.do("permit", args{"path": path, "owner": owner, "mode": mode}, nil)
}

// Delete removes a file or a whole folder.
func (c *Cluster) Delete(path string) {
	c.t.Helper()
	c.do("delete", args{"path": path, "user": Superuser}, nil)
}

// Rename renames a file or folder, over a file or an empty folder that is there.
func (c *Cluster) Rename(from, to string) {
	c.t.Helper()
	c.do("rename", args{"from": from, "to": to, "user": User}, nil)
}

// ManyFiles makes n empty files, 000000 and so on, in a folder.
func (c *Cluster) ManyFiles(folder string, n int) {
	c.t.Helper()
	c.do("manyFiles", args{"path": folder, "n": n, "user": User}, nil)
}

// ErasureCode makes what will be written into an empty folder erasure coded, by a policy such as RS-3-2-1024k (five
// DataNodes) or XOR-2-1-1024k (three).
func (c *Cluster) ErasureCode(folder, policy string) {
	c.t.Helper()
	c.do("erasureCoding", args{"path": folder, "policy": policy}, nil)
}

// Quota bounds the names and the bytes, all replicas counted, in a folder; 0 leaves one unbounded.
func (c *Cluster) Quota(folder string, names, bytes int64) {
	c.t.Helper()
	bound := func(n int64) int64 {
		if n == 0 {
			return -1
		}
		return n
	}
	c.do("quota", args{"path": folder, "names": bound(names), "bytes": bound(bytes)}, nil)
}

// Snapshot makes a snapshot of a folder and returns its path.
func (c *Cluster) Snapshot(folder, name string) string {
	c.t.Helper()
	var path string
	c.do("snapshot", args{"path": folder, "name": name}, &path)
	return path
}

// DeleteSnapshot removes a snapshot.
func (c *Cluster) DeleteSnapshot(folder, name string) {
	c.t.Helper()
	c.do("deleteSnapshot", args{"path": folder, "name": name}, nil)
}

// Symlink makes a symbolic link.
func (c *Cluster) Symlink(target, link string) {
	c.t.Helper()
	c.do("symlink", args{"target": target, "path": link}, nil)
}

// EncryptionZone makes an empty folder an encryption zone: what is written there is encrypted at rest.
func (c *Cluster) EncryptionZone(folder string) {
	c.t.Helper()
	c.do("encryptionZone", args{"path": folder}, nil)
}
