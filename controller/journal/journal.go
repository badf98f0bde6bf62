package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"go.etcd.io/bbolt"

	"github.com/stepahead-io/stepahead/internal/localfile"
)

const (
	lockSuffix    = ".lock"
	compactSuffix = ".compact"
)

var (
	recordsBucket = []byte("records")
	aboutBucket   = []byte("about")
	versionKey    = []byte("version")
	placementKey  = []byte("placement") // the largest there was
)

// Options configure a [Journal]. Only File has no default.
type Options struct {
	// File is the journal's path. Beside it lies a lock, and while it is compacted its new form. Missing folders are made.
	File string
}

// Journal adds records to a file. What [Journal.Append] has taken is still there after a crash of the process or the host, and nothing else is: after a crash
// at any moment the file holds all records up to some number, at least that of the last Append that returned. It is safe for concurrent use.
type Journal struct {
	o    Options
	mu   sync.Mutex
	lock *os.File
	db   *bbolt.DB // nil after Close, and after a failure until it is opened again
}

// Open opens a journal, and makes one where there is none. All of it is read and checked first. Errors match [ErrInUse], [ErrDamaged] or [ErrVersion], or are
// the file system's; the file is then left as it is.
func Open(o Options) (*Journal, error) {
	if err := os.MkdirAll(filepath.Dir(o.File), 0o700); err != nil {
		return nil, fmt.Errorf("journal.Open: %w", err)
	}
	lock, err := localfile.OpenFile(o.File+lockSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal.Open: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	j := &Journal{o: o, lock: lock}
	if err == nil {
		err = j.open()
	}
	if err != nil {
		return nil, fmt.Errorf("journal.Open %s: %w", o.File, errors.Join(err, lock.Close()))
	}
	return j, nil
}

// open checks the file and opens it.
func (j *Journal) open() error {
	if err := j.clear(); err != nil {
		return err
	}
	fresh, err := check(j.o.File)
	if err != nil {
		return err
	}
	if fresh {
		if err := create(j.o.File); err != nil {
			return err
		}
	}
	j.db, err = bbolt.Open(j.o.File, 0o600, options())
	return err
}

// clear removes a new form that was not finished: by a process that was killed, or on a disk that was full.
func (j *Journal) clear() error {
	if err := os.Remove(j.o.File + compactSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func options() *bbolt.Options {
	return &bbolt.Options{PageSize: pageSize, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}
}

// create makes an empty journal under another name, so that the name never has half of one.
func create(name string) error {
	db, err := bbolt.Open(name+compactSuffix, 0o600, options())
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(recordsBucket)
		about, err2 := tx.CreateBucket(aboutBucket)
		if err = errors.Join(err, err2); err != nil {
			return err
		}
		return about.Put(versionKey, []byte{Version})
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return localfile.Replace(name+compactSuffix, name)
}

// check reads all of a file; fresh says that there is none.
func check(name string) (fresh bool, err error) {
	f, err := localfile.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	version, before := false, uint64(0)
	err = verify(f, info.Size(), func(bucket string, key, value []byte) error {
		switch bucket {
		case string(aboutBucket):
			if string(key) == string(versionKey) && len(value) == 1 {
				version = true
				if value[0] > Version {
					return fmt.Errorf("%w: it has version %d, this program reads %d: use a newer stepahead-controller", ErrVersion, value[0], Version)
				}
			}
			return nil
		case string(recordsBucket):
			r, err := decode(key, value)
			if err == nil && r.Number <= before {
				err = fmt.Errorf("%w: record %d comes after record %d", ErrDamaged, r.Number, before)
			}
			before = r.Number
			return err
		}
		return fmt.Errorf("%w: a bucket %q, which a journal does not have", ErrDamaged, bucket)
	})
	if err == nil && !version {
		err = fmt.Errorf("%w: it does not say its version: it is not a journal", ErrDamaged)
	}
	return false, err
}

// Append adds records, all or none of them, and returns the number of the first when they are durable. After an error none of them is there, unless the disk
// failed in the very last write; the next call reads the whole file again before it writes. The error of a full disk says so.
func (j *Journal) Append(records ...Record) (first uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	err = j.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(recordsBucket)
		first = b.Sequence() + 1
		for i, r := range records {
			r.Number = first + uint64(i)
			value, err := encode(r)
			if err != nil {
				return err
			}
			if err := b.Put(keyOf(r.Number), value); err != nil {
				return err
			}
		}
		if err := b.SetSequence(first + uint64(len(records)) - 1); err != nil {
			return err
		}
		return remember(tx.Bucket(aboutBucket), records)
	})
	if err != nil {
		return 0, fmt.Errorf("journal.Append %s: %w", j.o.File, err)
	}
	return first, nil
}

// remember keeps the largest placement that any record was about, which compaction does not forget.
func remember(about *bbolt.Bucket, records []Record) error {
	last := lastPlacement(about)
	most := last
	for _, r := range records {
		most = max(most, r.Placement)
	}
	if most == last {
		return nil
	}
	return about.Put(placementKey, keyOf(most))
}

func lastPlacement(about *bbolt.Bucket) uint64 {
	if b := about.Get(placementKey); len(b) == 8 {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// LastPlacement is the largest placement that any record ever was about, also of records that were compacted; 0 if there was none.
func (j *Journal) LastPlacement() (last uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	err = j.usable()
	if err == nil {
		err = j.db.View(func(tx *bbolt.Tx) error {
			last = lastPlacement(tx.Bucket(aboutBucket))
			return nil
		})
	}
	if err != nil {
		return 0, fmt.Errorf("journal.LastPlacement %s: %w", j.o.File, err)
	}
	return last, nil
}

// update runs a transaction. Where it failed, what the disk has is not known: the file is opened, and so checked, again before the next.
func (j *Journal) update(change func(*bbolt.Tx) error) error {
	if err := j.usable(); err != nil {
		return err
	}
	err := j.db.Update(change)
	if err != nil {
		err = errors.Join(err, j.db.Close())
		j.db = nil
	}
	return err
}

func (j *Journal) usable() error {
	if j.lock == nil {
		return fs.ErrClosed
	}
	if j.db == nil {
		return j.open()
	}
	return nil
}

// Read calls each with all records with a number of at least from, in their order.
func (j *Journal) Read(from uint64, each func(Record) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.usable()
	if err == nil {
		err = j.db.View(func(tx *bbolt.Tx) error {
			c := tx.Bucket(recordsBucket).Cursor()
			for key, value := c.Seek(keyOf(from)); key != nil; key, value = c.Next() {
				r, err := decode(key, value)
				if err == nil {
					err = each(r)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("journal.Read %s: %w", j.o.File, err)
	}
	return nil
}

// Compact drops the records of the placements that are over, and gives the disk back what they took. Numbers go on after the largest there ever was. A crash leaves
// the journal as it was or as it is to be.
func (j *Journal) Compact(over func(placement uint64) bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(recordsBucket)
		var drop [][]byte
		c := b.Cursor()
		for key, value := c.First(); key != nil; key, value = c.Next() {
			r, err := decode(key, value)
			if err != nil {
				return err
			}
			if over(r.Placement) {
				drop = append(drop, binary.BigEndian.AppendUint64(nil, r.Number))
			}
		}
		for _, key := range drop {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = j.rewrite()
	}
	if err != nil {
		return fmt.Errorf("journal.Compact %s: %w", j.o.File, err)
	}
	return nil
}

// rewrite copies what is left into a new file, which takes the journal's name.
func (j *Journal) rewrite() error {
	if err := j.clear(); err != nil {
		return err
	}
	to, err := bbolt.Open(j.o.File+compactSuffix, 0o600, options())
	if err != nil {
		return err
	}
	const most = 1 << 20 // bytes of a transaction
	if err := errors.Join(bbolt.Compact(to, j.db, most), to.Close()); err != nil {
		return err
	}
	err = errors.Join(j.db.Close(), localfile.Replace(j.o.File+compactSuffix, j.o.File))
	j.db = nil
	if err != nil {
		return err
	}
	return j.open()
}

// Close ends the use of the journal. A second call does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lock == nil {
		return nil
	}
	var err error
	if j.db != nil {
		err = j.db.Close()
	}
	err = errors.Join(err, j.lock.Close())
	j.db, j.lock = nil, nil
	if err != nil {
		return fmt.Errorf("journal.Close %s: %w", j.o.File, err)
	}
	return nil
}
