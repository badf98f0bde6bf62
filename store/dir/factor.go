package dir

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"syscall"
)

// sidecar keeps a file's own replication factor. Its name is the digest of the file's, so that no name
// is too long or collides with a folder.
type sidecar struct {
	Replication int    `json:"replication"`
	File        string `json:"file"` // for people only
}

func sidecarName(name string) string {
	return path.Join(factorDir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(name))))
}

// SetReplication implements store.Replicator. Factors above the number of nodes are kept and mean all
// nodes. The factor goes with the file's name: it follows a rename and ends with the file. The files of
// a renamed folder fall back to the default.
func (s *Store) SetReplication(ctx context.Context, name string, n int) error {
	if n < 1 || n > math.MaxInt16 {
		return failed(s.root, "SetReplication", name, fmt.Errorf("%w: %d replicas: give 1 to %d", fs.ErrInvalid, n, math.MaxInt16))
	}
	info, err := s.Stat(ctx, name)
	if err != nil {
		return failed(s.root, "SetReplication", name, err)
	}
	if info.Dir {
		return failed(s.root, "SetReplication", name, syscall.EISDIR)
	}
	s.factors.Lock()
	defer s.factors.Unlock()
	if now, err := s.factor(name); err == nil && now == n {
		return nil
	}
	data, err := json.Marshal(sidecar{Replication: n, File: name})
	if err != nil {
		return failed(s.root, "SetReplication", name, err)
	}
	if err := makeFolders(s.root, factorDir); err != nil {
		return failed(s.root, "SetReplication", name, err)
	}
	if err := replaceFile(s.root, sidecarName(name), append(data, '\n')); err != nil {
		return failed(s.root, "SetReplication", name, err)
	}
	return nil
}

// factor is the number of replicas that a file has.
func (s *Store) factor(name string) (int, error) {
	data, err := s.root.ReadFile(sidecarName(name))
	if errors.Is(err, fs.ErrNotExist) {
		return s.topology.Replication, nil
	}
	if err != nil {
		return 0, err
	}
	var c sidecar
	if err := json.Unmarshal(data, &c); err != nil || c.Replication < 1 {
		return 0, fmt.Errorf("%s: not a replication factor: remove the file to have the default again", sidecarName(name))
	}
	return c.Replication, nil
}

func (s *Store) moveFactor(from, to string) error {
	err := s.root.Rename(sidecarName(from), sidecarName(to))
	if errors.Is(err, fs.ErrNotExist) {
		return s.dropFactor(to)
	}
	return err
}

func (s *Store) dropFactor(name string) error {
	if err := s.root.Remove(sidecarName(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
