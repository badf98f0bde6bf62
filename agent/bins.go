package agent

import (
	"context"
	"errors"
	"sync"

	"github.com/stepahead-io/stepahead/store"
)

// bins keeps data files open for the reads that follow: opening one costs a round trip.
type bins struct {
	open func(ctx context.Context, bin int) (store.File, error)

	mu    sync.Mutex
	all   map[int]*binFile
	clock int // counts uses
}

type binFile struct {
	bin   int
	file  store.File
	users int
	used  int  // value of the clock at the last use
	stale bool // close it when the last user is done
}

// acquire returns the open file of a bin. The caller releases it.
func (b *bins) acquire(ctx context.Context, bin int) (*binFile, error) {
	if f := b.take(bin); f != nil {
		return f, nil
	}
	file, err := b.open(ctx, bin)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &binFile{bin: bin, file: file, users: 1}
	if b.all == nil || b.all[bin] != nil {
		f.stale = true // closed meanwhile, or opened by another caller too
		return f, nil
	}
	b.clock++
	f.used = b.clock
	b.all[bin] = f
	return f, nil
}

func (b *bins) take(bin int) *binFile {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.all[bin]
	if f != nil {
		b.clock++
		f.users, f.used = f.users+1, b.clock
	}
	return f
}

// release gives a file back. Beyond maxBins the idle one that was used longest ago is closed.
func (b *bins) release(f *binFile) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.users--
	if f.stale && f.users == 0 {
		_ = f.file.Close() // it was only read from
	}
	for len(b.all) > maxBins {
		var oldest *binFile
		for _, x := range b.all {
			if x.users == 0 && (oldest == nil || x.used < oldest.used) {
				oldest = x
			}
		}
		if oldest == nil {
			return
		}
		delete(b.all, oldest.bin)
		_ = oldest.file.Close()
	}
}

// forget makes the next acquire open the bin anew.
func (b *bins) forget(f *binFile) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[f.bin] == f {
		delete(b.all, f.bin)
		f.stale = true
	}
}

// close closes what nobody uses at once and the rest when it is released.
func (b *bins) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, f := range b.all {
		f.stale = true
		if f.users == 0 {
			errs = append(errs, f.file.Close())
		}
	}
	b.all = nil
	return errors.Join(errs...)
}
