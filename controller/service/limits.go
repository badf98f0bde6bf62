package service

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/internal/auth"
)

const (
	// mostReaders bounds the calls of one caller that read the audit log at once: each may have all its files open, for as long as he takes to read them.
	mostReaders = 8
	// mostWhy bounds the reason of a revocation, in bytes: the journal has it for each placement that is taken back.
	mostWhy = 1 << 10
	// mostRevocations bounds those of one caller who does not operate within revocationTime: each is a line in the audit log, which forgets what is old.
	mostRevocations = 60
	revocationTime  = time.Minute
)

// limits bound what one caller can have the controller do, so that no job's token keeps it from its work. The zero value is usable, and safe for concurrent use.
type limits struct {
	mu      sync.Mutex
	readers map[string]int
	revoked map[string]int // since began
	began   time.Time
}

// key tells callers apart.
func (c caller) key() string {
	if c.claims.User == "" { // no keys
		return c.addr
	}
	return strings.Join([]string{c.claims.User, c.claims.Job}, "\n") // neither has line breaks
}

// reads lets a caller read the audit log until leave is called.
func (l *limits) reads(c caller) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := c.key()
	if l.readers[key] >= mostReaders {
		return nil, fmt.Errorf("%w: %d calls of yours read the audit log already", errTooMuch, mostReaders)
	}
	if l.readers == nil {
		l.readers = make(map[string]int)
	}
	l.readers[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.readers[key]--; l.readers[key] == 0 {
			delete(l.readers, key)
		}
	}, nil
}

// revokes counts a revocation.
func (l *limits) revokes(c caller) error {
	if c.claims.Has(auth.RightOperate) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.revoked == nil || now.Sub(l.began) > revocationTime {
		l.revoked, l.began = make(map[string]int), now
	}
	if l.revoked[c.key()]++; l.revoked[c.key()] > mostRevocations {
		return fmt.Errorf("%w: %d revocations of yours in %v: take all back at once with --all, or wait", errTooMuch, mostRevocations, revocationTime)
	}
	return nil
}
