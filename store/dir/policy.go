package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/stepahead-io/stepahead/store"
)

var _ store.StoragePolicer = (*Store)(nil)

// errNoTypes: nothing is simulated that policies could be about.
var errNoTypes = fmt.Errorf("%w: no node of the topology has types of storage", errors.ErrUnsupported)

// policy is the one in effect for a name with this sidecar.
func (s *Store) policy(name string, c sidecar) (store.StoragePolicy, error) {
	own := c.Policy != ""
	for c.Policy == "" && name != "/" {
		name = path.Dir(name)
		info, err := s.root.Stat(rel(name))
		if err == nil {
			c, err = s.sidecar(name, info)
		}
		if err != nil {
			return store.StoragePolicy{}, err
		}
	}
	if c.Policy == "" {
		c.Policy = usualPolicy
	}
	if _, ok := storagePolicies[c.Policy]; !ok {
		return store.StoragePolicy{}, fmt.Errorf("%s: storage_policy %q: known are %s", sidecarName(name), c.Policy, policyNames())
	}
	return store.StoragePolicy{Name: c.Policy, Own: own}, nil
}

// StoragePolicy implements store.StoragePolicer.
func (s *Store) StoragePolicy(ctx context.Context, name string) (p store.StoragePolicy, err error) {
	err = s.own(ctx, "StoragePolicy", name, func(info fs.FileInfo) error {
		if !s.layout.typed() {
			return errNoTypes
		}
		c, err := s.sidecar(name, info)
		if err == nil {
			p, err = s.policy(name, c)
		}
		return err
	})
	return p, err
}

// SetStoragePolicy implements store.StoragePolicer. Policies are those of HDFS: HOT, WARM, COLD, ONE_SSD and ALL_SSD.
func (s *Store) SetStoragePolicy(ctx context.Context, name, policy string) error {
	return s.own(ctx, "SetStoragePolicy", name, func(info fs.FileInfo) error {
		if !s.layout.typed() {
			return errNoTypes
		}
		if _, ok := storagePolicies[policy]; policy != "" && !ok {
			return fmt.Errorf("%w: storage policy %.64q: known are %s", fs.ErrInvalid, policy, policyNames())
		}
		return s.change(ctx, name, info, func(c *sidecar) error {
			c.Policy = policy
			return nil
		})
	})
}
