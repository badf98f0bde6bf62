package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/stepahead-io/stepahead/internal/localfile"
)

const (
	olderSuffix   = ".1"
	lockSuffix    = ".lock"
	damagedSuffix = ".damaged"
	draftSuffix   = ".draft"
	// DefaultLimit bounds a ledger, in bytes of both of its files.
	DefaultLimit = 64 << 20
	leastLimit   = 64 << 10
)

// ErrInUse: another process adds to the ledger.
var ErrInUse = errors.New("another process adds to the ledger")

// Options configure a [Ledger]. Only File has no default.
type Options struct {
	// File is the ledger's path. Beside it lie the older half, .1, a lock, and what was set aside as damaged. Missing folders are made.
	File string
	// Limit bounds the bytes of both halves, but for one record. Of n jobs each has at least its newest Limit/2n bytes of records in it, however
	// many others send. Default [DefaultLimit], at least 64 KiB.
	Limit int64
	// Warn, if not nil, gets what was wrong with a ledger that was opened all the same.
	Warn func(error)
}

// Ledger adds records to a file. What [Ledger.Append] has taken is still there after a crash of the process or the host. It is bounded: when
// half of the limit is full, the newest records of each job become the older half, and a new file begins. It is safe for concurrent use.
type Ledger struct {
	o    Options
	lock *os.File
	turn chan struct{} // holds a token unless somebody writes
	file *os.File      // nil after Close, and until a failure has been mended
	size int64
	next uint64

	mu      sync.Mutex
	last    uint64        // number of the last durable record
	changed chan struct{} // closed when last grows
	moments []moment      // when the latest records were added, by number
}

// moment is when a record was added, by a clock that nobody sets.
type moment struct {
	number uint64
	at     time.Time
}

// mostMoments bounds how many are remembered.
const mostMoments = 1 << 16

// Open opens a ledger to add to it, and makes one where there is none. A record that a killed process left half written is removed; a
// file that is damaged before its end is set aside, and reported to Warn. Errors match [ErrInUse] or are the file system's.
func Open(o Options) (*Ledger, error) {
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	if o.Limit < leastLimit {
		return nil, fmt.Errorf("relay.Open %s: a limit of %d bytes: give at least %d: %w", o.File, o.Limit, leastLimit, fs.ErrInvalid)
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	if err := os.MkdirAll(filepath.Dir(o.File), 0o700); err != nil {
		return nil, fmt.Errorf("relay.Open: %w", err)
	}
	lock, err := localfile.OpenFile(o.File+lockSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("relay.Open: %w", err)
	}
	l := &Ledger{o: o, lock: lock, turn: make(chan struct{}, 1), next: 1, changed: make(chan struct{})}
	l.turn <- struct{}{}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err == nil {
		err = l.resume()
	}
	if err != nil {
		return nil, fmt.Errorf("relay.Open %s: %w", o.File, errors.Join(err, l.Close()))
	}
	return l, nil
}

// resume finds the number of the next record, and opens the file behind the last whole one.
func (l *Ledger) resume() error {
	if err := l.numbers(l.o.File + olderSuffix); err != nil {
		return err
	}
	if err := l.numbers(l.o.File); err != nil {
		return err
	}
	if err := l.reopen(); err != nil {
		return err
	}
	l.last = l.next - 1
	return nil
}

// numbers goes through one file. One that is damaged is set aside.
func (l *Ledger) numbers(name string) error {
	f, err := localfile.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = scan(f, func(r Record, _ int64) error {
		l.next = max(l.next, r.Number+1)
		return nil
	})
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	l.o.Warn(fmt.Errorf("relay.Open %s: %w: it is set aside as %s, and what it says of later records is not used", name, err, name+damagedSuffix))
	return localfile.Replace(name, name+damagedSuffix)
}

// reopen opens the file and removes what is behind the last whole record.
func (l *Ledger) reopen() error {
	f, err := localfile.OpenFile(l.o.File, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	rest, err := scan(f, func(r Record, _ int64) error {
		l.next = max(l.next, r.Number+1) // of a record that could be neither made durable nor removed
		return nil
	})
	if err == nil {
		err = f.Truncate(rest)
	}
	if err == nil {
		_, err = f.Seek(rest, io.SeekStart)
	}
	if err == nil {
		err = errors.Join(f.Sync(), localfile.SyncFolder(l.o.File))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, rest
	return nil
}

// Append adds a record and returns its number when it is durable. After an error the record is not there, and a later Append may succeed;
// the error of a full disk is the file system's. ctx ends the wait for others, not the writing.
func (l *Ledger) Append(ctx context.Context, r Record) (uint64, error) {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return 0, fmt.Errorf("relay.Append: %w", ctx.Err())
	}
	defer func() { l.turn <- struct{}{} }()
	if l.lock == nil {
		return 0, fmt.Errorf("relay.Append: %w", fs.ErrClosed)
	}
	if err := l.append(r); err != nil {
		return 0, fmt.Errorf("relay.Append %s: %w", l.o.File, err)
	}
	n := l.next
	l.next++
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = n
	if len(l.moments) >= mostMoments {
		l.moments = append(make([]moment, 0, mostMoments), l.moments[mostMoments/2:]...)
	}
	l.moments = append(l.moments, moment{n, time.Now()})
	close(l.changed)
	l.changed = make(chan struct{})
	return n, nil
}

// Last returns the number of the last record that is durable, 0 if there is none, and a channel that is closed when there is a later one.
func (l *Ledger) Last() (number uint64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, l.changed
}

// File is the ledger's path.
func (l *Ledger) File() string { return l.o.File }

// Age is how long ago a record was taken. Of those that this Ledger has added it is measured, so that setting the host's clock changes nothing; of older ones
// it is what that clock says.
func (l *Ledger) Age(r Record) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := slices.BinarySearchFunc(l.moments, r.Number, func(m moment, n uint64) int { return cmp.Compare(m.number, n) })
	if found {
		return time.Since(l.moments[i].at)
	}
	return time.Since(time.UnixMilli(r.ReceivedMS))
}

func (l *Ledger) append(r Record) error {
	if l.file == nil { // a failure before could not be mended then
		if err := l.reopen(); err != nil {
			return err
		}
	}
	r.Version, r.Number = Version, l.next
	line, err := encode(r)
	if err != nil {
		return err
	}
	if l.size > 0 && l.size+int64(len(line)) > l.o.Limit/2 {
		if err := l.turnOver(); err != nil {
			return err
		}
	}
	_, err = l.file.Write(line)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		l.next++ // somebody may have read it
		return errors.Join(err, l.undo())
	}
	l.size += int64(len(line))
	return nil
}

// undo removes a record that may be there in part. Where that fails, or the disk's state is not known, the file is read anew at the next
// Append.
func (l *Ledger) undo() error {
	err := errors.Join(l.file.Truncate(l.size), l.file.Close())
	l.file = nil
	return err
}

// Close ends the use of the ledger, after the writing that is under way. What was appended stays. A second call does nothing.
func (l *Ledger) Close() error {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	if l.lock == nil {
		return nil
	}
	var err error
	if l.file != nil {
		err = l.file.Close()
	}
	err = errors.Join(err, l.lock.Close())
	l.file, l.lock = nil, nil
	return err
}
