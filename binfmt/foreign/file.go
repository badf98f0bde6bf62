package foreign

import (
	"context"
	"fmt"
	"sync"

	"github.com/stepahead-io/stepahead/store"
)

// storeFile is a File of a store. It says how far into the file reads have come.
type storeFile struct {
	ctx  context.Context
	f    store.File
	read func(n int64)     // told how many bytes each read got
	step func(ahead int64) // told how much further a read came than all before it

	mu  sync.Mutex
	end int64
}

func (s *storeFile) Size() int64 { return s.f.Size() }

// ReadAt implements File.
func (s *storeFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || int64(len(p)) > s.f.Size()-off {
		return 0, fmt.Errorf("offset %d, %d bytes: outside the %d bytes of the file: %w", off, len(p), s.f.Size(), store.ErrRange)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := s.f.ReadRanges(s.ctx, []store.Range{{Off: off, Buf: p}}); err != nil {
		return 0, err
	}
	s.advance(int64(len(p)), off+int64(len(p)))
	return len(p), nil
}

// advance tells of read bytes, which brought the reader to end or not so far.
func (s *storeFile) advance(read, end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read(read)
	s.step(max(0, end-s.end))
	s.end = max(s.end, end)
}
