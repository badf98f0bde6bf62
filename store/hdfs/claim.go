package hdfs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

var _ store.Claimer = (*Store)(nil)

// Claim implements store.Claimer: the name is a file that is being written, without content, and its lease says that its holder
// lives.
func (s *Store) Claim(ctx context.Context, name string) (store.Claim, error) {
	err := s.change(ctx, name)
	var d *draft
	if err == nil {
		d, err = s.writes.claim(ctx, s.path(name))
	}
	if err != nil {
		return nil, s.failed("Claim", name, err)
	}
	return &claim{s: s, name: name, d: d}, nil
}

// claimName is the one file that a name is held by.
func claimName(name string) string {
	sum := sha256.Sum256([]byte(path.Base(name)))
	return path.Join(path.Dir(name), fmt.Sprintf("%sclaim-%x", tempPrefix, sum[:12]))
}

func (w *writing) claim(ctx context.Context, name string) (*draft, error) {
	d := &draft{output: &output{w: w, ctx: ctx, path: claimName(name), holder: "stepahead-" + w.newName()}, final: name}
	for range 10 { // each turn means that another process was between two of these steps
		status, err := d.grab()
		if err == nil {
			d.id = status.GetFileId()
			d.keep()
			w.sweepNow(ctx, path.Dir(name), status)
			return d, nil
		}
		var remote *namenode.RemoteError
		if errors.Is(err, namenode.ErrOutcomeUnknown) {
			return nil, errors.Join(err, d.clear())
		}
		recovering := errors.As(err, &remote) && strings.HasSuffix(remote.Class, ".RecoveryInProgressException")
		if !errors.Is(err, fs.ErrExist) && !recovering {
			return nil, err
		}
		if alive := w.removeDead(ctx, d.path, nil); alive != nil {
			return nil, fmt.Errorf("%w: %w", alive, err)
		}
	}
	return nil, fmt.Errorf("%w: others come and go", store.ErrUnavailable)
}

// grab makes the file, and its folder.
func (d *draft) grab() (*hproto.FileStatus, error) {
	s := shape{blockSize: 128 << 20, replicas: 1}
	status, err := d.begin(s)
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.w.names.Mkdirs(d.ctx, path.Dir(d.path), d.w.permissions(0o777), true); err == nil {
			status, err = d.begin(s)
		}
	}
	return status, err
}

// claim is a file that is held open.
type claim struct {
	s    *Store
	name string
	mu   sync.Mutex
	d    *draft // nil: released
}

func (c *claim) Held(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.held(ctx); err != nil {
		return c.s.failed("Held", c.name, err)
	}
	return nil
}

func (c *claim) held(ctx context.Context) error {
	if c.d == nil {
		return store.ErrNotHeld
	}
	status, err := c.s.writes.names.GetFileInfo(ctx, c.d.path)
	if err == nil && status.GetFileId() != c.d.id || errors.Is(err, fs.ErrNotExist) {
		return store.ErrNotHeld
	}
	return err
}

func (c *claim) Release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.d == nil {
		return nil
	}
	ctx, cancel := c.d.cleanContext()
	defer cancel()
	err := c.held(ctx)
	c.d.drop()
	if err == nil {
		err = c.d.abort()
	} else if errors.Is(err, store.ErrNotHeld) {
		err = nil // what is there now is another's
	}
	c.d = nil
	if err != nil {
		return c.s.failed("Release", c.name, err)
	}
	return nil
}
