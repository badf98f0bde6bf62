package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

type timeout struct{}

func (timeout) Error() string   { return "slow" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return false }

var _ net.Error = timeout{}

func TestClassOf(t *testing.T) {
	wrap := func(err error) error {
		return fmt.Errorf("dir.Open /f: %w", &fs.PathError{Op: "open", Path: "f", Err: err})
	}
	for _, c := range []struct {
		err  error
		want store.Class
	}{
		{nil, store.ClassUnknown},
		{errors.New("never seen"), store.ClassUnknown},
		{context.Canceled, store.ClassUnknown},
		{context.DeadlineExceeded, store.ClassUnknown}, // although it calls itself a time-out
		{io.EOF, store.ClassUnknown},
		{fs.ErrNotExist, store.NotFound},
		{syscall.ENOENT, store.NotFound},
		{fs.ErrExist, store.Permanent},
		{syscall.EEXIST, store.Permanent},
		{syscall.EACCES, store.Permanent},
		{syscall.ENOSPC, store.Permanent},
		{syscall.EDQUOT, store.Permanent},
		{os.ErrClosed, store.Permanent},
		{errors.ErrUnsupported, store.Permanent},
		{store.ErrName, store.Permanent},
		{store.ErrRange, store.Permanent},
		{store.ErrUnavailable, store.Retryable},
		{io.ErrUnexpectedEOF, store.Retryable},
		{syscall.ECONNRESET, store.Retryable},
		{syscall.EIO, store.Retryable},
		{os.ErrDeadlineExceeded, store.Retryable},
		{timeout{}, store.Retryable},
		{store.ErrCorrupt, store.Corrupt},
		{&store.DigestError{}, store.Corrupt},
		{store.ErrIdentity, store.IdentityChanged},
		{errors.Join(store.ErrUnavailable, store.ErrCorrupt), store.Corrupt},
		{errors.Join(fs.ErrNotExist, store.ErrIdentity), store.IdentityChanged},
		{errors.Join(context.DeadlineExceeded, store.ErrUnavailable), store.Retryable}, // the store's own time limit
	} {
		if got := store.ClassOf(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
		if c.err != nil && store.ClassOf(wrap(c.err)) != c.want {
			t.Errorf("%v, wrapped: %s, want %s", c.err, store.ClassOf(wrap(c.err)), c.want)
		}
	}
}

func TestClassNames(t *testing.T) {
	want := "unknown retryable permanent not-found corrupt identity-changed invalid invalid"
	var got []string
	for c := store.ClassUnknown; c <= store.IdentityChanged+1; c++ {
		got = append(got, c.String())
	}
	if got = append(got, store.Class(-1).String()); strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestCheckRange(t *testing.T) {
	for _, c := range []struct {
		off, n, size int64
		ok           bool
	}{
		{0, 0, 0, true}, {0, 10, 10, true}, {10, 0, 10, true}, {9, 1, 10, true},
		{0, 1, 0, false}, {11, 0, 10, false}, {9, 2, 10, false}, {-1, 1, 10, false}, {0, -1, 10, false},
		{math.MaxInt64, math.MaxInt64, 10, false}, {1, math.MaxInt64, math.MaxInt64, false}, {0, math.MaxInt64, math.MaxInt64, true},
	} {
		err := store.CheckRange(c.off, c.n, c.size)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, store.ErrRange) {
			t.Errorf("off %d, n %d, size %d: %v", c.off, c.n, c.size, err)
		}
	}
}

func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"/", "/a/b", "", "a", "/..", "/a/../b", "//", "/a\x00", "/a/", "/.", "/\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if store.CheckName(name) != nil {
			return
		}
		for i, part := range strings.Split(name, "/") {
			if part == "." || part == ".." || strings.Contains(part, "\x00") || part == "" && i > 0 && name != "/" {
				t.Fatalf("%q was accepted", name)
			}
		}
		if !strings.HasPrefix(name, "/") {
			t.Fatalf("%q was accepted", name)
		}
	})
}
