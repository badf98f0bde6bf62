package nodecache

import (
	"crypto/rand"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// lock is the right to read an entry for all. Its file is locked by the kernel until its process ends, and shows a sign of
// life as long as the process does: a process forked meanwhile keeps the kernel's lock and shows none.
type lock struct {
	folder *folder
	name   string
	file   *os.File
	mark   []byte
}

// holder is who has a lock.
type holder struct {
	mark string    // of one holding of it
	beat time.Time // the last sign of life
}

const markSize = 16

// lock takes the lock of an entry. If another has it the lock is nil.
func (f *folder) lock(id string) (*lock, holder, error) {
	name := id + lockSuffix
	file, err := f.open(name, openFlags)
	if err != nil {
		return nil, holder{}, err
	}
	free, err := tryFlock(file, syscall.LOCK_EX)
	if err == nil && free && f.leadsTo(name, file) {
		l := &lock{folder: f, name: name, file: file, mark: []byte(rand.Text())[:markSize]}
		l.beat()
		return l, holder{}, nil
	}
	held := holder{beat: time.Now()}
	if err == nil && !free {
		held, err = holderOf(file)
	}
	return nil, held, errors.Join(err, file.Close())
}

func holderOf(file *os.File) (holder, error) {
	info, err := file.Stat()
	if err != nil {
		return holder{}, err
	}
	mark := make([]byte, markSize)
	n, _ := file.ReadAt(mark, 0) // none if it was taken this moment
	return holder{mark: string(mark[:n]), beat: info.ModTime()}, nil
}

// beat is a sign of life: the file's time of change.
func (l *lock) beat() { _, _ = l.file.WriteAt(l.mark, 0) }

// keep shows signs of life until release is called, which gives the lock back.
func (l *lock) keep(every time.Duration) (release func()) {
	stop := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		tick := time.NewTicker(max(every, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.beat()
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		beating.Wait()
		if l.folder.leadsTo(l.name, l.file) {
			_ = l.folder.root.Remove(l.name) // else the next one takes it over
		}
		_ = l.file.Close()
	}
}

// depose takes a lock from a holder that shows no sign of life: the name becomes free. If another process does the same the
// lock may be taken from its next holder too; then two read the same.
func (f *folder) depose(id string, stale time.Duration) {
	unlock, err := f.exclusive()
	if err != nil {
		return
	}
	defer unlock()
	info, err := f.root.Lstat(id + lockSuffix)
	if err == nil && time.Since(info.ModTime()) > stale {
		_ = f.root.Remove(id + lockSuffix)
	}
}

// maxFailures is after how many others that read for all and left nothing a process reads for itself: what fails for them
// one after the other should not make all wait for each.
const maxFailures = 2

// watch counts the holders of a lock that one has waited for in vain.
type watch struct {
	mark  string
	count int
}

func (w *watch) failures(h holder) int {
	if h.mark != "" && h.mark != w.mark {
		if w.mark != "" {
			w.count++
		}
		w.mark = h.mark
	}
	return w.count
}
