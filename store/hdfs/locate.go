package hdfs

import (
	"context"

	"github.com/stepahead-io/stepahead/store"
)

// Locate implements store.Store. It asks the NameNode, except soon after Prefetch. The nodes of a striped block group are
// those of all its units: each holds a part of its bytes.
func (s *Store) Locate(ctx context.Context, name string, off, n int64) ([]store.Replica, error) {
	if err := s.begin(ctx, name); err != nil {
		return nil, s.failed("Locate", name, err)
	}
	blocks, err := s.locate(ctx, name, off, n)
	if err != nil {
		return nil, s.failed("Locate", name, err)
	}
	var rows []store.Replica
	for _, b := range blocks {
		for _, p := range s.reader.order(b, func(place) int { return fine }) {
			rows = append(rows, store.Replica{Node: p.node.id, Rack: p.node.rack, Addr: p.node.addr, Storage: p.storage, Off: b.off, Len: b.len})
		}
	}
	return rows, nil
}

func (s *Store) locate(ctx context.Context, name string, off, n int64) ([]*block, error) {
	l, fresh, err := s.open(ctx, s.path(name))
	if err != nil {
		return nil, err
	}
	if err := store.CheckRange(name, off, n, l.size); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, nil
	}
	if !fresh {
		if err := s.relearn(ctx, l, off, n); err != nil {
			return nil, err
		}
	}
	return s.blocksOf(ctx, l, off, n)
}

// relearn asks the NameNode for all blocks of [off, off+n), known or not.
func (s *Store) relearn(ctx context.Context, l *layout, off, n int64) error {
	if err := l.ask(ctx); err != nil {
		return err
	}
	defer l.asked()
	batch := l.batch()
	for at := off; at < off+n; at += batch {
		if err := s.fetch(ctx, l, at, min(batch, off+n-at)); err != nil {
			return err
		}
	}
	s.layouts.grew(l)
	return nil
}
