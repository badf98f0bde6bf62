package binfmt

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A mapping is an index file in memory. What somebody writes to the file shows in it, so every read of it is followed by a look
// at the file: it keeps the descriptor for that, which leads to the mapped file whatever its name leads to by then.
type mapping struct {
	name   string
	file   *os.File
	data   []byte
	pinned version // of the file when it was mapped
}

// version is what tells that a file was written to.
type version struct {
	inode, size, nanos int64 // nanos: when it was last written to, Unix time
}

func (v version) String() string {
	return fmt.Sprintf("inode %d, %d bytes, written %s", v.inode, v.size, time.Unix(0, v.nanos).UTC().Format(time.RFC3339Nano))
}

// A LocalIndex is an index as a file of this machine.
type LocalIndex struct {
	Path string
	// Verified is what the file was before its digest was compared; nil if nobody did. One that is another when it is opened is a
	// *ChangedError.
	Verified fs.FileInfo
}

// ChangedError says that an index was written to, or cut, after it was mapped: what it holds is not what was checked when it was
// opened. It matches ErrChanged. A file that was replaced by another of its name is no such case: the old one stays mapped.
type ChangedError struct {
	Name string
	// Pinned is the version that was mapped, Now the one that the file has.
	Pinned, Now string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("identity changed: %s: opened as %s, now %s: it was written to in place while in use: restore it, and write a new version of the dataset to another folder", e.Name, e.Pinned, e.Now)
}

// Unwrap makes the error match ErrChanged.
func (e *ChangedError) Unwrap() error { return ErrChanged }

// mapFile maps a whole file. The caller closes what it returns.
func mapFile(index LocalIndex) (m mapping, err error) {
	f, err := os.Open(index.Path)
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return m, err
	}
	if !info.Mode().IsRegular() {
		return m, fmt.Errorf("not a regular file: %w", ErrIndex)
	}
	m = mapping{name: index.Path, file: f}
	if m.pinned, err = versionOf(f); err != nil {
		return m, err
	}
	if index.Verified != nil {
		if was := pinnedBy(index.Verified); was != m.pinned {
			return m, m.changed(was, m.pinned)
		}
	}
	if m.pinned.size == 0 {
		return m, fmt.Errorf("the file is empty: %w", ErrIndex)
	}
	if m.pinned.size > math.MaxInt {
		return m, fmt.Errorf("%d bytes cannot be mapped on this machine: %w", m.pinned.size, ErrIndex)
	}
	m.data, err = unix.Mmap(int(f.Fd()), 0, int(m.pinned.size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return m, fmt.Errorf("mmap of %d bytes: %w", m.pinned.size, err)
	}
	return m, nil
}

func versionOf(f *os.File) (version, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return version{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return version{int64(st.Ino), st.Size, st.Mtim.Nano()}, nil
}

// pinnedBy is versionOf of what somebody else opened.
func pinnedBy(info fs.FileInfo) version {
	return version{int64(info.Sys().(*syscall.Stat_t).Ino), info.Size(), info.ModTime().UnixNano()}
}

// read runs f, which reads the mapping. Nothing that f found counts unless the file is, after it, still what was mapped. The look
// before it is for programs in which others handle memory faults, as Python's faulthandler does: reading a file that was cut ends them.
func (m *mapping) read(f func() error) error {
	if err := m.unchanged(); err != nil {
		return err
	}
	err := m.guarded(f)
	if changed := m.unchanged(); changed != nil {
		return changed
	}
	return err
}

func (m *mapping) unchanged() error {
	now, err := versionOf(m.file)
	if err != nil {
		return fmt.Errorf("is it what was opened? %w", err)
	}
	if now != m.pinned {
		return m.changed(m.pinned, now)
	}
	return nil
}

func (m *mapping) changed(was, now version) error {
	return &ChangedError{Name: m.name, Pinned: was.String(), Now: now.String()}
}

// guarded runs f. A piece of the mapping that has no file behind it any more is a memory fault; here it becomes an error, as do
// panics of the library over damaged contents.
func (m *mapping) guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = m.fault(r)
		}
	}()
	return f()
}

// fault says what a panic while the mapping was read means.
func (m *mapping) fault(r any) error {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
	if at, ok := r.(interface{ Addr() uintptr }); ok && at.Addr()-start < uintptr(len(m.data)) {
		return fmt.Errorf("byte %d of %d cannot be read: the file was cut while in use, or its disk fails: %w", at.Addr()-start, len(m.data), ErrIndex)
	}
	return fmt.Errorf("the file is damaged: %v: %w", r, ErrIndex)
}

func (m *mapping) closed() bool { return m.data == nil }

// close unmaps the file. A second call does nothing.
func (m *mapping) close() error {
	if m.closed() {
		return nil
	}
	err := unix.Munmap(m.data)
	m.data = nil
	return errors.Join(err, m.file.Close())
}
