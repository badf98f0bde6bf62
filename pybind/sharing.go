package pybind

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/checkpoint/nodecache"
	"github.com/stepahead-io/stepahead/store"
)

// sharing is a store that gives files whose reads the processes of a host share.
type sharing struct {
	store.Store
	cache   *nodecache.Cache
	address string
}

// Open implements store.Store.
func (s sharing) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return shared{s.cache.File(s.address, s.Store.Address(name), f), f}, nil
}

// shared is a file whose own reads are shared, and the file itself.
type shared struct {
	store.File
	alone store.File
}

// Prefetch implements store.Prefetcher.
func (s sharing) Prefetch(ctx context.Context, names []string) error {
	if p, ok := s.Store.(store.Prefetcher); ok {
		return p.Prefetch(ctx, names)
	}
	return nil
}

// Forget implements store.Prefetcher.
func (s sharing) Forget(names []string) {
	if p, ok := s.Store.(store.Prefetcher); ok {
		p.Forget(names)
	}
}

// manyAtOnce is how many files ReadMany reads at a time.
const manyAtOnce = 32

// ReadMany implements store.ManyReader.
func (s sharing) ReadMany(ctx context.Context, files []store.FileRanges) error {
	var group errgroup.Group
	group.SetLimit(manyAtOnce)
	for i := range files {
		group.Go(func() error {
			files[i].Err = files[i].File.ReadRanges(ctx, files[i].Ranges)
			return nil
		})
	}
	_ = group.Wait() // files have the errors
	return ctx.Err()
}
