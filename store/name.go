package store

import (
	"fmt"
	"math"
	"path"
	"strings"
)

// maxName bounds a name in bytes; it is Linux's PATH_MAX and half of what HDFS allows.
const maxName = 4096

// CheckName returns nil if name is an absolute, clean, slash-separated path of at most 4096 bytes
// without NUL, and an error that matches ErrName and says why otherwise. There is no other
// restriction: a name may hold newlines, quotes and bytes that are not UTF-8.
func CheckName(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("%w: %.64q...: %d bytes are more than %d", ErrName, name, len(name), maxName)
	case !strings.HasPrefix(name, "/"):
		return fmt.Errorf("%w: %q: not absolute: it must start with a slash", ErrName, name)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("%w: %q: holds a NUL byte", ErrName, name)
	case path.Clean(name) != name:
		return fmt.Errorf("%w: %q: not clean: write %q", ErrName, name, path.Clean(name))
	}
	return nil
}

// CheckRange returns nil if [off, off+n) lies inside a file of size bytes, and an error that matches
// ErrRange and does not name the file otherwise. An empty range is inside at any offset from 0 to size.
func CheckRange(off, n, size int64) error {
	switch {
	case off < 0:
		return fmt.Errorf("%w: negative offset %d", ErrRange, off)
	case n < 0:
		return fmt.Errorf("%w: negative length %d", ErrRange, n)
	case off > math.MaxInt64-n || off+n > size:
		return fmt.Errorf("%w: %d bytes at offset %d end behind the file's %d", ErrRange, n, off, size)
	}
	return nil
}

// CheckRanges is CheckRange for every range of a read.
func CheckRanges(ranges []Range, size int64) error {
	for _, r := range ranges {
		if err := CheckRange(r.Off, int64(len(r.Buf)), size); err != nil {
			return err
		}
	}
	return nil
}
