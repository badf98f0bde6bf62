package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// SetReplication implements store.Replicator. Factors above the number of nodes are kept and mean all nodes. Where nodes have types of storage, room of
// their own, or the file was placed by its writer, replicas come and go as in HDFS: new ones on the types that the file's storage policy asks for, and those
// that are too many go first from types that it does not ask for, then from the nodes with the least room.
func (s *Store) SetReplication(ctx context.Context, name string, n int) error {
	return s.own(ctx, "SetReplication", name, func(info fs.FileInfo) error {
		if n < 1 || n > math.MaxInt16 {
			return fmt.Errorf("%w: %d replicas: give 1 to %d", fs.ErrInvalid, n, math.MaxInt16)
		}
		if info.IsDir() {
			return syscall.EISDIR
		}
		set := func(c *sidecar) error { return s.replicate(c, info, n) }
		err := s.change(ctx, name, info, set)
		if errors.Is(err, errSidecar) { // whoever asks for replicas says what they are to be
			if err = s.dropSidecar(name); err == nil {
				err = s.change(ctx, name, info, set)
			}
		}
		return err
	})
}

func (s *Store) replicate(c *sidecar, info fs.FileInfo, n int) error {
	p := s.placing(c.name(), *c)
	c.Replication = n
	if c.Blocks == nil && !s.chosen() {
		return nil
	}
	effective, err := s.policy(c.name(), *c)
	if err != nil {
		return err
	}
	policy := storagePolicies[effective.Name]
	c.Blocks = p.texts(info.Size(), func(block int64) []replica {
		have := p.of(block)
		if n < len(have) {
			return s.layout.fewer(have, n, policy.excess(n, storagesOf(have)))
		}
		return s.layout.more(have, p.name, block, policy.missing(n, storagesOf(have)), policy.fallback, s.alive)
	})
	return nil
}

// chosen tells whether replicas come and go by what the nodes have, not by their names alone.
func (s *Store) chosen() bool {
	return s.layout.typed() || slices.ContainsFunc(s.topology.Nodes, func(n Node) bool { return n.FreeBytes > 0 })
}

// alive tells whether a node takes replicas.
func (s *Store) alive(node int) bool {
	_, err := os.Lstat(filepath.Join(s.root.Name(), downDir, s.topology.Nodes[node].Name))
	return err != nil
}
