package hdfs

import (
	"errors"
	"io/fs"
	"path"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

// leave puts what a killed writer of a name left.
func (c *lake) leave(name string, e inode) string {
	left := path.Join(path.Dir(name), tempPrefix+"left")
	c.entries[left] = &e
	return left
}

func TestLeftovers(t *testing.T) {
	minute := oldDraft.Milliseconds()
	for _, c := range []struct {
		what          string
		left          inode
		create, dying bool // gone after the next Create, after Remove of the folder
	}{
		{"closed, old", inode{modified: 1_000_000 - minute}, true, true},
		{"closed, young: it may be renamed now", inode{modified: 1_000_000 - minute + 1}, false, true},
		{"lease expired", inode{modified: 0, holder: "dead", expired: true}, true, true},
		{"lease renewed", inode{modified: 0, holder: "alive"}, false, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			fake := newLake(t)
			left := fake.leave("/d/f", c.left)
			fake.entries["/d"] = &inode{dir: true}
			if err := writeFile(newWriteStore(fake), "/d/f", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if gone := fake.entries[left] == nil; gone != c.create {
				t.Errorf("gone after Create: %v", gone)
			}

			fake = newLake(t)
			fake.leave("/d/f", c.left)
			fake.entries["/d"] = &inode{dir: true}
			err := newWriteStore(fake).Remove(t.Context(), "/d")
			if c.dying && err != nil || !c.dying && !errors.Is(err, syscall.ENOTEMPTY) {
				t.Errorf("Remove: %v", err)
			}
			if gone := fake.entries["/d"] == nil; gone != c.dying {
				t.Errorf("gone after Remove: %v", gone)
			}
		})
	}
}

// TestSweepsSpareWhatIsPublished: a writer that took long closes its draft while another looks for what killed writers
// left. It has not given it its name yet.
func TestSweepsSpareWhatIsPublished(t *testing.T) {
	for _, when := range []string{"isFileClosed", "create"} { // just before the call that asks
		c := newLake(t)
		left := c.leave("/d/f", inode{id: 7, modified: 0, holder: "alive"})
		c.entries["/d"] = &inode{dir: true}
		c.fail = func(method, name string) error {
			if e := c.entries[left]; name == left && method == when {
				e.holder, e.modified = "", c.now
			}
			return nil
		}
		if err := writeFile(newWriteStore(c), "/d/f", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if e := c.entries[left]; e == nil || e.holder != "" {
			t.Errorf("closed just before %s: %+v is left of the draft", when, e)
		}
	}
}

func TestRemoveKeepsFiles(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	left := c.leave("/d/f", inode{})
	c.entries["/d"] = &inode{dir: true}
	c.entries["/d/other"] = &inode{}
	if err := s.Remove(t.Context(), "/d"); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Fatal(err)
	}
	if c.entries[left] == nil {
		t.Error("a draft was removed although the folder stays")
	}
	if err := s.Remove(t.Context(), "/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), "/"); store.ClassOf(err) != store.Permanent {
		t.Error(err)
	}
}
