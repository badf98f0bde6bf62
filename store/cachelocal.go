package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// copyPiece bounds CacheLocal's memory: large enough that a remote request's round trip costs little,
// small enough for many copies at once.
const copyPiece = 4 << 20

// DigestError says that a file's content is not the content asked for. Its class is Corrupt.
type DigestError struct {
	Name      string
	Want, Got [32]byte
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("%s: its SHA-256 is %x, expected %x: the file was replaced or damaged", e.Name, e.Got, e.Want)
}

// Unwrap makes the error match ErrCorrupt.
func (e *DigestError) Unwrap() error { return ErrCorrupt }

// A LocalFile is a file of this machine whose content was verified.
type LocalFile struct {
	Path string
	// Verified is what the file was before its content was read for that. Whoever opens it compares: another file, size or time of
	// change means other content.
	Verified fs.FileInfo
}

// CacheLocal returns a local file that holds the content of name, whose SHA-256 is digest.
// A store that is a Localizer gives its own file, verified on every call. Otherwise the content is
// copied into cacheDir (made if missing, on a local disk), named by its digest; there it is verified on
// every call, and copied anew if it is damaged. Any number of goroutines and processes may ask for the
// same content at once: one copies, the others wait until it is done or their ctx ends. A killed copy
// leaves one partial file, which the next one replaces. If the content has another digest, it is read again
// without each node that holds a part of it in turn, so that one bad node does no harm; if that does not help
// it is a *DigestError, and nothing is kept.
//
// The file belongs to the cache: open or map it and do not write to it. It uses 4 MiB of memory.
func CacheLocal(ctx context.Context, s Store, name string, digest [32]byte, cacheDir string) (LocalFile, error) {
	if l, ok := s.(Localizer); ok {
		if path, ok := l.LocalPath(name); ok {
			verified, err := verifyLocal(ctx, path, digest)
			if err != nil {
				return LocalFile{}, fmt.Errorf("store.CacheLocal %s: %w", s.Address(name), err)
			}
			return LocalFile{path, verified}, nil
		}
	}
	if cacheDir == "" {
		return LocalFile{}, fmt.Errorf("store.CacheLocal %s: no cache folder given, and the store's files are not local: %w", s.Address(name), fs.ErrInvalid)
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return LocalFile{}, fmt.Errorf("store.CacheLocal %s: %w", s.Address(name), err)
	}
	c := caching{s: s, name: name, digest: digest, final: filepath.Join(cacheDir, hex.EncodeToString(digest[:]))}
	verified, err := c.run(ctx)
	if err != nil {
		return LocalFile{}, fmt.Errorf("store.CacheLocal %s: %w", s.Address(name), err)
	}
	return LocalFile{c.final, verified}, nil
}

type caching struct {
	s      Store
	name   string
	digest [32]byte
	final  string
}

// run returns when the final file is there and right. The partial file is both the place of the copy and
// the lock: who holds its lock while the name still leads to it may write it.
func (c caching) run(ctx context.Context) (verified fs.FileInfo, err error) {
	for {
		verified, err := verifyLocal(ctx, c.final, c.digest)
		if err == nil {
			return verified, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt) {
			return nil, err
		}
		partial, err := os.OpenFile(c.final+".partial", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
		if err != nil {
			return nil, err
		}
		verified, err = c.tryCopy(ctx, partial)
		partial.Close() // gives the lock up
		if verified != nil || err != nil {
			return verified, err
		}
	}
}

// tryCopy waits for the lock and copies. Nothing without an error means that another process has just
// finished with the partial file: look again.
func (c caching) tryCopy(ctx context.Context, partial *os.File) (verified fs.FileInfo, err error) {
	if err := lockFile(ctx, partial); err != nil {
		return nil, err
	}
	if !leadsTo(partial.Name(), partial) {
		return nil, nil
	}
	if verified, err := verifyLocal(ctx, c.final, c.digest); err == nil { // made while this one waited
		return verified, os.Remove(partial.Name())
	}
	if verified, err = c.copy(ctx, partial); err != nil {
		os.Remove(partial.Name()) // at worst it stays for the next copy to replace
		return nil, err
	}
	return verified, nil
}

// copy makes the final file. Nobody else writes to what it holds the lock of, so the file is known once it is written.
func (c caching) copy(ctx context.Context, partial *os.File) (verified fs.FileInfo, err error) {
	f, err := c.s.Open(ctx, c.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = c.fill(ctx, partial, f)
	var wrong *DigestError
	if errors.As(err, &wrong) {
		err = c.fillFromOthers(ctx, partial, f, wrong)
	}
	if err != nil {
		return nil, err
	}
	if err := partial.Sync(); err != nil {
		return nil, err
	}
	if verified, err = partial.Stat(); err != nil {
		return nil, err
	}
	if err := os.Rename(partial.Name(), c.final); err != nil {
		return nil, err
	}
	return verified, syncDir(filepath.Dir(c.final))
}

// fill writes the content of f over what partial holds, and compares digests.
func (c caching) fill(ctx context.Context, partial *os.File, f File) error {
	if err := partial.Truncate(0); err != nil {
		return err
	}
	if _, err := partial.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum := sha256.New()
	if err := copyAll(ctx, io.MultiWriter(sum, partial), f); err != nil {
		return err
	}
	return compare(c.s.Address(c.name), sum, c.digest)
}

func copyAll(ctx context.Context, w io.Writer, f File) error {
	buf := make([]byte, min(copyPiece, f.Size()))
	for off := int64(0); off < f.Size(); {
		piece := buf[:min(int64(len(buf)), f.Size()-off)]
		if err := f.ReadRanges(ctx, []Range{{Off: off, Buf: piece}}); err != nil {
			return err
		}
		if _, err := w.Write(piece); err != nil {
			return err
		}
		off += int64(len(piece))
	}
	return nil
}

// verifyLocal returns what the file was before it was read, and nil, fs.ErrNotExist or a *DigestError, or what else kept it from reading the file.
func verifyLocal(ctx context.Context, path string, digest [32]byte) (fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe must not wait for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a file but %s: %w", path, info.Mode().Type(), fs.ErrInvalid)
	}
	sum := sha256.New()
	buf := make([]byte, 256<<10) // fits the processor's cache
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := f.Read(buf)
		sum.Write(buf[:n])
		if err == io.EOF {
			if err := compare(path, sum, digest); err != nil {
				return nil, err
			}
			return info, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func compare(name string, sum hash.Hash, want [32]byte) error {
	if got := [32]byte(sum.Sum(nil)); got != want {
		return &DigestError{Name: name, Want: want, Got: got}
	}
	return nil
}

// lockFile takes an exclusive lock, which ends with the descriptor. The system call that waits cannot be
// cancelled, so this asks again: a copy takes much longer than the 20 ms between two questions.
func lockFile(ctx context.Context, f *os.File) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("locking %s: %w: choose a cache folder on a local disk", f.Name(), err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func leadsTo(path string, f *os.File) bool {
	a, errA := os.Lstat(path)
	b, errB := f.Stat()
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// syncDir makes the names in a folder durable, where its file system can do it.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}
