package temporary

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/store"
)

// Undo undoes everything that a mark says, and removes the mark when nothing is left: the row is withdrawn, the file has its storage policy and then its
// replication again, the data are deleted, the file's attribute goes. It may be called again after it was cut off anywhere, and by others. It returns what it
// did, for people, also beside an error. fence is called before each change of the world; nil for none.
//
// A file is touched only while it has the attribute, which goes with the file and not with its name: one that was deleted or replaced meanwhile is left
// alone. One that was renamed is found in a store that can (store.Tracker). A storage policy or a replication that is neither what it was nor what the placement made of it was given to the
// file by somebody else, and stays. What the file was, and what was made of it, is what its attribute says: a mark that says something else is refused, as is an
// attribute that is not the controller's, and nothing is changed.
func Undo(ctx context.Context, st store.Store, m Mark, fence func(context.Context) error) (done []string, err error) {
	return undo(ctx, st, m, func(ctx context.Context, do func(context.Context) error) error { return Change(ctx, fence, do) })
}

// Preview returns what Undo would do, and changes nothing.
func Preview(ctx context.Context, st store.Store, m Mark) (todo []string, err error) {
	return undo(ctx, st, m, func(context.Context, func(context.Context) error) error { return nil })
}

func undo(ctx context.Context, st store.Store, m Mark, change func(context.Context, func(context.Context) error) error) ([]string, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("temporary.Undo %s: %w: %w", st.Address(m.Name()), ErrMark, err)
	}
	u := &undoing{st: st, m: m, change: change}
	for _, step := range []func(context.Context) error{u.check, u.row, u.file, u.data, u.mark} {
		if err := step(ctx); err != nil {
			return u.done, fmt.Errorf("temporary.Undo %s: %w", st.Address(m.Name()), err)
		}
	}
	return u.done, nil
}

// undoing is one Undo or Preview.
type undoing struct {
	st     store.Store
	m      Mark
	change func(context.Context, func(context.Context) error) error
	done   []string
}

// note adds a line to what was done.
func (u *undoing) note(format string, args ...any) {
	u.done = append(u.done, fmt.Sprintf(format, args...))
}

// check refuses a mark that is not the one of its file, before anything is changed.
func (u *undoing) check(ctx context.Context) error {
	if u.m.Was == nil {
		return nil
	}
	_, err := u.raised(ctx, func(store.Store, bool, Mark) error { return nil })
	return err
}

// raised calls do for each file that says of itself that this placement raised it: the one at the path of the mark, and the one that was raised, if it was renamed.
// Two there are where one was copied with its attribute. some is set if there is any file at all.
func (u *undoing) raised(ctx context.Context, do func(st store.Store, renamed bool, file Mark) error) (some bool, err error) {
	places, err := Places(ctx, u.st, u.m)
	if err != nil {
		return false, err
	}
	for i, st := range places {
		file, ok, err := Raised(ctx, st, u.m.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		some = true
		if err == nil && ok && file.Name() == u.m.Name() {
			err = u.m.Agrees(file)
			if err == nil {
				err = do(st, i > 0, file)
			}
		}
		if err != nil {
			return some, err
		}
	}
	return some, nil
}

// row withdraws the row, with what a killed process left beside it (see store.ReplaceFile).
func (u *undoing) row(ctx context.Context) error {
	if u.m.Row == "" {
		return nil
	}
	if err := u.remove(ctx, u.m.Row+beside); err != nil {
		return err
	}
	ours, err := rowIsOf(ctx, u.st, u.m)
	if err != nil || !ours {
		return err
	}
	u.note("withdrew %s", u.st.Address(u.m.Row))
	return u.remove(ctx, u.m.Row)
}

// remove removes one file or empty folder.
func (u *undoing) remove(ctx context.Context, name string) error {
	err := u.change(ctx, func(ctx context.Context) error { return u.st.Remove(ctx, name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// file gives the file back what it had. Between any two steps it still has the attribute, so that they are taken again.
func (u *undoing) file(ctx context.Context) error {
	if u.m.Was == nil {
		return nil
	}
	restored := false
	some, err := u.raised(ctx, func(st store.Store, renamed bool, file Mark) error {
		restored = true
		if renamed {
			u.note("%s was renamed, and was found", st.Address(file.Path))
		}
		err := u.restore(ctx, st, file)
		if errors.Is(err, fs.ErrNotExist) {
			u.note("%s is not there any more", st.Address(file.Path))
			return nil
		}
		return err
	})
	switch {
	case err != nil || restored:
		return err
	case some:
		u.note("%s is not raised by this placement, and was left alone", u.st.Address(u.m.Path))
	default:
		u.note("%s is not there any more", u.st.Address(u.m.Path))
	}
	return nil
}

func (u *undoing) restore(ctx context.Context, st store.Store, file Mark) error {
	if err := u.policy(ctx, st, file); err != nil { // first: with the other policy in force, lowering would remove the original replicas
		return err
	}
	if err := u.replication(ctx, st, file); err != nil {
		return err
	}
	return u.change(ctx, func(ctx context.Context) error {
		return st.(store.Attributer).SetAttribute(ctx, file.Path, Attribute, nil) // it is one: it has told the attribute
	})
}

func (u *undoing) policy(ctx context.Context, st store.Store, file Mark) error {
	if file.Was.Policy == nil {
		return nil
	}
	policies, ok := st.(store.StoragePolicer)
	if !ok {
		return fmt.Errorf("%s: this store has no storage policies: %w", st.Address(file.Path), errors.ErrUnsupported)
	}
	now, err := policies.StoragePolicy(ctx, file.Path)
	if err != nil {
		return err
	}
	was := *file.Was.Policy
	switch {
	case now == was:
		return nil
	case now.Name != file.Raised.Policy.Name:
		u.note("%s: its storage policy is %s, given by somebody else, and stays", st.Address(file.Path), now.Name)
		return nil
	}
	own := "" // it inherits again
	if was.Own {
		own = was.Name
	}
	u.note("%s: storage policy %s again", st.Address(file.Path), was.Name)
	return u.change(ctx, func(ctx context.Context) error { return policies.SetStoragePolicy(ctx, file.Path, own) })
}

func (u *undoing) replication(ctx context.Context, st store.Store, file Mark) error {
	replicator, ok := st.(store.Replicator)
	if !ok {
		return fmt.Errorf("%s: this store has no replicas: %w", st.Address(file.Path), errors.ErrUnsupported)
	}
	info, err := st.Stat(ctx, file.Path)
	if err != nil {
		return err
	}
	switch info.Replicas {
	case file.Was.Replicas:
		return nil
	case file.Raised.Replicas:
	case 0:
		return fmt.Errorf("%w: %s: the store does not tell its replication", store.ErrUnavailable, st.Address(file.Path))
	default:
		u.note("%s: its replication is %d, given by somebody else, and stays", st.Address(file.Path), info.Replicas)
		return nil
	}
	u.note("%s: replication %d again, from %d", st.Address(file.Path), file.Was.Replicas, info.Replicas)
	return u.change(ctx, func(ctx context.Context) error { return replicator.SetReplication(ctx, file.Path, file.Was.Replicas) })
}

// maxDepth bounds the folders in folders of data.
const maxDepth = 64

// data deletes the place.
func (u *undoing) data(ctx context.Context) error {
	if u.m.Place == "" {
		return nil
	}
	if _, err := u.st.Stat(ctx, u.m.Place); err == nil {
		u.note("deleted %s", u.st.Address(u.m.Place))
	}
	return u.delete(ctx, u.m.Place, 0)
}

// delete removes a file, or a folder with all that is in it, its files abreast: the store may be far away. What has the name is removed before anything is looked for behind it: of a symbolic link only
// the link goes.
func (u *undoing) delete(ctx context.Context, name string, depth int) error {
	if !strings.HasPrefix(name, DataFolder+"/") || depth > maxDepth {
		return fmt.Errorf("%w: %s does not lie in %s, or too deep", store.ErrName, u.st.Address(name), DataFolder)
	}
	err := u.remove(ctx, name)
	if !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	children, err := u.st.List(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	group, abreast := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, c := range children {
		if !c.Dir {
			group.Go(func() error { return u.delete(abreast, c.Name, depth+1) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, c := range children {
		if !c.Dir {
			continue
		}
		if err := u.delete(ctx, c.Name, depth+1); err != nil {
			return err
		}
	}
	return u.remove(ctx, name)
}

// mark removes the mark, with what a killed process left beside it.
func (u *undoing) mark(ctx context.Context) error {
	if err := u.remove(ctx, u.m.Name()+beside); err != nil {
		return err
	}
	return u.remove(ctx, u.m.Name())
}
