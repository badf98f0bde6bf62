package hdfs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// unspecifiedPolicy is the id of no policy: nobody has set one, for the file or for a folder above it.
const unspecifiedPolicy = 0

// StoragePolicy implements store.StoragePolicer. The NameNode tells the policy in effect, not where it comes from: Own is set where it is
// another than that of the folder which the file is in. One of its own that is the same as the folder's looks like one that is inherited.
func (s *Store) StoragePolicy(ctx context.Context, name string) (store.StoragePolicy, error) {
	return s.policyOf(ctx, name, s.path(name))
}

// policyOf is StoragePolicy of what has a path, and is called name.
func (s *Store) policyOf(ctx context.Context, name, path string) (p store.StoragePolicy, err error) {
	err = s.to(ctx, "StoragePolicy", name, func() error {
		p, err = s.storagePolicy(ctx, path)
		return err
	})
	return p, err
}

func (s *Store) storagePolicy(ctx context.Context, path string) (store.StoragePolicy, error) {
	status, err := s.status(ctx, path)
	if err != nil {
		return store.StoragePolicy{}, err
	}
	id, inherited := status.GetStoragePolicy(), uint32(unspecifiedPolicy)
	if path != "/" {
		folder, err := s.status(ctx, folderOf(path))
		if err != nil {
			return store.StoragePolicy{}, err
		}
		inherited = folder.GetStoragePolicy()
	}
	policy, err := s.policyName(ctx, id)
	return store.StoragePolicy{Name: policy, Own: id != inherited}, err
}

// policyName is what people call the policy of an id.
func (s *Store) policyName(ctx context.Context, id uint32) (string, error) {
	if id == unspecifiedPolicy {
		d, err := s.writes.serverDefaults(ctx)
		if err != nil {
			return "", err
		}
		if id = d.GetPolicyId(); id == unspecifiedPolicy {
			return "HOT", nil // what it was before NameNodes told
		}
	}
	known, err := s.places.GetStoragePolicies(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range known {
		if p.GetPolicyId() == id {
			return p.GetName(), nil
		}
	}
	return "", fmt.Errorf("%w: the NameNode has no name for storage policy %d", errors.ErrUnsupported, id)
}

// SetStoragePolicy implements store.StoragePolicer. It takes the right to write the file, or to be a superuser where the cluster says so
// (dfs.storage.policy.permissions.superuser-only).
func (s *Store) SetStoragePolicy(ctx context.Context, name, policy string) error {
	return s.setPolicy(ctx, name, s.path(name), policy)
}

func (s *Store) setPolicy(ctx context.Context, name, path, policy string) error {
	return s.to(ctx, "SetStoragePolicy", name, func() error {
		if policy == "" {
			return policyError(s.places.UnsetStoragePolicy(ctx, path))
		}
		return policyError(s.places.SetStoragePolicy(ctx, path, policy))
	})
}

// policyError recognises a cluster without storage policies.
func policyError(err error) error {
	var remote *namenode.RemoteError
	if errors.As(err, &remote) && strings.Contains(remote.Message, "dfs.storage.policy.enabled is set to false") {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}
