package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/stepahead-io/stepahead/store"
)

var _ store.Claimer = (*Store)(nil)

// Claim implements store.Claimer: the name is a locked file that writers of files do not use, and the lock ends with the process.
func (s *Store) Claim(ctx context.Context, name string) (store.Claim, error) {
	if err := begin(ctx, name); err != nil {
		return nil, failed(s.root, "Claim", name, err)
	}
	folder := rel(path.Dir(name))
	if err := makeFolders(s.root, folder); err != nil {
		return nil, failed(s.root, "Claim", name, err)
	}
	c := &claim{root: s.root, name: name, temp: tempName(rel(name) + "\x00claim")}
	f, err := createTemp(s.root, c.temp)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w%s", err, holder(s.root, c.temp))
	}
	if err != nil {
		return nil, failed(s.root, "Claim", name, err)
	}
	c.f = f
	host, _ := os.Hostname()
	_, _ = fmt.Fprintf(f, "process %d on %s", os.Getpid(), host) // for people; on a disk that is full the lock alone must do, or nobody could make room
	sweep(s.root, folder)
	return c, nil
}

// holder says what the holder of a claim wrote into it.
func holder(root tree, temp string) string {
	f, err := root.Open(temp)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil || len(text) == 0 {
		return ""
	}
	return ": " + string(text)
}

// sweep removes what killed writers left in a folder.
func sweep(root tree, folder string) {
	entries, err := fs.ReadDir(root.FS(), folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			_ = removeDead(root, path.Join(folder, e.Name())) // what cannot be removed now stays for the next
		}
	}
}

// claim is a locked file.
type claim struct {
	root       tree
	name, temp string

	mu sync.Mutex
	f  *os.File // nil: released
}

func (c *claim) Held(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := ctx.Err()
	if err == nil && (c.f == nil || !sameFile(c.root, c.temp, c.f)) {
		err = store.ErrNotHeld
	}
	if err != nil {
		return failed(c.root, "Held", c.name, err)
	}
	return nil
}

func (c *claim) Release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.f == nil {
		return nil
	}
	var err error
	if sameFile(c.root, c.temp, c.f) {
		err = c.root.Remove(c.temp) // before the lock is given up
	}
	err = errors.Join(err, c.f.Close())
	c.f = nil
	if err != nil {
		return failed(c.root, "Release", c.name, err)
	}
	return nil
}
