package relay

import (
	"errors"
	"io"
	"os"
)

// Tail reads a ledger again and again, each time only what is new. It is used by one goroutine at a time.
type Tail struct {
	file  string
	after uint64
	// current is the newer half as it was found last, open so that no other file can be taken for it, and off what was read of it.
	current *os.File
	off     int64
}

// NewTail returns one that begins behind a number. It does no I/O.
func NewTail(file string, after uint64) *Tail { return &Tail{file: file, after: after} }

// After is the number up to which records were read.
func (t *Tail) After() uint64 { return t.after }

// Read calls each with the records that were added since, in their order, up to a number: those behind it are left for later. Errors are as of
// [Read]; after one of each, its record counts as not read.
func (t *Tail) Read(upTo uint64, each func(Record) error) error {
	if t.current != nil {
		more, err := t.rest(upTo, each)
		if err != nil && !errors.Is(err, ErrDamaged) { // what could not be made durable may have been removed again: it is looked at from the beginning
			return err
		}
		same, failure := t.same()
		if failure != nil || err == nil && (same || more) {
			return failure
		}
		if err := t.Close(); err != nil {
			return err
		}
	}
	older, current, err := halves(t.file)
	if err != nil {
		return err
	}
	defer func() { _ = closeFile(older) }() // it was only read
	t.current, t.off = current, 0
	if older != nil {
		_, more, err := t.scan(older, upTo, each)
		if more || err != nil {
			return errors.Join(err, t.Close()) // the older half is gone on with next time
		}
	}
	if current == nil {
		return nil
	}
	_, err = t.rest(upTo, each)
	return err
}

// rest reads what is new in the newer half. more says that there is something behind upTo.
func (t *Tail) rest(upTo uint64, each func(Record) error) (more bool, err error) {
	read, more, err := t.scan(io.NewSectionReader(t.current, t.off, 1<<62), upTo, each)
	t.off += read
	return more, err
}

// errBehind ends a scan at a record that is left for later.
var errBehind = errors.New("behind what is asked for")

// scan returns how many bytes were read of what r has.
func (t *Tail) scan(r io.Reader, upTo uint64, each func(Record) error) (read int64, more bool, err error) {
	_, err = scan(r, func(record Record, behind int64) error {
		if record.Number > upTo {
			return errBehind
		}
		if record.Number > t.after {
			if err := each(record); err != nil {
				return err
			}
			t.after = record.Number
		}
		read = behind
		return nil
	})
	if errors.Is(err, errBehind) {
		return read, true, nil
	}
	if err != nil {
		err = failed(t.file, err)
	}
	return read, false, err
}

// same tells whether the newer half is still the file that is open.
func (t *Tail) same() (bool, error) {
	open, err := t.current.Stat()
	if err != nil {
		return false, failed(t.file, err)
	}
	now, err := os.Stat(t.file)
	if err != nil {
		return false, nil // it is being replaced, or gone
	}
	return os.SameFile(open, now), nil
}

// Close closes the files. Read opens them again.
func (t *Tail) Close() error {
	err := closeFile(t.current)
	t.current, t.off = nil, 0
	return err
}
