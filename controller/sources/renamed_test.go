package sources

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

const movedFile = "/sets/moved"

// follower is a process at a store that finds files again: what leads to one is its identity, which renaming keeps.
type follower struct{ *process }

func (f follower) Track(ctx context.Context, name string) (string, error) {
	info, err := f.Stat(ctx, name)
	return string(info.Identity), err
}

func (f follower) Tracked(name, handle string) (store.Store, error) {
	return followed{f.process, name, byIdentity + handle}, nil
}

// followed is a store to which one name is the file with an identity.
type followed struct {
	*process
	name, file string
}

func (f followed) at(name string) string {
	if name == f.name {
		return f.file
	}
	return name
}

func (f followed) Stat(ctx context.Context, name string) (store.Info, error) {
	return f.process.Stat(ctx, f.at(name))
}

func (f followed) Attribute(ctx context.Context, name, attribute string) ([]byte, bool, error) {
	return f.process.Attribute(ctx, f.at(name), attribute)
}

func (f followed) SetAttribute(ctx context.Context, name, attribute string, value []byte) error {
	return f.process.SetAttribute(ctx, f.at(name), attribute, value)
}

func (f followed) StoragePolicy(ctx context.Context, name string) (store.StoragePolicy, error) {
	return f.process.StoragePolicy(ctx, f.at(name))
}

func (f followed) SetStoragePolicy(ctx context.Context, name, policy string) error {
	return f.process.SetStoragePolicy(ctx, f.at(name), policy)
}

func (f followed) SetReplication(ctx context.Context, name string, n int) error {
	return f.process.SetReplication(ctx, f.at(name), n)
}

// TestRenamedMeanwhile: a file that is renamed, or renamed and replaced, at any change of a making or an undoing is what it was, and what has its name by then is
// not touched, whoever undoes it.
func TestRenamedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, replaced := range []bool{false, true} {
		for at := 1; ; at++ {
			c := newCluster(t, 9, 9)
			put(t, c, 4)
			want := strings.ReplaceAll(c.tree(t), hotFile+" ", movedFile+" ")
			r := newRig(t, &process{cluster: c})
			var err error
			r.makers, err = New(Options{Stores: home{follower{r.process}}, Controller: "c1", Key: testKey(t), Clock: r.clock})
			must(t, err)
			p := r.placement(t, plan.StorageType, 2)
			n, other := 0, ""
			c.onDo = func(string) {
				if n++; n != at {
					return
				}
				must(t, c.Rename(t.Context(), hotFile, movedFile))
				if replaced {
					storetest.Put(t, c, hotFile, []byte("another"))
				}
				other = c.line(t)
			}
			err = r.whole(t.Context(), p, nil)
			c.onDo = nil
			if n < at {
				must(t, err)
				if at < 7 {
					t.Errorf("only %d changes: the test proves nothing", n)
				}
				break
			}
			p.Fact = r.fact
			if at%2 == 0 {
				must(t, r.makers[plan.StorageType].Remove(t.Context(), p, r.tools))
			}
			_, err = temporary.Sweep(t.Context(), follower{r.process}, temporary.SweepOptions{All: true})
			must(t, err)
			if now := c.line(t); now != other {
				t.Errorf("%v at %d, after %q: the other file is\n%s\nwas\n%s", replaced, at, r.log, now, other)
			}
			if replaced {
				must(t, c.Remove(t.Context(), hotFile))
			}
			if now := c.tree(t); now != want {
				t.Errorf("%v at %d, after %q: now\n%s\nwas\n%s", replaced, at, r.log, now, want)
			}
		}
	}
}

// TestSiblingFewer: where the cluster has no place for as many replicas as were asked for, those that it has are made and said, also by whoever makes it again; where
// it has none, nothing is left.
func TestSiblingFewer(t *testing.T) {
	t.Parallel()
	for _, most := range []int{0, 2, 1} {
		c := newCluster(t, 9, 9)
		c.most = most
		put(t, c, 16)
		before := c.tree(t)
		r := newRig(t, &process{cluster: c})
		p := r.placement(t, plan.Sibling, 6)
		m := r.makers[plan.Sibling]
		var err error
		p.Fact, err = m.Fact(t.Context(), p.Make)
		must(t, err)
		want := controller.Made{}
		if most > 0 {
			want.Short = 6 - most
		}
		for range 2 {
			if made, err := m.Make(t.Context(), p, r.tools); err != nil || made != want {
				t.Fatalf("at most %d: %+v, %v", most, made, err)
			}
		}
		found, size, err := find(t.Context(), r.process, temporary.PlaceOf("c1", 7))
		must(t, err)
		rows, err := r.Locate(t.Context(), found.Name, 0, size)
		if err != nil || len(rows) != 16*(6-want.Short) {
			t.Errorf("at most %d: %d replicas of 16 blocks, %v", most, len(rows), err)
		}
		must(t, errors.Join(m.Publish(t.Context(), p, r.tools), m.Withdraw(t.Context(), p, r.tools), m.Remove(t.Context(), p, r.tools)))
		if now := c.tree(t); now != before {
			t.Errorf("at most %d: now\n%s\nwas\n%s", most, now, before)
		}
	}
	c := newCluster(t, 3, 0) // all have the original
	put(t, c, 2)
	before := c.tree(t)
	r := newRig(t, &process{cluster: c})
	err := r.whole(t.Context(), r.placement(t, plan.Sibling, 1), nil)
	var known *controller.Error
	if !errors.As(err, &known) || known.Reason != plan.ReasonFailed || !errors.Is(err, store.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if now := c.tree(t); now != before {
		t.Errorf("now\n%s\nwas\n%s", now, before)
	}
}
