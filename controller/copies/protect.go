package copies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// atOnce bounds the calls about single files of the site that are under way at a time, and asksAtOnce those about the original's, which are small and have a long way.
const (
	atOnce     = 16
	asksAtOnce = 64
)

// readersAt asks a store who may read a whole checkpoint. ok is false where it cannot tell.
func readersAt(ctx context.Context, st store.Store, c *checkpoint.Checkpoint) (a store.Access, ok bool, err error) {
	p, can := st.(store.Protector)
	if !can {
		return store.Access{}, false, nil
	}
	var names []string
	for _, f := range c.Files {
		names = append(names, f.Name)
	}
	var above, inside, files []string
	for dir := c.Path; dir != "/"; {
		dir = path.Dir(dir)
		above = append(above, dir)
	}
	bits := enters
	if c.Single() {
		bits = reads
	} else {
		inside = foldersOf(c.Path, names)[1:]
		for _, name := range names {
			files = append(files, path.Join(c.Path, name))
		}
	}
	all, err := accesses(ctx, p, slices.Concat([]string{c.Path}, above, inside, files))
	if errors.Is(err, errors.ErrUnsupported) {
		return store.Access{}, false, nil
	}
	if err != nil {
		return store.Access{}, false, err
	}
	n, m := 1+len(above), 1+len(above)+len(inside)
	a, ok = readersOf(all[0], bits, all[1:n], all[n:m], all[m:])
	return a, ok, nil
}

// accesses asks for those of many files and folders.
func accesses(ctx context.Context, p store.Protector, names []string) ([]store.Access, error) {
	all := make([]store.Access, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(asksAtOnce)
	for i, name := range names {
		g.Go(func() (err error) {
			all[i], err = p.Access(ctx, name)
			return err
		})
	}
	return all, g.Wait()
}

// protector is that of a site. Without one nothing is copied: nobody could be kept out.
func protector(st store.Store) (store.Protector, error) {
	p, ok := st.(store.Protector)
	if !ok {
		return nil, fmt.Errorf("%s cannot keep anybody from reading a copy: %w", st.Address("/"), errors.ErrUnsupported)
	}
	return p, nil
}

// letIn gives a folder the readers of the source, or fewer: the first of the offers that the store takes.
func letIn(ctx context.Context, st store.Store, place string, all []store.Access, fence func(context.Context) error) error {
	p, err := protector(st)
	if err != nil {
		return err
	}
	for _, a := range all {
		err = temporary.Change(ctx, fence, func(ctx context.Context) error { return p.Protect(ctx, place, a) })
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) {
			continue
		}
		if err != nil {
			return err
		}
		return isAs(ctx, st, p, place, a)
	}
	return err
}

// isAs finds out whether a folder lets in no more than it was to: there are lists that new folders get by themselves, and masks.
func isAs(ctx context.Context, st store.Store, p store.Protector, place string, a store.Access) error {
	now, err := p.Access(ctx, place)
	if err != nil {
		return err
	}
	if now.Mode&0o777&^a.Mode != 0 || !slices.Equal(accessEntries(now.ACL), accessEntries(a.ACL)) || a.Owner != "" && now.Owner != a.Owner || a.Group != "" && now.Group != a.Group {
		return fmt.Errorf("%s was to have the access %v and has %v: %w", st.Address(place), a, now, store.ErrUnavailable)
	}
	return nil
}
