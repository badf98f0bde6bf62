package hdfs

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

func TestUnknownOutcomeOfTheLastRename(t *testing.T) {
	unknown := fmt.Errorf("%w: %w", namenode.ErrOutcomeUnknown, store.ErrUnavailable)
	for _, said := range []error{unknown, missing("the draft")} { // the NameNode may have forgotten the first of two calls
		for _, took := range []bool{true, false} {
			c := newLake(t)
			c.fail = func(method, name string) error {
				if method != "rename2" {
					return nil
				}
				if took {
					c.entries["/f"] = c.entries[name]
					delete(c.entries, name)
				}
				return said
			}
			err := writeFile(newWriteStore(c), "/f", []byte("x"))
			if took == (err != nil) || !took && store.ClassOf(err) != store.Retryable {
				t.Errorf("took place: %v; %v", took, err)
			}
			if took {
				c.wantOnly(t, "/f")
			} else {
				c.wantOnly(t)
			}
		}
	}
}

// TestUnknownOutcomeOfARename: the same for one that a user asks for.
func TestUnknownOutcomeOfARename(t *testing.T) {
	for _, took := range []bool{true, false} {
		c := newLake(t)
		c.entries["/f"] = &inode{id: 7}
		c.fail = func(method, name string) error {
			if method != "rename2" {
				return nil
			}
			if took {
				c.entries["/g"] = c.entries[name]
			}
			delete(c.entries, name)
			return missing(name)
		}
		err := newWriteStore(c).Rename(t.Context(), "/f", "/g")
		if took == (err != nil) || !took && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("took place: %v; %v", took, err)
		}
	}
}

func TestRenameInsideTheFake(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	for name, e := range map[string]inode{"/f": {id: 1}, "/g": {id: 2}, "/d": {dir: true}, "/d/x": {id: 3}} {
		c.entries[name] = &e
	}
	for _, bad := range [][2]string{{"/f", "/d"}, {"/d", "/f"}, {"/d", "/d/e"}, {"/", "/r"}, {"/f", "/"}, {"/missing", "/h"}, {"/f", "/missing/h"}} {
		err := s.Rename(t.Context(), bad[0], bad[1])
		if class := store.ClassOf(err); class != store.Permanent && class != store.NotFound {
			t.Errorf("%s to %s: %v is %s", bad[0], bad[1], err, class)
		}
	}
	raced := 0
	c.fail = func(method, name string) error {
		if method == "rename2" && raced < 2 { // it appears just before
			raced++
			return exception("fs.FileAlreadyExistsException")
		}
		return nil
	}
	if err := s.Rename(t.Context(), "/f", "/new"); err != nil || raced != 2 {
		t.Fatal(err, raced)
	}
	if err := s.Rename(t.Context(), "/new", "/g"); err != nil || c.entries["/g"].id != 1 {
		t.Fatal(err)
	}
	if err := s.Rename(t.Context(), "/g", "/g"); err != nil {
		t.Fatal(err)
	}
}
