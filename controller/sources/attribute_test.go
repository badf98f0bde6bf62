package sources

import (
	"errors"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// raise makes a placement of the means storage-type.
func (r *rig) raise(t *testing.T) controller.Placement {
	t.Helper()
	p := r.placement(t, plan.StorageType, 5)
	m := r.makers[plan.StorageType]
	var err error
	p.Fact, err = m.Fact(t.Context(), p.Make)
	must(t, err)
	_, err = m.Make(t.Context(), p, r.tools)
	must(t, err)
	return p
}

// TestMarkIsForged: a mark that says another thing than the file changes nothing of it; with the right one the placement is undone.
func TestMarkIsForged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 9, 9)
	put(t, c, 16)
	before := c.tree(t)
	r := newRig(t, &process{cluster: c})
	p := r.raise(t)
	right, err := temporary.Read(t.Context(), c, temporary.NameOf("c1", 7))
	must(t, err)
	forged := right
	forged.Was = &temporary.State{Replicas: 1, Policy: right.Was.Policy}
	must(t, temporary.Write(t.Context(), c, forged))
	raised := c.line(t)
	err = r.makers[plan.StorageType].Remove(t.Context(), p, r.tools)
	if !errors.Is(err, temporary.ErrMark) || !strings.Contains(err.Error(), `was: the mark says {"replicas":1`) {
		t.Errorf("%v", err)
	}
	if now := c.line(t); now != raised || len(r.restored) > 0 {
		t.Errorf("now\n%s\nwas\n%s\n%v", now, raised, r.restored)
	}
	must(t, temporary.Write(t.Context(), c, right))
	must(t, r.makers[plan.StorageType].Remove(t.Context(), p, r.tools))
	if now := c.tree(t); now != before {
		t.Errorf("in the end\n%s\nwas\n%s", now, before)
	}
}

// TestMarkIsGone: a placement whose mark somebody removed is undone by what the file says; so is the one that comes next, of a file that was left so.
func TestMarkIsGone(t *testing.T) {
	t.Parallel()
	for _, next := range []bool{false, true} {
		c := newCluster(t, 9, 9)
		put(t, c, 16)
		before := c.tree(t)
		r := newRig(t, &process{cluster: c})
		p := r.raise(t)
		must(t, temporary.Remove(t.Context(), c, temporary.NameOf("c1", 7)))
		m := r.makers[plan.StorageType]
		if next {
			p = r.placement(t, plan.StorageType, 5)
			p.Make.ID = 8
			var err error
			p.Fact, err = m.Fact(t.Context(), p.Make)
			must(t, err)
			_, err = m.Make(t.Context(), p, r.tools)
			must(t, err)
		}
		must(t, m.Remove(t.Context(), p, r.tools))
		if now := c.tree(t); now != before {
			t.Errorf("%v: now\n%s\nwas\n%s", next, now, before)
		}
	}
}

// TestRaisedOtherwise: a file that a placement raised is not raised to anything else by it before that is undone; one that another raised is left to that.
func TestRaisedOtherwise(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 9, 9)
	put(t, c, 16)
	before := c.tree(t)
	r := newRig(t, &process{cluster: c})
	p := r.raise(t)
	m := r.makers[plan.StorageType]
	other, line := p, c.line(t)
	other.Make.ID = 8
	if _, err := m.Make(t.Context(), other, r.tools); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if now := c.line(t); now != line {
		t.Errorf("now\n%s\nwas\n%s", now, line)
	}
	p.Make.Extra = 2
	if _, err := m.Make(t.Context(), p, r.tools); !errors.Is(err, temporary.ErrMark) {
		t.Errorf("%v", err)
	}
	if now := c.tree(t); now != before { // what failed is undone
		t.Errorf("now\n%s\nwas\n%s", now, before)
	}
}
