package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

func openCluster(t testing.TB, c *hdfstest.Cluster) *hdfs.Store {
	t.Helper()
	cfg, err := conf.Load(c.Getenv)
	must(t, err)
	s, _, err := hdfs.Open(c.URL()+"/", hdfs.Options{Conf: cfg, User: hdfstest.User})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// putTorch puts what torch saved into a folder of a cluster, in blocks so small that tensors lie in several, with two replicas each.
func putTorch(t testing.TB, c *hdfstest.Cluster, dir string) (shard string) {
	t.Helper()
	for name, data := range torchSave(t, "ranks") {
		c.Put(dir+"/"+name, data, 2, 1<<20)
		c.WaitReplication(dir+"/"+name, 2)
	}
	return dir + "/__0_0.distcp"
}

// loadAll loads every tensor and compares it with what torch loaded.
func loadAll(t testing.TB, c *Checkpoint) error {
	t.Helper()
	sums := torchSums(t, "ranks")
	for i := range c.Tensors {
		data, err := c.Load(t.Context(), &c.Tensors[i])
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != sums[c.Tensors[i].Name] {
			t.Errorf("%q has other bytes", c.Tensors[i].Name)
		}
	}
	return nil
}

// TestDeadDataNode: a shard one of whose replicas lies on a node that is down, and not yet known to be, is read from the other.
func TestDeadDataNode(t *testing.T) {
	c := hdfstest.Shared(t)
	dir := c.Dir(t)
	shard := putTorch(t, c, dir)
	dead := c.Locations(shard)[0].Nodes[0]
	s := openCluster(t, c)
	before, err := Open(t.Context(), s, dir, Options{})
	must(t, err)
	c.Kill(dead)
	defer c.Restart(dead, true)
	must(t, loadAll(t, before))
	after, err := Open(t.Context(), openCluster(t, c), dir, Options{}) // by one who knows nothing of the cluster
	must(t, err)
	must(t, after.Complete())
	must(t, loadAll(t, after))
}

// TestCorruptReplica: a shard with a damaged replica is read from the other, and one with none that is right is an error that says so.
func TestCorruptReplica(t *testing.T) {
	c := hdfstest.Shared(t)
	dir := c.Dir(t)
	shard := putTorch(t, c, dir)
	holders := c.Locations(shard)[0].Nodes
	c.Corrupt(shard, 0, holders[0], hdfstest.FlipData)
	opened, err := Open(t.Context(), openCluster(t, c), dir, Options{})
	must(t, err)
	must(t, loadAll(t, opened))
	v, err := opened.Verify(t.Context(), ReadOptions{})
	if err != nil || len(v.Problems) != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	c.Corrupt(shard, 0, holders[1], hdfstest.FlipData)
	opened, err = Open(t.Context(), openCluster(t, c), dir, Options{})
	if err == nil {
		err = loadAll(t, opened)
	}
	if store.ClassOf(err) != store.Corrupt {
		t.Errorf("every replica is damaged: class %s: %v", store.ClassOf(err), err)
	}
}

// pieces is a checkpoint of one file that takes several reads, and its digest.
func pieces(t testing.TB, c *hdfstest.Cluster) (s *hdfs.Store, opened *Checkpoint, sum string) {
	t.Helper()
	dir := c.Dir(t)
	data := append([]byte("PK\x03\x04"), hdfstest.Bytes(1, 3*piece)...)
	c.Put(dir+"/step-1/model.pt", append(append(data, "PK\x05\x06"...), make([]byte, 18)...), 2, 1<<20)
	s = openCluster(t, c)
	opened, err := Open(t.Context(), s, dir+"/step-1", Options{})
	must(t, err)
	must(t, opened.Complete())
	d, err := opened.Digest(t.Context(), ReadOptions{})
	must(t, err)
	return s, opened, d.Sum
}

// midway reads a checkpoint and has something happen after the first piece.
func midway(t testing.TB, c *Checkpoint, happen func()) (sum string, err error) {
	t.Helper()
	var once sync.Once
	d, err := c.Digest(t.Context(), ReadOptions{Progress: func(int64) { once.Do(happen) }})
	if err != nil {
		return "", err
	}
	return d.Sum, nil
}

// TestDeletedInMidLoad: what is read of a checkpoint that is deleted meanwhile is as it was, or an error that says that it is gone.
func TestDeletedInMidLoad(t *testing.T) {
	c := hdfstest.Shared(t)
	_, opened, want := pieces(t, c)
	sum, err := midway(t, opened, func() { c.Delete(opened.Path) })
	gone := func(err error) bool {
		class := store.ClassOf(err)
		return class == store.NotFound || class == store.IdentityChanged
	}
	if err == nil && sum != want || err != nil && !gone(err) {
		t.Errorf("digest %s, want %s or that it is gone: %v", sum, want, err)
	}
	if _, err := opened.Digest(t.Context(), ReadOptions{}); !errors.Is(err, store.ErrIdentity) {
		t.Errorf("afterwards: %v", err)
	}
	if changed, err := opened.Changed(t.Context()); changed == "" || err != nil {
		t.Errorf("it has not changed: %v", err)
	}
}

// TestOverwrittenInMidRead: a checkpoint that is overwritten, by one of the same length, is never read as a mixture: it is the old one, or an
// error that names both versions.
func TestOverwrittenInMidRead(t *testing.T) {
	c := hdfstest.Shared(t)
	_, opened, want := pieces(t, c)
	file := opened.Path + "/model.pt"
	other := append([]byte("PK\x03\x04"), hdfstest.Bytes(2, 3*piece)...)
	other = append(append(other, "PK\x05\x06"...), make([]byte, 18)...)
	sum, err := midway(t, opened, func() {
		c.Delete(file)
		c.Put(file, other, 2, 1<<20)
	})
	if err == nil && sum != want || err != nil && !errors.Is(err, store.ErrIdentity) && store.ClassOf(err) != store.NotFound {
		t.Errorf("digest %s, want %s or an identity that changed: %v", sum, want, err)
	}
	_, err = opened.Digest(t.Context(), ReadOptions{})
	var changed *store.IdentityError
	if !errors.As(err, &changed) || changed.Pinned == "" || changed.Now == "" || changed.Pinned == changed.Now {
		t.Errorf("afterwards: %v", err)
	}
	now, err := Open(t.Context(), openCluster(t, c), opened.Path, Options{})
	must(t, err)
	if now.Identity() == opened.Identity() {
		t.Error("the new checkpoint has the identity of the old one")
	}
}

// TestListingCost: to open a checkpoint of 10,000 files takes the calls of one listing, and some that do not depend on the number of files.
func TestListingCost(t *testing.T) {
	c := hdfstest.Shared(t)
	dir := c.Dir(t)
	putTorch(t, c, dir)
	s := openCluster(t, c)
	cost := func() (lists, all int64) {
		before := c.Calls(0)
		opened, err := Open(t.Context(), s, dir, Options{})
		must(t, err)
		must(t, opened.Complete())
		for name, n := range c.Calls(0) {
			n -= before[name]
			switch name {
			case "GetListing", "GetBatchedListing":
				lists += n
				fallthrough
			case "GetFileInfo", "GetBlockLocations", "GetLocatedFileInfo", "GetServerDefaults":
				all += n
			}
		}
		return lists, all
	}
	_, few := cost()
	c.ManyFiles(dir, 10_000)
	lists, many := cost()
	if lists < 10 || lists > 12 || many > few+11 {
		t.Errorf("%d listings, %d calls for 10,000 files more, %d without", lists, many, few)
	}
	t.Logf("%d calls without, %d with 10,000 files more", few, many)
}
