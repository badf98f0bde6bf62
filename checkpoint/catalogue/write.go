package catalogue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/store"
)

// Write puts a row into a store in one step, in the place of the one that its path has, if there is one. Writing it again renews it.
func Write(ctx context.Context, st store.Store, k Key, r Row) error {
	name := path.Join(Folder, NameOf(r.Path))
	data, err := encode(r, k)
	if err == nil {
		err = store.ReplaceFile(ctx, st, name, data)
	}
	if err != nil {
		return fmt.Errorf("catalogue.Write %s: %w", st.Address(name), err)
	}
	return nil
}

// Withdraw removes the row of a name (see [NameOf]), if it is that of a placement: one of a later placement stays. A row that is gone is no error.
// One that cannot be parsed, which no reader uses, is removed too.
func Withdraw(ctx context.Context, st store.Store, base, controller string, placement uint64) error {
	name := path.Join(Folder, base)
	err := withdraw(ctx, st, name, controller, placement)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("catalogue.Withdraw %s: %w", st.Address(name), err)
	}
	return nil
}

func withdraw(ctx context.Context, st store.Store, name, controller string, placement uint64) error {
	of, err := Of(ctx, st, name, controller, placement)
	if err != nil || !of {
		return err
	}
	return st.Remove(ctx, name)
}

// Of tells whether the row that has a name in a store is that of a placement, or cannot be parsed, so that no reader uses it: then it may be removed
// with the placement. It says nothing about the signature. A missing row matches fs.ErrNotExist.
func Of(ctx context.Context, st store.Store, name, controller string, placement uint64) (bool, error) {
	f, err := read(ctx, st, name)
	if errors.Is(err, ErrRow) {
		return true, nil
	}
	return err == nil && f.Row.Controller == controller && f.Row.Placement == placement, err
}

// read reads a row's file and checks all but the signature. What is no row matches ErrRow.
func read(ctx context.Context, st store.Store, name string) (rowFile, error) {
	f, err := st.Open(ctx, name)
	if err != nil {
		return rowFile{}, err
	}
	defer f.Close()
	if f.Size() > MaxRow {
		return rowFile{}, fmt.Errorf("%s: %w: %d bytes, at most %d", st.Address(name), ErrRow, f.Size(), MaxRow)
	}
	data := make([]byte, f.Size())
	if err := f.ReadRanges(ctx, []store.Range{{Buf: data}}); err != nil {
		return rowFile{}, err
	}
	parsed, err := decode(data)
	if err == nil && NameOf(parsed.Row.Path) != path.Base(name) {
		err = fmt.Errorf("%w: it is the row of %s", ErrRow, parsed.Row.Path)
	}
	if err != nil {
		return rowFile{}, fmt.Errorf("%s: %w", st.Address(name), err)
	}
	return parsed, nil
}

// Entry is a file of the catalogue.
type Entry struct {
	// Name is the base name, Key who signed.
	Name, Key string
	Row       Row
	// Left is how long the row holds, by the clock of the store; negative if it has expired.
	Left time.Duration
	// Err is why readers do not use it: it matches ErrRow, ErrSignature or ErrExpired, or is one of reading it. Row is empty unless it could be parsed.
	Err error
}

// ErrExpired is a row that was not renewed in time.
var ErrExpired = errors.New("the row has expired")

// List returns all rows of a store's catalogue, sorted by name, as a reader sees them who trusts keys; nil: the store's own. No folder is an empty
// list.
func List(ctx context.Context, st store.Store, keys Keys) ([]Entry, error) {
	l, err := list(ctx, st)
	if err == nil && keys == nil {
		keys, _, err = TrustedKeys(ctx, st)
	}
	if err != nil {
		return nil, fmt.Errorf("catalogue.List: %w", err)
	}
	entries := make([]Entry, len(l.order))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, base := range l.order {
		group.Go(func() error {
			if ctx.Err() == nil {
				entries[i] = l.entry(ctx, st, base, keys)
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("catalogue.List: %w", err)
	}
	return slices.DeleteFunc(entries, func(e Entry) bool { return errors.Is(e.Err, fs.ErrNotExist) }), nil // withdrawn meanwhile
}

// atOnce is how many rows are read at a time.
const atOnce = 16

// entry reads one row.
func (l listing) entry(ctx context.Context, st store.Store, base string, keys Keys) Entry {
	f, err := read(ctx, st, path.Join(Folder, base))
	e := Entry{Name: base, Key: f.Key, Row: f.Row, Err: err}
	if err == nil {
		e.Left = l.left(base, f.Row.TTL)
		e.Err = judge(f, keys, e.Left)
	}
	return e
}

// judge says why a row that could be parsed is not used.
func judge(f rowFile, keys Keys, left time.Duration) error {
	if err := f.verify(keys); err != nil {
		return err
	}
	if left < 0 {
		return fmt.Errorf("%w: it was not renewed within %s, by the clock of the store", ErrExpired, f.Row.TTL)
	}
	return nil
}

// listing is what a store's catalogue holds, and a time that its clock has passed.
type listing struct {
	rows   map[string]time.Time // when each was written, by base name
	order  []string             // sorted
	newest time.Time
}

// left is how long a row holds, at most: the clock of the store has passed newest.
func (l listing) left(base string, ttl time.Duration) time.Duration {
	return ttl - l.newest.Sub(l.rows[base])
}

// list asks a store. What is not there is an empty listing. The clock is read off what was changed last of the rows and of what lies beside the
// catalogue: agents renew their entries there.
func list(ctx context.Context, st store.Store) (listing, error) {
	l := listing{rows: map[string]time.Time{}}
	infos, err := st.List(ctx, path.Dir(Folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l, err
	}
	there := false
	for _, i := range infos {
		there = there || i.Name == Folder
		l.saw(i.ModTime)
	}
	if !there {
		return l, nil
	}
	infos, err = st.List(ctx, Folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l, err
	}
	for _, i := range infos {
		l.saw(i.ModTime)
		if base := path.Base(i.Name); !i.Dir && strings.HasSuffix(base, rowSuffix) {
			l.rows[base] = i.ModTime
			l.order = append(l.order, base)
		}
	}
	return l, nil
}

func (l *listing) saw(t time.Time) {
	if t.After(l.newest) {
		l.newest = t
	}
}
