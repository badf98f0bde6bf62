package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// registryFiles gives a registry the files of a store.
type registryFiles struct{ store.Store }

// ListFiles implements hints.Files.
func (f registryFiles) ListFiles(ctx context.Context, dir string, each func(name string, modified time.Time)) error {
	infos, err := f.List(ctx, dir)
	for _, info := range infos {
		if !info.Dir {
			each(path.Base(info.Name), info.ModTime)
		}
	}
	return err
}

// ReadFile implements hints.Files.
func (f registryFiles) ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	return readFile(ctx, f.Store, name, limit)
}

// ReplaceFile implements hints.Files. The file beside may be left over from a process that was killed.
func (f registryFiles) ReplaceFile(ctx context.Context, name string, data []byte) error {
	beside := name + ".new"
	w, err := f.Create(ctx, beside)
	if errors.Is(err, fs.ErrExist) {
		if err := f.Remove(ctx, beside); err != nil {
			return err
		}
		w, err = f.Create(ctx, beside)
	}
	if err != nil {
		return fmt.Errorf("agent.ReplaceFile: %w", err)
	}
	_, err = w.Write(data)
	if err != nil {
		return fmt.Errorf("agent.ReplaceFile %s: %w", name, errors.Join(err, w.Abort()))
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("agent.ReplaceFile %s: %w", name, err)
	}
	return f.Rename(ctx, beside, name)
}

// RemoveFile implements hints.Files.
func (f registryFiles) RemoveFile(ctx context.Context, name string) error { return f.Remove(ctx, name) }
