package store

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
)

// OpenFiles keeps the files of a numbered set open between reads, because opening one costs a round trip,
// and bounds how many are open, whatever the number of files. It is safe for concurrent use.
type OpenFiles struct {
	open func(ctx context.Context, n int) (File, error)
	most int

	mu     sync.Mutex
	files  map[int]*OpenFile
	count  int           // files that are open or being opened, forgotten ones that are in use included
	idle   *list.List    // of *OpenFile, the longest unused first
	room   chan struct{} // closed and replaced when a file becomes idle or is closed
	closed bool
}

// OpenFile is a file of OpenFiles, between Acquire and Release. It is not closed by its users.
type OpenFile struct {
	File
	n     int
	err   error
	ready chan struct{} // closed when File or err is set
	users int
	stale bool          // closed by its last user
	at    *list.Element // in idle, when there are no users
}

// NewOpenFiles returns a set of which at most most files are open at once. open opens one of them.
func NewOpenFiles(most int, open func(ctx context.Context, n int) (File, error)) *OpenFiles {
	return &OpenFiles{open: open, most: most, files: map[int]*OpenFile{}, idle: list.New(), room: make(chan struct{})}
}

// Acquire returns file n, opened by the first of those who ask at the same time. The caller gives it back
// with Release. When too many others are in use it waits for one, so a caller that holds a file must not
// ask for another.
func (o *OpenFiles) Acquire(ctx context.Context, n int) (*OpenFile, error) {
	for {
		f, first, room, err := o.claim(n)
		if err != nil {
			return nil, err
		}
		if f == nil {
			select {
			case <-room:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if first {
			f.File, f.err = o.open(ctx, n)
			close(f.ready)
		}
		select {
		case <-f.ready:
		case <-ctx.Done():
			o.Release(f)
			return nil, ctx.Err()
		}
		if f.err == nil {
			return f, nil
		}
		o.Release(f)
		if !first && ctx.Err() == nil && ended(f.err) {
			continue // the one who opened it gave up, which says nothing about us
		}
		return nil, f.err
	}
}

// Absent returns those of the given files that Acquire would have to open, each once.
func (o *OpenFiles) Absent(files []int) []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	var absent []int
	for _, n := range files {
		if o.files[n] == nil && !slices.Contains(absent, n) {
			absent = append(absent, n)
		}
	}
	return absent
}

func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// claim adds a user to file n and tells whether it must be opened first. A nil file means that there is no
// room before the channel is closed.
func (o *OpenFiles) claim(n int) (f *OpenFile, first bool, room <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, false, nil, fmt.Errorf("store.OpenFiles: %w", fs.ErrClosed)
	}
	if f = o.files[n]; f != nil {
		if f.at != nil {
			o.idle.Remove(f.at)
			f.at = nil
		}
		f.users++
		return f, false, nil, nil
	}
	if o.count >= o.most && !o.evict() {
		return nil, false, o.room, nil
	}
	f = &OpenFile{n: n, ready: make(chan struct{}), users: 1}
	o.files[n] = f
	o.count++
	return f, true, nil, nil
}

// evict closes the longest unused file; false if all are in use.
func (o *OpenFiles) evict() bool {
	front := o.idle.Front()
	if front == nil {
		return false
	}
	f := o.idle.Remove(front).(*OpenFile)
	delete(o.files, f.n)
	o.count--
	_ = f.File.Close() // it was only read from
	return true
}

// Release gives a file back. Its File must not be used any more.
func (o *OpenFiles) Release(f *OpenFile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f.users--
	switch {
	case f.users > 0:
		return
	case f.err != nil:
		o.drop(f)
		o.count--
	case f.stale:
		_ = f.File.Close()
		o.count--
	default:
		f.at = o.idle.PushBack(f)
	}
	close(o.room)
	o.room = make(chan struct{})
}

// Forget makes the next Acquire open f's file anew. Users of f, the caller among them, go on with it until
// they release it.
func (o *OpenFiles) Forget(f *OpenFile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(f)
	f.stale = true
}

func (o *OpenFiles) drop(f *OpenFile) {
	if o.files[f.n] == f {
		delete(o.files, f.n)
	}
}

// Close closes what nobody uses at once, and the rest when it is released. An Acquire that follows is
// fs.ErrClosed.
func (o *OpenFiles) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	var errs []error
	for _, f := range o.files {
		f.stale = true
		if f.users == 0 {
			errs = append(errs, f.File.Close())
			o.count--
		}
	}
	clear(o.files)
	o.idle.Init()
	return errors.Join(errs...)
}
