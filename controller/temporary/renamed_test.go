package temporary

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// follower is a process at a store that finds files again: what leads to one is its identity, which renaming keeps.
type follower struct {
	*process
	refuse error // of Track
}

func (f follower) Track(ctx context.Context, name string) (string, error) {
	if f.refuse != nil {
		return "", f.refuse
	}
	id, err := f.identity(ctx, name)
	return string(id), err
}

func (f follower) Tracked(name, handle string) (store.Store, error) {
	if !strings.HasPrefix(handle, "dir:") {
		return nil, fmt.Errorf("%w: %q", fs.ErrInvalid, handle)
	}
	return followed{f.process, name, handle}, nil
}

// followed is a store to which one name is the file with an identity.
type followed struct {
	*process
	name, handle string
}

// at is what a name is called.
func (f followed) at(ctx context.Context, name string) (string, error) {
	if name != f.name {
		return name, nil
	}
	folders := []string{"/"}
	for len(folders) > 0 {
		infos, err := f.List(ctx, folders[0])
		if err != nil {
			return "", err
		}
		folders = folders[1:]
		for _, i := range infos {
			switch {
			case i.Dir:
				folders = append(folders, i.Name)
			case string(i.Identity) == f.handle:
				return i.Name, nil
			}
		}
	}
	return "", fmt.Errorf("%s: %w", f.handle, fs.ErrNotExist)
}

func (f followed) Stat(ctx context.Context, name string) (store.Info, error) {
	at, err := f.at(ctx, name)
	if err != nil {
		return store.Info{}, err
	}
	return f.process.Stat(ctx, at)
}

func (f followed) Attribute(ctx context.Context, name, attribute string) ([]byte, bool, error) {
	at, err := f.at(ctx, name)
	if err != nil {
		return nil, false, err
	}
	return f.process.Attribute(ctx, at, attribute)
}

func (f followed) SetAttribute(ctx context.Context, name, attribute string, value []byte) error {
	at, err := f.at(ctx, name)
	return errors.Join(err, f.process.SetAttribute(ctx, at, attribute, value))
}

func (f followed) StoragePolicy(ctx context.Context, name string) (store.StoragePolicy, error) {
	at, err := f.at(ctx, name)
	if err != nil {
		return store.StoragePolicy{}, err
	}
	return f.process.StoragePolicy(ctx, at)
}

func (f followed) SetStoragePolicy(ctx context.Context, name, policy string) error {
	at, err := f.at(ctx, name)
	return errors.Join(err, f.process.SetStoragePolicy(ctx, at, policy))
}

func (f followed) SetReplication(ctx context.Context, name string, n int) error {
	at, err := f.at(ctx, name)
	return errors.Join(err, f.process.SetReplication(ctx, at, n))
}

const elsewhere = "/sets/elsewhere"

// TestRenamed: a raised file that was renamed is what it was, whatever lies at its old path by then and wherever whoever undoes it is killed; nothing else is
// touched. A store that cannot follow a file leaves it.
func TestRenamed(t *testing.T) {
	t.Parallel()
	nothing := func(*testing.T, *process) {}
	for _, test := range []struct {
		name string
		puts func(*testing.T, *process) // at the old path
	}{
		{"nothing", nothing},
		{"a file", func(t *testing.T, p *process) { storetest.Put(t, p.disk, hot, []byte("another")) }},
		{"a folder", func(t *testing.T, p *process) { must(t, p.MakeFolder(t.Context(), hot)) }},
		{"a raised file", func(t *testing.T, p *process) {
			storetest.Put(t, p.disk, hot, []byte("another"))
			m := fileMark()
			m.Placement = 8
			must(t, p.SetAttribute(t.Context(), hot, Attribute, []byte(valueOf(t, m))))
		}},
	} {
		for dies := range 6 {
			d, _ := prepared(t)
			p := &process{disk: d}
			m := fileMark()
			id, err := p.identity(t.Context(), hot)
			must(t, err)
			m.File = string(id)
			must(t, d.Rename(t.Context(), hot, elsewhere))
			test.puts(t, p)
			want := d.tree(t)
			must(t, p.raiseAt(t, m, elsewhere))
			if dies == 0 {
				todo, err := Preview(t.Context(), follower{process: p}, m)
				if text := strings.Join(todo, "\n"); err != nil || strings.Count(text, "was renamed") != 1 || strings.Count(text, "replication 3") != 1 {
					t.Errorf("%s: %q, %v", test.name, todo, err)
				}
			}
			_, err = Undo(t.Context(), follower{process: &process{disk: d, dies: dies, after: dies%2 == 0}}, m, nil)
			if err != nil && !errors.Is(err, errKilled) {
				t.Errorf("%s: %v", test.name, err)
			}
			if _, err := Sweep(t.Context(), follower{process: &process{disk: d}}, SweepOptions{All: true}); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			if now := d.tree(t); now != want {
				t.Errorf("%s: killed at %d: now\n%s\nwas\n%s", test.name, dies, now, want)
			}
		}
	}
}

// raiseAt is raise of a file that has another name than its mark says.
func (p *process) raiseAt(t *testing.T, m Mark, name string) error {
	return errors.Join(
		Write(t.Context(), p, m), p.SetAttribute(t.Context(), name, Attribute, []byte(valueOf(t, m))),
		p.SetStoragePolicy(t.Context(), name, m.Raised.Policy.Name), p.SetReplication(t.Context(), name, m.Raised.Replicas),
	)
}

// TestNotFollowed: what is not found is not there any more; what cannot be asked is not taken for that, and a handle of another store is none.
func TestNotFollowed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		spoil  func(*testing.T, *disk, *Mark)
		refuse error
		want   error
		says   string
	}{
		{"deleted", func(t *testing.T, d *disk, _ *Mark) { must(t, d.Remove(t.Context(), elsewhere)) }, nil, nil, "is not there any more"},
		{"another store's handle", func(_ *testing.T, _ *disk, m *Mark) { m.File = "5" }, nil, nil, "is not there any more"},
		{"a store that cannot", func(*testing.T, *disk, *Mark) {}, errors.ErrUnsupported, nil, "is not there any more"},
		{"a store that does not answer", func(*testing.T, *disk, *Mark) {}, store.ErrUnavailable, store.ErrUnavailable, ""},
		{"a forged mark", func(_ *testing.T, _ *disk, m *Mark) { m.Was.Replicas = 1 }, nil, ErrMark, ""},
		{"the handle of another file", func(t *testing.T, d *disk, m *Mark) {
			storetest.Put(t, d, "/sets/theirs", []byte("theirs, not raised"))
			info, err := d.Stat(t.Context(), "/sets/theirs")
			must(t, err)
			m.File = string(info.Identity)
		}, nil, nil, "left alone"},
	} {
		d, _ := prepared(t)
		p := &process{disk: d}
		m := fileMark()
		id, err := p.identity(t.Context(), hot)
		must(t, err)
		m.File = string(id)
		must(t, p.raise(t, m))
		must(t, d.Rename(t.Context(), hot, elsewhere))
		test.spoil(t, d, &m)
		must(t, Write(t.Context(), d, m))
		before := d.tree(t)
		done, err := Undo(t.Context(), follower{p, test.refuse}, m, nil)
		if !errors.Is(err, test.want) || !strings.Contains(strings.Join(done, "\n"), test.says) {
			t.Errorf("%s: %q, %v", test.name, done, err)
		}
		if test.want != nil && d.tree(t) != before {
			t.Errorf("%s: now\n%s\nwas\n%s", test.name, d.tree(t), before)
		}
		if left, err := List(t.Context(), d); err != nil || len(left) > 0 != (test.want != nil) {
			t.Errorf("%s: %v, %v", test.name, left, err)
		}
	}
}
