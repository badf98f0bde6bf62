package store_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

func TestReadFile(t *testing.T) {
	s := newDir(t)
	storetest.Put(t, s, "/f", []byte("12345"))
	for limit, ok := range map[int64]bool{4: false, 5: true, 1 << 40: true} {
		data, err := store.ReadFile(t.Context(), s, "/f", limit)
		if ok && (err != nil || string(data) != "12345") || !ok && !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("limit %d: %q, %v", limit, data, err)
		}
	}
	if _, err := store.ReadFile(t.Context(), s, "/gone", 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// ReplaceFile leaves the old content or the new one, whatever fails, and goes on after a failure at any
// of its steps.
func TestReplaceFile(t *testing.T) {
	for _, fault := range []string{"create", "write", "close", "rename"} {
		t.Run(fault, func(t *testing.T) {
			inner := newDir(t)
			faults, err := store.ParseFaults("fail(op=" + fault + ", nth=2)")
			must(t, err)
			s := store.Faults(inner, faults)
			must(t, store.ReplaceFile(t.Context(), s, "/d/f", []byte("old")))
			if err := store.ReplaceFile(t.Context(), s, "/d/f", []byte("lost")); !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("with a fault: %v", err)
			}
			if got := storetest.Get(t, inner, "/d/f"); string(got) != "old" {
				t.Fatalf("after a fault: %q", got)
			}
			must(t, store.ReplaceFile(t.Context(), s, "/d/f", []byte("new")))
			infos, err := inner.List(t.Context(), "/d")
			if got := storetest.Get(t, inner, "/d/f"); err != nil || string(got) != "new" || len(infos) != 1 {
				t.Errorf("%q, %v, %v", got, infos, err)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	s := newDir(t)
	storetest.Put(t, s, "/d/b", []byte("22"))
	storetest.Put(t, s, "/d/a", []byte("1"))
	storetest.Put(t, s, "/d/folder/c", nil)
	f := store.Files{Store: s}
	var names []string
	must(t, f.ListFiles(t.Context(), "/d", func(base string, modified time.Time) {
		if modified.IsZero() {
			t.Errorf("%s has no time", base)
		}
		names = append(names, base)
	}))
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("listed %v", names)
	}
	if err := f.ListFiles(t.Context(), "/none", func(string, time.Time) {}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	must(t, f.RemoveFile(t.Context(), "/d/a"))
	if err := f.RemoveFile(t.Context(), "/d/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed twice: %v", err)
	}
}
