package temporary

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/store"
)

// atOnce is how many files of a folder are removed at a time.
const atOnce = 16

// RemovePlace removes a file or folder in DataFolder with all that is in it, and what killed writers left there. One that is not there is no error; anything else
// is refused. What others write there meanwhile keeps it from being removed: that is an error.
func RemovePlace(ctx context.Context, st store.Store, place string) error {
	if err := store.CheckName(place); err != nil {
		return err
	}
	if path.Dir(place) != DataFolder || strings.HasPrefix(path.Base(place), ".") {
		return fmt.Errorf("temporary.RemovePlace %s: it does not lie in %s: %w", st.Address(place), st.Address(DataFolder), fs.ErrInvalid)
	}
	return removeTree(ctx, st, place)
}

// removeTree removes a name first, and looks into it only where that is refused: so a link is removed, and not what it leads to.
func removeTree(ctx context.Context, st store.Store, name string) error {
	err := gone(st.Remove(ctx, name))
	if !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	infos, err := st.List(ctx, name)
	if err != nil {
		return gone(err)
	}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, info := range infos {
		if !info.Dir {
			g.Go(func() error { return gone(st.Remove(inner, info.Name)) })
		}
	}
	err = g.Wait()
	for _, info := range infos {
		if info.Dir && err == nil {
			err = removeTree(ctx, st, info.Name)
		}
	}
	if err != nil {
		return err
	}
	return gone(st.Remove(ctx, name))
}
