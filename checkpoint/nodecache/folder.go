package nodecache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The names in the folder. Those of entries begin with a digest.
const (
	usersName   = "users"   // locked together by all who have the folder open
	managerName = "manager" // locked by the one who makes room
	entrySuffix = ".bytes"  // an entry
	draftSuffix = ".draft"  // an entry that is being written, locked by its writer
	lockSuffix  = ".lock"   // locked by the one who reads for all
	openFlags   = os.O_RDWR | os.O_CREATE | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	lockWithin  = 2 * time.Second // how long the manager's work may keep others waiting
	lockEvery   = time.Millisecond
)

// errHostile: a folder or file is not what this package makes.
var errHostile = errors.New("not safe to use")

// folder is the folder of the shared files. Nothing outside it is reached through it.
type folder struct {
	root *os.Root
	path string
}

// openFolder opens the folder, and makes it if it is missing.
func openFolder(path string) (*folder, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	if err := checkFolder(root, path); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &folder{root: root, path: path}, nil
}

func checkFolder(root *os.Root, path string) error {
	opened, err := root.Stat(".")
	if err != nil {
		return err
	}
	named, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !named.IsDir() || !os.SameFile(opened, named):
		return fmt.Errorf("%w: %s is a link: give the folder itself", errHostile, path)
	}
	if why := ours(opened); why != "" {
		return fmt.Errorf("%w: %s %s: remove it, or give another folder", errHostile, path, why)
	}
	return nil
}

// ours tells what is wrong with who may use a file.
func ours(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(stat.Uid) != os.Geteuid():
		return "belongs to another user"
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Sprintf("can be used by others (%s)", info.Mode().Perm())
	}
	return ""
}

func (f *folder) Close() error { return f.root.Close() }

// open opens a file of the folder. One that is not a file, that is another user's, or that has a second name is refused.
func (f *folder) open(name string, flags int) (*os.File, error) {
	file, err := f.root.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.check(name, file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (f *folder) check(name string, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	why := ours(info)
	stat, ok := info.Sys().(*syscall.Stat_t)
	named, err := f.root.Lstat(name)
	switch {
	case !info.Mode().IsRegular():
		why = "is not a file but " + info.Mode().Type().String()
	case err == nil && named.Mode().Type() == fs.ModeSymlink:
		why = "is a link"
	case ok && stat.Nlink > 1:
		why = "has a second name"
	}
	if why != "" {
		return fmt.Errorf("%w: %s %s", errHostile, filepath.Join(f.path, name), why)
	}
	return nil
}

// leadsTo tells whether a name still is that of an open file.
func (f *folder) leadsTo(name string, file *os.File) bool {
	a, errA := f.root.Lstat(name)
	b, errB := file.Stat()
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// tryFlock locks an open file, until it is closed or its process ends. false means that another has it.
func tryFlock(file *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("locking %s: %w", file.Name(), err)
		}
	}
}

// flockSoon is tryFlock again and again for lockWithin.
func flockSoon(file *os.File, how int) error {
	for end := time.Now().Add(lockWithin); ; time.Sleep(lockEvery) {
		ok, err := tryFlock(file, how)
		if ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("locking %s: not free within %v: %w", file.Name(), lockWithin, os.ErrDeadlineExceeded)
		}
	}
}

// exclusive makes the caller the one who makes room, until it calls unlock.
func (f *folder) exclusive() (unlock func(), err error) {
	file, err := f.open(managerName, openFlags)
	if err != nil {
		return nil, err
	}
	if err := flockSoon(file, syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { file.Close() }, nil
}

// join notes that this process uses the folder.
func (f *folder) join() (*os.File, error) {
	users, err := f.open(usersName, openFlags)
	if err != nil {
		return nil, err
	}
	if err := flockSoon(users, syscall.LOCK_SH); err != nil {
		return nil, errors.Join(err, users.Close())
	}
	return users, nil
}

// leave is the opposite of join. The last one removes all entries; the folder and its own locks stay.
func (f *folder) leave(users *os.File) error {
	alone, err := tryFlock(users, syscall.LOCK_EX)
	if alone {
		err = f.clear()
	}
	return errors.Join(err, users.Close())
}
