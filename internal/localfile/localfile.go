// Package localfile reads and writes the small files of this host that programs are given by name, or keep: what is read is a regular file, so that no program
// waits for a pipe, and what is written is durable, and never there by half.
package localfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

var (
	// ErrNotRegular: the name leads to a folder, a pipe, a socket or a device. Reading one of these could wait for ever.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge: the file has more bytes than such files have.
	ErrTooLarge = errors.New("too large")
)

// Open opens a file for reading. Links are followed; an error that matches [ErrNotRegular] says that they lead to no file. Nothing is waited for.
func Open(name string) (*os.File, error) { return OpenFile(name, os.O_RDONLY, 0) }

// OpenFile is [os.OpenFile] of what is a regular file, or is made one. See [Open].
func OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	if err := Check(name); err != nil { // opening some devices does something
		return nil, err
	}
	f, err := os.OpenFile(name, flag|syscall.O_NONBLOCK, mode) // the name may lead to a pipe by now
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func notRegular(name string, info fs.FileInfo) error {
	return fmt.Errorf("%s: it is %s, %w: give a file, or a link to one", name, kind(info.Mode()), ErrNotRegular)
}

// kind names what is no regular file.
func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return m.Type().String()
}

// Check returns nil if the name leads to a regular file, or to nothing, else an error that matches [ErrNotRegular].
func Check(name string) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return notRegular(name, info)
	}
	return nil
}

// Read returns the content of a file of at most limit bytes. Errors name the file, and match [ErrNotRegular], [ErrTooLarge], or are the file system's.
func Read(name string, limit int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", name, ErrTooLarge, limit)
	}
	return data, err
}

// draftSuffix ends the name under which a file is written.
const draftSuffix = ".new"

// Write gives a file, which its owner alone may read, its content in one step: after a crash of the process or the host at any moment it has the content
// from before or the new one, and the new one for good once Write has returned. It is written beside, as the file's name with .new behind it.
func Write(name string, data []byte) error {
	draft := name + draftSuffix
	f, err := OpenFile(draft, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(draft, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft)) // a full disk has better use for it
	}
	return SyncFolder(name)
}

// Remove removes a file for good. One that is not there is no error.
func Remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return SyncFolder(name)
}

// Replace gives a file that was written and synced under another name in the same folder its name, durably.
func Replace(from, name string) error {
	if err := os.Rename(from, name); err != nil {
		return err
	}
	return SyncFolder(name)
}

// SyncFolder makes the names in a file's folder durable: that of a file that was made, renamed or removed is it only then.
func SyncFolder(name string) error {
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
