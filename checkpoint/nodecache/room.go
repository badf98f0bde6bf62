package nodecache

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxEntries bounds the entries: each time room is made all are looked at, some microseconds each.
const maxEntries = 4096

// makeRoom removes what killed processes left, entries whose lease is over, and the entries that were not asked for
// for longest, until n more bytes fit. false means that they do not. The caller is the exclusive one.
func (f *folder) makeRoom(n int64, o Options, now time.Time) (bool, error) {
	infos, err := f.list()
	if err != nil {
		return false, err
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	var total int64
	var entries []fs.FileInfo
	for _, i := range infos {
		switch name := i.Name(); {
		case strings.HasSuffix(name, entrySuffix) && now.Sub(i.ModTime()) > o.Lease:
			err = errors.Join(err, f.remove(name))
		case strings.HasSuffix(name, entrySuffix):
			entries = append(entries, i)
			total += i.Size()
		case strings.HasSuffix(name, draftSuffix) && !f.removeIfLeft(name):
			total += i.Size()
		case strings.HasSuffix(name, lockSuffix) && now.Sub(i.ModTime()) > o.Stale:
			f.removeIfLeft(name)
		}
	}
	for len(entries) > 0 && (total+n > o.MaxBytes || n > 0 && len(entries) >= maxEntries) {
		err = errors.Join(err, f.remove(entries[0].Name()))
		total -= entries[0].Size()
		entries = entries[1:]
	}
	return total+n <= o.MaxBytes, err
}

// list returns what is in the folder now.
func (f *folder) list() ([]fs.FileInfo, error) {
	d, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.ReadDir(-1)
	infos := make([]fs.FileInfo, 0, len(all))
	for _, e := range all {
		if i, err := e.Info(); err == nil { // else it was removed just now
			infos = append(infos, i)
		}
	}
	return infos, err
}

// remove removes a file that may be gone already.
func (f *folder) remove(name string) error {
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeIfLeft removes a file that its process locked while it lived, if none has it locked. It tells whether it is gone.
func (f *folder) removeIfLeft(name string) bool {
	file, err := f.open(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer file.Close()
	free, err := tryFlock(file, syscall.LOCK_EX)
	return err == nil && free && f.remove(name) == nil
}

// clear removes all entries and what was left of others.
func (f *folder) clear() error {
	unlock, err := f.exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	_, err = f.makeRoom(0, Options{MaxBytes: 0, Lease: -1, Stale: -1}, time.Now())
	return err
}
