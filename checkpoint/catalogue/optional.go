package catalogue

import (
	"context"
	"errors"
	"fmt"

	"github.com/stepahead-io/stepahead/store"
)

// What a Store does not do itself it passes on, and answers for a store that cannot do it. It is no store.Localizer: whoever reads the original as a local file
// has no use for a copy.
var (
	_ store.ReadCounter    = (*Store)(nil)
	_ store.BlockSizer     = (*Store)(nil)
	_ store.Replicator     = (*Store)(nil)
	_ store.Replacer       = (*Store)(nil)
	_ store.PartsCreator   = (*Store)(nil)
	_ store.Claimer        = (*Store)(nil)
	_ store.FolderMaker    = (*Store)(nil)
	_ store.Attributer     = (*Store)(nil)
	_ store.StoragePolicer = (*Store)(nil)
	_ store.PlacedCreator  = (*Store)(nil)
	_ store.Protector      = (*Store)(nil)
	_ store.NodeLister     = (*Store)(nil)
	_ store.Tracker        = (*Store)(nil)
)

func (s *Store) unsupported(op, name string) error {
	return fmt.Errorf("%s %s: %w", op, s.Address(name), errors.ErrUnsupported)
}

// ReadStats implements store.ReadCounter.
func (s *Store) ReadStats() store.ReadStats {
	if c, ok := s.Store.(store.ReadCounter); ok {
		return c.ReadStats()
	}
	return store.ReadStats{}
}

// BlockSize implements store.BlockSizer.
func (s *Store) BlockSize() int64 {
	if b, ok := s.Store.(store.BlockSizer); ok {
		return b.BlockSize()
	}
	return 0
}

// SetReplication implements store.Replicator.
func (s *Store) SetReplication(ctx context.Context, name string, n int) error {
	if r, ok := s.Store.(store.Replicator); ok {
		return r.SetReplication(ctx, name, n)
	}
	return s.unsupported("SetReplication", name)
}

// Replace implements store.Replacer.
func (s *Store) Replace(ctx context.Context, name string, data []byte) error {
	return store.ReplaceFile(ctx, s.Store, name, data)
}

// CreateParts implements store.PartsCreator.
func (s *Store) CreateParts(ctx context.Context, name string) (store.PartsWriter, error) {
	return store.CreateParts(ctx, s.Store, name)
}

// Claim implements store.Claimer.
func (s *Store) Claim(ctx context.Context, name string) (store.Claim, error) {
	if c, ok := s.Store.(store.Claimer); ok {
		return c.Claim(ctx, name)
	}
	return nil, s.unsupported("Claim", name)
}

// MakeFolder implements store.FolderMaker.
func (s *Store) MakeFolder(ctx context.Context, name string) error {
	if m, ok := s.Store.(store.FolderMaker); ok {
		return m.MakeFolder(ctx, name)
	}
	return s.unsupported("MakeFolder", name)
}

// Attribute implements store.Attributer.
func (s *Store) Attribute(ctx context.Context, name, attribute string) ([]byte, bool, error) {
	if a, ok := s.Store.(store.Attributer); ok {
		return a.Attribute(ctx, name, attribute)
	}
	return nil, false, s.unsupported("Attribute", name)
}

// SetAttribute implements store.Attributer.
func (s *Store) SetAttribute(ctx context.Context, name, attribute string, value []byte) error {
	if a, ok := s.Store.(store.Attributer); ok {
		return a.SetAttribute(ctx, name, attribute, value)
	}
	return s.unsupported("SetAttribute", name)
}

// StoragePolicy implements store.StoragePolicer.
func (s *Store) StoragePolicy(ctx context.Context, name string) (store.StoragePolicy, error) {
	if p, ok := s.Store.(store.StoragePolicer); ok {
		return p.StoragePolicy(ctx, name)
	}
	return store.StoragePolicy{}, s.unsupported("StoragePolicy", name)
}

// SetStoragePolicy implements store.StoragePolicer.
func (s *Store) SetStoragePolicy(ctx context.Context, name, policy string) error {
	if p, ok := s.Store.(store.StoragePolicer); ok {
		return p.SetStoragePolicy(ctx, name, policy)
	}
	return s.unsupported("SetStoragePolicy", name)
}

// CreatePlaced implements store.PlacedCreator.
func (s *Store) CreatePlaced(ctx context.Context, name string, p store.Placement) (store.Writer, error) {
	if c, ok := s.Store.(store.PlacedCreator); ok {
		return c.CreatePlaced(ctx, name, p)
	}
	return nil, s.unsupported("CreatePlaced", name)
}

// Access implements store.Protector.
func (s *Store) Access(ctx context.Context, name string) (store.Access, error) {
	if p, ok := s.Store.(store.Protector); ok {
		return p.Access(ctx, name)
	}
	return store.Access{}, s.unsupported("Access", name)
}

// Protect implements store.Protector.
func (s *Store) Protect(ctx context.Context, name string, a store.Access) error {
	if p, ok := s.Store.(store.Protector); ok {
		return p.Protect(ctx, name, a)
	}
	return s.unsupported("Protect", name)
}

// Nodes implements store.NodeLister.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	if n, ok := s.Store.(store.NodeLister); ok {
		return n.Nodes(ctx)
	}
	return nil, s.unsupported("Nodes", "/")
}

// Track implements store.Tracker.
func (s *Store) Track(ctx context.Context, name string) (string, error) {
	if t, ok := s.Store.(store.Tracker); ok {
		return t.Track(ctx, name)
	}
	return "", s.unsupported("Track", name)
}

// Tracked implements store.Tracker; the store that it returns does not look into the catalogue.
func (s *Store) Tracked(name, handle string) (store.Store, error) {
	if t, ok := s.Store.(store.Tracker); ok {
		return t.Tracked(name, handle)
	}
	return nil, s.unsupported("Tracked", name)
}
