package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"syscall"
)

// The sentinels by which stores say what went wrong. A store wraps one of them, or one of io/fs, so
// that ClassOf knows the class.
var (
	// ErrUnavailable: the store or the replicas did not answer this time; later they may.
	ErrUnavailable = errors.New("store is not available now")
	// ErrName: the name is not an absolute clean path, is reserved, or leaves the store.
	ErrName = errors.New("bad name")
	// ErrRange: the range is not inside the file.
	ErrRange = errors.New("range outside the file")
	// ErrCorrupt: the bytes are not those that were written.
	ErrCorrupt = errors.New("content is corrupt")
	// ErrIdentity: the content changed since the file was opened.
	ErrIdentity = errors.New("content changed since the file was opened")
)

// Class says what an error means for the caller's next move.
type Class int

// The classes. Their numbers are append-only.
const (
	// ClassUnknown: the error says nothing about the store, for example because ctx ended.
	ClassUnknown Class = iota
	// Retryable: the same call may succeed later.
	Retryable
	// Permanent: the same call will fail again.
	Permanent
	// NotFound: the file, folder or replica does not exist.
	NotFound
	// Corrupt: the bytes are wrong; another replica may have the right ones.
	Corrupt
	// IdentityChanged: the file is now another version; open it again or give up.
	IdentityChanged
)

var classNames = [...]string{"unknown", "retryable", "permanent", "not-found", "corrupt", "identity-changed"}

// String returns the class's name as logs and metrics show it.
func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return "invalid"
	}
	return classNames[c]
}

// ClassOf returns the class of an error. The gravest class wins where an error wraps several:
// wrong bytes and wrong versions must never be taken for something to try again. An error it has
// never seen, and nil, is ClassUnknown; so is the end of a context, unless the store marked it with
// a sentinel (a time limit of its own is ErrUnavailable).
func ClassOf(err error) Class {
	for _, row := range classTable {
		for _, target := range row.targets {
			if errors.Is(err, target) {
				return row.class
			}
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return ClassUnknown
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return Retryable
	}
	return ClassUnknown
}

// classTable is searched from the top.
var classTable = []struct {
	class   Class
	targets []error
}{
	{Corrupt, []error{ErrCorrupt}},
	{IdentityChanged, []error{ErrIdentity}},
	{NotFound, []error{fs.ErrNotExist}},
	{Permanent, []error{
		ErrName, ErrRange, fs.ErrExist, fs.ErrPermission, fs.ErrClosed, fs.ErrInvalid, errors.ErrUnsupported,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EISDIR, syscall.ENOTDIR, syscall.ENOTEMPTY,
		syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EXDEV, syscall.EFBIG,
	}},
	{Retryable, []error{
		ErrUnavailable, io.ErrUnexpectedEOF,
		syscall.EIO, syscall.EAGAIN, syscall.EINTR, syscall.EBUSY, syscall.ESTALE, syscall.ENOMEM, syscall.EMFILE,
		syscall.ENFILE, syscall.ENOBUFS, syscall.ETIMEDOUT, syscall.ECONNRESET, syscall.ECONNREFUSED,
		syscall.ECONNABORTED, syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETDOWN,
	}},
}
