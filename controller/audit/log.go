package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/stepahead-io/stepahead/internal/localfile"
)

const (
	lockSuffix = ".lock"
	// DefaultLimit is the size in bytes at which a file is put aside, as FILE.1.
	DefaultLimit = 64 << 20
	// DefaultKeep is how many files are kept beside the one that is written.
	DefaultKeep = 8
	// mostRecent is how many lines are kept in memory for those who follow.
	mostRecent = 1024
	// mostPending bounds the lines that wait for a disk that does not take them.
	mostPending = 1 << 16
	// retryAfter is the pause after a write that failed.
	retryAfter = time.Second
)

// ErrInUse: another process adds to the file.
var ErrInUse = errors.New("another process adds to the audit log")

// Options configure a [Log]. Only File has no default.
type Options struct {
	// File is the log's path. Beside it lie a lock and the files that were put aside, the newest .1. Missing folders are made. Only its owner may read it.
	File string
	// Limit is the size at which a file is put aside, Keep how many of these there are. Default [DefaultLimit] and [DefaultKeep].
	Limit int64
	Keep  int
	// Warn, if not nil, is told of what could not be written or read.
	Warn func(error)
}

// Log adds lines to a file. It is safe for concurrent use.
type Log struct {
	o     Options
	lock  *os.File
	wake  chan struct{} // holds a token while something is pending, or the log is to end
	ended chan struct{} // closed when the writer has

	mu      sync.Mutex
	next    uint64
	recent  []Line        // the last ones, written or not
	pending []Line        // not written yet
	changed chan struct{} // closed when a line is added
	closing bool
	resting bool // a write failed, and the next waits for its time, however many lines come
	health  Health

	names sync.Mutex // held by who opens or renames files, before mu

	// The writer's alone, but for Open.
	file *os.File
	size int64
}

// Open opens a log to add to it, and makes one where there is none. A line that a killed process left half written is removed. Errors match
// [ErrInUse] or are the file system's.
func Open(o Options) (*Log, error) {
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	if err := os.MkdirAll(filepath.Dir(o.File), 0o700); err != nil {
		return nil, fmt.Errorf("audit.Open: %w", err)
	}
	lock, err := localfile.OpenFile(o.File+lockSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit.Open: %w", err)
	}
	l := &Log{o: o, lock: lock, wake: make(chan struct{}, 1), ended: make(chan struct{}), changed: make(chan struct{}), next: 1}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err == nil {
		err = l.resume()
	}
	if err != nil {
		return nil, fmt.Errorf("audit.Open %s: %w", o.File, errors.Join(err, lock.Close()))
	}
	go l.write()
	return l, nil
}

// resume opens the file behind its last whole line, and finds the number of the next: it is behind those of the newest file that has lines.
func (l *Log) resume() error {
	for i := 0; i <= l.o.Keep && l.next == 1; i++ {
		f, err := localfile.Open(l.name(i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = scan(f, l.o.Warn, func(line Line) error {
			l.next = max(l.next, line.Number+1)
			return nil
		})
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return l.open()
}

// open opens the file behind its last line break.
func (l *Log) open() error {
	f, err := localfile.OpenFile(l.o.File, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	size, err := wholeLines(f)
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		_, err = f.Seek(size, io.SeekStart)
	}
	if err == nil {
		err = localfile.SyncFolder(l.o.File)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, size
	return nil
}

// wholeLines is the offset behind the last line break of a file.
func wholeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	const step = 64 << 10
	for end := info.Size(); end > 0; {
		begin := max(end-step, 0)
		b := make([]byte, end-begin)
		if _, err := f.ReadAt(b, begin); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return begin + int64(i) + 1, nil
		}
		end = begin
	}
	return 0, nil
}

// name is the path of the i-th file, 0 that which is written.
func (l *Log) name(i int) string {
	if i == 0 {
		return l.o.File
	}
	return l.o.File + "." + strconv.Itoa(i)
}

// Add adds an entry. It does not wait for the disk: entries are written in their order soon after, many at once where they come quickly, and are durable then.
// While the disk takes none they are kept, up to 65,536 of them; what is lost beyond is counted.
func (l *Log) Add(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		l.health.Lost++
		return
	}
	line := Line{Number: l.next, Entry: e.bounded()}
	l.next++
	l.recent = append(l.recent, line)
	if n := len(l.recent); n >= 2*mostRecent {
		l.recent = append([]Line(nil), l.recent[n-mostRecent:]...)
	}
	l.pending = append(l.pending, line)
	if n := len(l.pending) - mostPending; n > 0 {
		l.pending = l.pending[n:]
		l.health.Lost += int64(n)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	l.rouse()
}

// rouse lets the writer look.
func (l *Log) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// write writes what is pending until the log is closed.
func (l *Log) write() {
	defer close(l.ended)
	for range l.wake {
		for l.batch() {
		}
		l.mu.Lock()
		end := l.closing
		l.mu.Unlock()
		if end {
			return
		}
	}
}

// batch writes what is pending now, and tells whether it should be called again.
func (l *Log) batch() bool {
	l.mu.Lock()
	lines := append([]Line(nil), l.pending...)
	resting := l.resting && !l.closing
	l.mu.Unlock()
	if len(lines) == 0 || resting {
		return false
	}
	err := l.append(lines)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.health.Failing = err != nil
	if err == nil {
		last := lines[len(lines)-1].Number
		for len(l.pending) > 0 && l.pending[0].Number <= last {
			l.pending = l.pending[1:]
		}
		return true
	}
	l.health.Failures++
	l.o.Warn(fmt.Errorf("audit: %d lines wait for the disk: %w", len(lines), err))
	if !l.closing {
		l.resting = true
		time.AfterFunc(retryAfter, l.again)
	}
	return false
}

// again lets the writer try once more.
func (l *Log) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resting = false
	l.rouse()
}

// append makes lines durable, all or none.
func (l *Log) append(lines []Line) error {
	var b bytes.Buffer
	for _, line := range lines {
		text, err := marshal(line)
		if err != nil {
			return err
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	if l.file == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	if l.size > 0 && l.size+int64(b.Len()) > l.o.Limit {
		if err := l.turnOver(); err != nil {
			return err
		}
	}
	_, err := l.file.Write(b.Bytes())
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil { // what the disk has is not known: it is opened again before the next
		err = errors.Join(err, l.file.Truncate(l.size), l.file.Close())
		l.file = nil
		return err
	}
	l.size += int64(b.Len())
	return nil
}

// turnOver puts the file aside and begins a new one.
func (l *Log) turnOver() error {
	l.names.Lock()
	defer l.names.Unlock()
	err := l.file.Close()
	l.file = nil
	for i := l.o.Keep; i > 0 && err == nil; i-- {
		if err = localfile.Replace(l.name(i-1), l.name(i)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return l.open()
}

// Wait returns when there is a line with a larger number, or with ctx's error, or when the log is closed, with fs.ErrClosed.
func (l *Log) Wait(ctx context.Context, after uint64) error {
	for {
		l.mu.Lock()
		last, closing, changed := l.next-1, l.closing, l.changed
		l.mu.Unlock()
		switch {
		case last > after:
			return nil
		case closing:
			return fmt.Errorf("audit.Wait: %w", fs.ErrClosed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("audit.Wait: %w", ctx.Err())
		}
	}
}

// Health is how a log fares.
type Health struct {
	// Failing says that the latest write failed; Waiting is how many lines are not written yet.
	Failing bool
	Waiting int
	// Failures and Lost count writes that failed and lines that were lost.
	Failures, Lost int64
}

// Health returns how the log fares.
func (l *Log) Health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.health
	h.Waiting = len(l.pending)
	return h
}

// Close ends the use of the log, once what was added is written; an error says what is not. A second call does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return nil
	}
	l.closing = true
	close(l.changed)
	l.changed = make(chan struct{})
	l.rouse()
	l.mu.Unlock()
	<-l.ended
	var err error
	if n := len(l.pending); n > 0 {
		err = fmt.Errorf("%d lines were not written", n)
	}
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	if err = errors.Join(err, l.lock.Close()); err != nil {
		return fmt.Errorf("audit.Close %s: %w", l.o.File, err)
	}
	return nil
}
