// Package nodecache knows what the processes of one host have read of immutable files, and shares it between them through
// files in memory: of those who want the same bytes at the same time one reads, and the others copy.
//
// Nothing depends on it. Whatever goes wrong with the shared files, a process that waits in vain, a full memory, a damaged
// entry, ends in the ordinary way: the bytes are read from where they are.
package nodecache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// Options configure a Cache. The zero value is usable on Linux.
type Options struct {
	// Dir is the folder of the shared files. It is made if it is missing, not its parent, and belongs to this user alone: one
	// of another user, or that others may enter, is refused. It should be on a file system in memory, of this host alone.
	// Default DefaultDir.
	Dir string
	// MaxBytes bounds the shared files together. What does not fit is not shared. Default 1 GiB.
	MaxBytes int64
	// Lease is for how long an entry stays that nobody asks for. Default 10 minutes.
	Lease time.Duration
	// Stale is for how long a process that reads for others may show no sign of life before one of them takes over. One that
	// ended is noticed at once. Default 5 s.
	Stale time.Duration
	// Wait is for how long one waits for a process that is alive. Default 2 minutes.
	Wait time.Duration
}

// DefaultDir is the folder that the processes of a user share.
func DefaultDir() string { return "/dev/shm/stepahead-" + strconv.Itoa(os.Geteuid()) }

func (o Options) withDefaults() Options {
	o.Dir, o.MaxBytes = cmp.Or(o.Dir, DefaultDir()), cmp.Or(o.MaxBytes, 1<<30)
	o.Lease, o.Stale, o.Wait = cmp.Or(o.Lease, 10*time.Minute), cmp.Or(o.Stale, 5*time.Second), cmp.Or(o.Wait, 2*time.Minute)
	return o
}

// Validate returns all that is wrong with o, defaults filled in.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("nodecache.Options: MaxBytes: %d is negative", o.MaxBytes))
	}
	if o.Lease < 0 || o.Stale < 0 || o.Wait < 0 {
		errs = append(errs, fmt.Errorf("nodecache.Options: Lease %v, Stale %v, Wait %v: give more than 0", o.Lease, o.Stale, o.Wait))
	}
	return errors.Join(errs...)
}

// A Key names bytes that never change: [Off, Off+Len) of one version of a file of a store.
type Key struct {
	// Store is the store's address: identities are those of one store.
	Store, Name string
	Identity    store.Identity
	Off, Len    int64
}

// id is the name of a key's shared files, a digest of all that it says.
func (k Key) id() string {
	sum := sha256.New()
	for _, s := range []string{k.Store, k.Name, string(k.Identity)} {
		sum.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
		sum.Write([]byte(s))
	}
	sum.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(k.Off)), uint64(k.Len)))
	return hex.EncodeToString(sum.Sum(nil))
}

// A Cache is a process's access to the shared files of its host. It is safe for concurrent use.
type Cache struct {
	o      Options
	folder *folder
	users  *os.File
	counts counts
	full   atomic.Int64 // until when there is no room, in nanoseconds since 1970
}

// Open returns the Cache of a folder, and removes what killed processes left in it and what nobody has asked for lately.
func Open(o Options) (*Cache, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	f, err := openFolder(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("nodecache.Open: %w", err)
	}
	c := &Cache{o: o, folder: f}
	if c.users, err = f.join(); err != nil {
		return nil, errors.Join(fmt.Errorf("nodecache.Open: %w", err), f.Close())
	}
	if err := c.Sweep(); err != nil {
		return nil, errors.Join(fmt.Errorf("nodecache.Open: %w", err), c.Close())
	}
	return c, nil
}

// Close gives the folder up. The last process to do so leaves it empty, so a Cache is kept open while others of the host may
// still want what was read. A Read that follows reads for itself.
func (c *Cache) Close() error {
	return errors.Join(c.folder.leave(c.users), c.folder.Close())
}

// Sweep removes entries whose lease is over, and what killed processes left. Open and each Read that leaves an entry do the same.
func (c *Cache) Sweep() error {
	unlock, err := c.folder.exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	_, err = c.folder.makeRoom(0, c.o, time.Now())
	return err
}

// pollEvery is how often a process that waits looks again: a look takes some 10 us, a read from another host longer than this.
const pollEvery = 10 * time.Millisecond

// fullFor is for how long a process reads for itself alone after one that it read found no room: as long as others cannot
// copy it, they should not wait for it.
const fullFor = time.Second

// Read fills bufs, which hold key.Len bytes together: from the shared files, or by fill, which fills the same memory and is
// not called twice. Of the processes and goroutines that ask for a key at the same time one calls fill and the others wait for
// it. If it fails, ends or is killed, another one takes over. The error is that of fill, or matches ctx.Err().
func (c *Cache) Read(ctx context.Context, key Key, bufs [][]byte, fill func(context.Context) error) error {
	e := entry{id: key.id(), size: key.Len, bufs: bufs}
	if reason, ok := c.unfit(key, bufs); ok {
		return c.alone(ctx, key, reason, fill)
	}
	var w watch
	for start := time.Now(); ; {
		switch hit, err := c.folder.load(e, c.o.Lease); {
		case hit:
			c.counts.shared.Add(key.Len)
			return nil
		case err != nil:
			return c.alone(ctx, key, ByError, fill)
		}
		l, held, err := c.folder.lock(e.id)
		switch {
		case err != nil:
			return c.alone(ctx, key, ByError, fill)
		case l != nil:
			return c.readFor(ctx, key, e, l, fill)
		case w.failures(held) >= maxFailures:
			return c.alone(ctx, key, ByFailure, fill)
		case time.Since(start) > c.o.Wait:
			return c.alone(ctx, key, ByWait, fill)
		case time.Since(held.beat) > c.o.Stale:
			c.folder.depose(e.id, c.o.Stale)
		}
		if err := store.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// readFor reads with the lock of an entry held, and leaves the entry for the others.
func (c *Cache) readFor(ctx context.Context, key Key, e entry, l *lock, fill func(context.Context) error) error {
	defer l.keep(c.o.Stale / 8)()
	if hit, _ := c.folder.load(e, c.o.Lease); hit { // left just before the lock was free
		c.counts.shared.Add(key.Len)
		return nil
	}
	if err := fill(ctx); err != nil {
		return err
	}
	c.counts.read.Add(key.Len)
	if err := c.folder.leaveEntry(e, c.o); err != nil {
		c.counts.unshared.Add(key.Len)
		c.full.Store(time.Now().Add(fullFor).UnixNano())
	}
	return nil
}

// unfit tells why bytes cannot be shared.
func (c *Cache) unfit(key Key, bufs [][]byte) (Reason, bool) {
	var n int64
	for _, b := range bufs {
		n += int64(len(b))
	}
	switch {
	case key.Identity == "":
		return ByIdentity, true
	case n != key.Len || n > c.o.MaxBytes-headerSize:
		return BySize, true
	case c.full.Load() > time.Now().UnixNano():
		return ByRoom, true
	}
	return 0, false
}

func (c *Cache) alone(ctx context.Context, key Key, why Reason, fill func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := fill(ctx); err != nil {
		return err
	}
	c.counts.alone[why].Add(key.Len)
	return nil
}
