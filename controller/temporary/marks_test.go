package temporary

import (
	"context"
	"fmt"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// together opens no file, and removes none of a folder, before a number of them is to be.
type together struct {
	store.Store
	folder string
	many   sync.WaitGroup
}

func (s *together) meet(ctx context.Context) error {
	s.many.Done()
	met := make(chan struct{})
	go func() { s.many.Wait(); close(met) }()
	select {
	case <-met:
		return nil
	case <-ctx.Done():
		s.many.Add(1)
		return ctx.Err()
	}
}

func (s *together) Open(ctx context.Context, name string) (store.File, error) {
	if err := s.meet(ctx); err != nil {
		return nil, err
	}
	return s.Store.Open(ctx, name)
}

func (s *together) Remove(ctx context.Context, name string) error {
	if path.Dir(name) == s.folder {
		if err := s.meet(ctx); err != nil {
			return err
		}
	}
	return s.Store.Remove(ctx, name)
}

// TestDeletesAbreast: the files of a folder are deleted many at a time.
func TestDeletesAbreast(t *testing.T) {
	const n = 16
	d := newDisk(t)
	m := Mark{Version: Version, Controller: "c1", Placement: 7, Means: plan.Copy, Path: "store://home/ck", Identity: "x", Place: PlaceOf("c1", 7)}
	must(t, Write(t.Context(), d, m))
	for i := range n {
		storetest.Put(t, d, fmt.Sprint(m.Place, "/data/", i), []byte("x"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // where they are deleted one after the other
	defer cancel()
	s := &together{Store: d, folder: m.Place + "/data"}
	s.many.Add(n)
	if _, err := Undo(ctx, s, m, nil); err != nil {
		t.Fatal(err)
	}
	if some, err := Any(t.Context(), d); err != nil || some {
		t.Errorf("something is left: %v, %v", some, err)
	}
}

// TestListsAbreast: marks, and rows, are read many at a time, and come in the order of their names.
func TestListsAbreast(t *testing.T) {
	const n = 16
	d := newDisk(t)
	key, err := catalogue.NewKey("k", make([]byte, 32))
	must(t, err)
	for i := range n {
		must(t, Write(t.Context(), d, Mark{Version: Version, Controller: "c1", Placement: plan.ID(i + 10), Means: plan.Even, Path: hot, Identity: "x"}))
		must(t, catalogue.Write(t.Context(), d, key, catalogue.Row{
			Version: catalogue.Version, Placement: 1, Controller: "c1", Path: fmt.Sprint("/", i), Identity: "x", TTL: time.Hour, Sources: &catalogue.Sources{Size: 1, Readers: 2},
		}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // where they are read one after the other
	defer cancel()
	s := &together{Store: d}
	s.many.Add(n)
	found, err := List(ctx, s)
	if err != nil || len(found) != n {
		t.Fatalf("%d marks: %v", len(found), err)
	}
	for i, f := range found {
		if f.Err != nil || f.Mark.Placement != plan.ID(i+10) {
			t.Errorf("%d: %+v", i, f)
		}
	}
	s.many.Add(n)
	rows, err := catalogue.List(ctx, s, catalogue.Keys{})
	if err != nil || len(rows) != n {
		t.Errorf("%d rows: %v", len(rows), err)
	}
	cancel()
	if found, err := List(ctx, d); err == nil {
		t.Errorf("after the end %d marks are all", len(found))
	}
}
