package hdfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// An open file gives the bytes of its version or an error that tells what happened, never anything else.
func TestIdentity(t *testing.T) {
	// unknown makes what the store knows of the blocks useless, so that the NameNode is asked.
	unknown := func(c *scene, f *fakeFile) {
		for _, b := range f.blocks {
			for n := range 5 {
				c.missing[[2]int64{b.id, int64(n)}] = true
			}
		}
	}
	for _, inodes := range []bool{true, false} {
		bubble(t, fmt.Sprint("overwritten, inodes ", inodes), func(t *testing.T) {
			c := newScene(t, Options{})
			c.inodes = inodes
			f := c.open(t)
			old := c.file
			now := c.put("/f", random(testSize, 2), testBlock, 3)
			unknown(c, old)
			_, err := readAll(t.Context(), f)
			var changed *store.IdentityError
			if !errors.As(err, &changed) || changed.Pinned != f.Identity() || changed.Now != versionOf(now.status).identity() {
				t.Errorf("%v, want an error that names %s and %s", err, f.Identity(), versionOf(now.status).identity())
			}
		})
		bubble(t, fmt.Sprint("removed, inodes ", inodes), func(t *testing.T) {
			c := newScene(t, Options{})
			c.inodes = inodes
			f := c.open(t)
			unknown(c, c.file)
			delete(c.files, "/f")
			if _, err := readAll(t.Context(), f); store.ClassOf(err) != store.NotFound {
				t.Errorf("%v", err)
			}
		})
		bubble(t, fmt.Sprint("appended, inodes ", inodes), func(t *testing.T) {
			c := newScene(t, Options{})
			c.inodes = inodes
			f := c.open(t)
			last := c.file.blocks[6]
			last.stamp++
			last.data = append(slices.Clone(last.data), 1, 2, 3)
			c.file.status.Length = proto.Uint64(testSize + 3)
			c.wantAll(t, f) // the nodes serve the newer replica, whose first bytes are the same
			for i := range last.on {
				last.on[i] = (last.on[i] + 2) % 5
			}
			if _, err := readAll(t.Context(), f); err != nil && store.ClassOf(err) != store.IdentityChanged {
				t.Errorf("%v", err)
			}
		})
	}
	bubble(t, "changed to the same length, where it was not read yet", func(t *testing.T) {
		c := newScene(t, Options{})
		c.file = c.put("/f", c.data, 100, 3) // 1,000 blocks, of which 682 are learned at a time
		f := c.open(t)
		c.file.status.ModificationTime = proto.Uint64(5)
		for _, b := range c.file.blocks[700:] { // truncated and appended
			b.id, b.data = b.id+1_000_000, random(100, 9)
		}
		buf := make([]byte, 100)
		for range 2 {
			if err := f.ReadRanges(t.Context(), []store.Range{{Off: 80_000, Buf: buf}}); store.ClassOf(err) != store.IdentityChanged {
				t.Errorf("%v", err)
			}
		}
	})
	bubble(t, "renamed", func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		c.files["/g"] = c.file
		delete(c.files, "/f")
		for _, b := range c.file.blocks {
			for i := range b.on {
				b.on[i] = (b.on[i] + 2) % 5
			}
		}
		c.wantAll(t, f)
	})
}

func TestFilesThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{})
		c.put("/zone/f", c.data, testBlock, 3).status.FileEncryptionInfo = &hproto.FileEncryptionInfo{KeyName: proto.String("key7")}
		c.put("/link", nil, testBlock, 3).status.FileType = hproto.FileStatus_SYMLINK.Enum()
		c.put("/striped", c.data, testBlock, 3).status.EcPolicy = &hproto.ErasureCodingPolicy{Id: proto.Uint32(3)}
		for name, word := range map[string]string{"/zone/f": "key7", "/striped": "rs-legacy", "/link": "link", "/zone": "directory", "/none": "not exist", "/a:b": "':'", "/\xff": "UTF-8", "/.reserved/raw/x": "own", "/x/.stepahead-tmp-1": "reserved"} {
			_, err := c.s.Open(t.Context(), name)
			if err == nil || !strings.Contains(err.Error(), word) || store.ClassOf(err) != store.Permanent && name != "/none" {
				t.Errorf("%s: %v, want an error about %q", name, err, word)
			}
		}
	})
}

func TestFilesBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{})
		c.file.open = true
		f := c.open(t)
		if f.Size() != 6*testBlock {
			t.Errorf("size %d, want the complete blocks' %d", f.Size(), 6*testBlock)
		}
		c.wantAll(t, f)
		last := c.file.blocks[6]
		c.s.visible = func(_ context.Context, n *node, b *block) (int64, error) {
			if b.id.id != last.id {
				t.Errorf("asked for %v", b.id)
			}
			return 1000, nil
		}
		c.file.status.ModificationTime = proto.Uint64(5)
		f = c.open(t)
		if f.Size() != 6*testBlock+1000 {
			t.Errorf("size %d, want 1000 bytes more than the complete blocks", f.Size())
		}
		c.wantAll(t, f)
		c.file.open, last.stamp = false, last.stamp+1 // closed
		for i := range last.on {
			last.on[i] = (last.on[i] + 2) % 5
		}
		c.wantAll(t, f)
	})
}
