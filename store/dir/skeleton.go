// Package dir knows a local folder as a store: it reads and writes real files, and simulates that
// their blocks lie on named nodes and racks.
package dir

import (
	"context"
	"errors"
	"os"

	"github.com/stepahead-io/stepahead/store"
)

// Options ...
type Options struct {
	// Node is the node that reads first from itself.
	Node string
}

// Store ...
type Store struct{ store.Store }

// Open ...
func Open(url string, o Options) (*Store, string, error) { return nil, "", errors.ErrUnsupported }

// Root returns the operating system's path of the store's root folder.
func (s *Store) Root() string { return "" }

func (s *Store) LocalPath(name string) (string, bool) { return "", false }
func (s *Store) BlockSize() int64                     { return 0 }
func (s *Store) SetReplication(ctx context.Context, name string, n int) error {
	return errors.ErrUnsupported
}
func replaceFile(r *os.Root, name string, data []byte) error { return errors.ErrUnsupported }
