package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
)

var _ store.Protector = (*Store)(nil)

// protection are the bits of a mode that are the store's business.
const protection = fs.ModePerm | fs.ModeSticky

// Access implements store.Protector. Owners and groups are numbers; access control lists are neither read nor set.
func (s *Store) Access(ctx context.Context, name string) (a store.Access, err error) {
	err = s.own(ctx, "Access", name, func(info fs.FileInfo) error {
		st := info.Sys().(*syscall.Stat_t)
		a = store.Access{Owner: number(st.Uid), Group: number(st.Gid), Mode: info.Mode() & protection}
		return nil
	})
	return a, err
}

func number(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// Protect implements store.Protector.
func (s *Store) Protect(ctx context.Context, name string, a store.Access) error {
	return s.own(ctx, "Protect", name, func(info fs.FileInfo) error {
		if len(a.ACL) > 0 {
			return fmt.Errorf("%w: access control lists", errors.ErrUnsupported)
		}
		st := info.Sys().(*syscall.Stat_t)
		uid, err := idOf(a.Owner, st.Uid)
		if err != nil {
			return fmt.Errorf("owner: %w", err)
		}
		gid, err := idOf(a.Group, st.Gid)
		if err != nil {
			return fmt.Errorf("group: %w", err)
		}
		if uid >= 0 || gid >= 0 { // first what may be refused
			if err := s.root.Chown(rel(name), uid, gid); err != nil {
				return err
			}
		}
		return s.root.Chmod(rel(name), a.Mode&protection)
	})
}

// idOf is the number of a user or group; -1 where it stays.
func idOf(text string, now uint32) (int, error) {
	if text == "" || text == number(now) {
		return -1, nil
	}
	id, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%w: %.64q: a folder's owners are numbers", fs.ErrInvalid, text)
	}
	return int(id), nil
}
