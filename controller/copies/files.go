package copies

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// writesAtOnce is how many small files of a batch are written at a time.
const writesAtOnce = 8

// batch sends small files: many are read in one call, written and read back in one call.
func (r *round) batch(ctx context.Context, t task, buf *buffer) error {
	contents := make([][]byte, len(t.files))
	memory := buf.take(t.n)
	for k, i := range t.files {
		n := r.src.Files[i].Size
		contents[k], memory = memory[:n:n], memory[n:]
	}
	for k := 0; k < len(t.files); {
		n, err := r.readSome(ctx, t.files[k:], contents[k:])
		if err != nil {
			return err
		}
		k += n
	}
	all, n := map[int]*found{}, int64(0)
	var files []int // that are what they should be
	for k, i := range t.files {
		f, crc := r.src.Files[i], crc32.Checksum(contents[k], castagnoli)
		if r.otherwise(i, crc) != nil {
			continue
		}
		contents[len(files)] = contents[k]
		files, n = append(files, i), n+f.Size
		all[i] = &found{r.at(i), sum{Name: f.Name, Size: f.Size, Original: f.Identity, CRC32C: crc, Reused: r.twins != nil}}
	}
	if len(files) == 0 {
		return nil
	}
	err := r.change(ctx, func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(writesAtOnce)
		for k, i := range files {
			g.Go(func() error { return r.put(ctx, i, contents[k]) })
		}
		return g.Wait()
	})
	if err != nil {
		return err
	}
	if err := r.compareMany(ctx, files, contents[:len(files)], all); err != nil {
		return atSite(ctx, err)
	}
	r.count(n)
	return r.keep(ctx, all)
}

// otherwise is the error of a twin that was read with another sum than the original has.
func (r *round) otherwise(i int, crc uint32) error {
	t, ok := r.twins[i]
	if !ok || crc == t.crc {
		return nil
	}
	return fmt.Errorf("%s: %w: it is read with CRC32C %08x, the original has %08x", r.site.Address(t.name), store.ErrCorrupt, crc, t.crc)
}

// readSome reads as many of some small files as may pass at a time, and says how many: at least one.
func (r *round) readSome(ctx context.Context, numbers []int, contents [][]byte) (int, error) {
	slice, bytes, n := r.gate.slice(), int64(0), 0
	for n < len(numbers) && bytes+int64(len(contents[n])) <= slice {
		bytes += int64(len(contents[n]))
		n++
	}
	if n == 0 {
		return 1, r.readOne(ctx, numbers[0], contents[0])
	}
	if err := r.gate.take(ctx, bytes); err != nil {
		return 0, err
	}
	return n, atSource(ctx, r.persist(ctx, func() error { return r.readMany(ctx, numbers[:n], contents[:n]) }))
}

// readOne reads a file that may not pass at once.
func (r *round) readOne(ctx context.Context, i int, content []byte) error {
	var f store.File
	err := r.persist(ctx, func() (err error) {
		f, err = r.openFile(ctx, i)
		return err
	})
	if err != nil {
		return atSource(ctx, err)
	}
	return errors.Join(r.read(ctx, f, 0, content), f.Close())
}

// readMany reads files, each in its version, in one call.
func (r *round) readMany(ctx context.Context, numbers []int, contents [][]byte) error {
	r.ahead(ctx, numbers[len(numbers)-1])
	return readWhole(ctx, r.from, len(numbers), func(k int) (store.File, error) { return r.openFile(ctx, numbers[k]) }, contents)
}

// expect has a store learn in few calls where files lie, anew.
func expect(ctx context.Context, st store.Store, names []string) {
	if p, ok := st.(store.Prefetcher); ok {
		p.Forget(names)
		_ = p.Prefetch(ctx, names) // opening says what is wrong
	}
}

// window is of how many small files a store learns at a time where they lie.
const window = 1024

// ahead has the store that is read learn where the small files of the round lie, up to one and some more.
func (r *round) ahead(ctx context.Context, i int) {
	r.learning.Lock()
	defer r.learning.Unlock()
	for len(r.small) > 0 && r.small[0] <= i {
		some := r.small[:min(len(r.small), window)]
		r.small = r.small[len(some):]
		if r.twins == nil {
			r.expect(ctx, some)
			continue
		}
		names := make([]string, len(some))
		for k, i := range some {
			names[k] = r.twins[i].name
		}
		expect(ctx, r.site, names)
	}
}

// expect has the store of the original learn where files lie.
func (m *making) expect(ctx context.Context, numbers []int) {
	names := make([]string, len(numbers))
	for k, i := range numbers {
		names[k] = path.Join(m.src.Folder(), m.src.Files[i].Name)
	}
	expect(ctx, m.home, names)
}

// readWhole opens files and fills a buffer of its length from each.
func readWhole(ctx context.Context, st store.Store, n int, open func(k int) (store.File, error), contents [][]byte) error {
	reads := make([]store.FileRanges, n)
	var opening errgroup.Group
	opening.SetLimit(writesAtOnce)
	for k := range n {
		opening.Go(func() (err error) {
			reads[k].File, err = open(k)
			reads[k].Ranges = []store.Range{{Buf: contents[k]}}
			return err
		})
	}
	err := opening.Wait()
	if err == nil {
		err = store.ReadMany(ctx, st, reads)
	}
	for k := range reads {
		if reads[k].File != nil {
			err = errors.Join(err, reads[k].Err, reads[k].File.Close())
		}
	}
	return err
}

// put writes a small file. What lies at its name was left by a round that failed.
func (r *round) put(ctx context.Context, i int, data []byte) error {
	w, err := r.site.Create(ctx, r.at(i))
	if errors.Is(err, fs.ErrExist) {
		if err := r.site.Remove(ctx, r.at(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		w, err = r.site.Create(ctx, r.at(i))
	}
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// compareMany reads files back, in one call, and takes the versions that it read for those of the copy.
func (r *round) compareMany(ctx context.Context, numbers []int, contents [][]byte, all map[int]*found) error {
	names := make([]string, len(numbers))
	for k, i := range numbers {
		names[k] = r.at(i)
	}
	expect(ctx, r.site, names)
	open := func(k int) (store.File, error) {
		f, err := r.site.Open(ctx, names[k])
		if err == nil && f.Size() != int64(len(contents[k])) {
			err = errors.Join(r.wrong(numbers[k], "it has %d bytes, %d were written", f.Size(), len(contents[k])), f.Close())
		}
		if err != nil {
			return nil, err
		}
		all[numbers[k]].Here = f.Identity() // each of another file
		return f, nil
	}
	if err := readWhole(ctx, r.site, len(names), open, contents); err != nil { // into the memory that was written from: its sums are known
		return err
	}
	for k, i := range numbers {
		if got := crc32.Checksum(contents[k], castagnoli); got != all[i].CRC32C {
			return r.wrong(i, "it is read back with CRC32C %08x, %08x was written", got, all[i].CRC32C)
		}
	}
	return nil
}

// wrong says that a file of the copy is not what was written.
func (r *round) wrong(i int, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", r.site.Address(r.at(i)), store.ErrCorrupt, fmt.Sprintf(format, args...))
}

// large is a file that is sent in pieces.
type large struct {
	i     int
	piece int64 // length of each but the last

	mu      sync.Mutex
	src     store.File
	parts   store.PartsWriter
	cancel  context.CancelFunc // of what is written
	ordered bool               // the store takes no parts: one worker sends all
	crcs    []uint32           // of the pieces
	left    int                // pieces that nobody has done
	sent    int64              // bytes
	err     error              // the file is given up
}

// piece sends one piece of a large file; the last one that is done ends the file. After a failure the other pieces of the file are passed over.
func (r *round) piece(ctx context.Context, t task, buf *buffer) error {
	l := r.large[t.files[0]]
	mine, err := r.open(ctx, l, t.off)
	if err == nil && mine {
		err = r.transfer(ctx, l, t, buf)
	}
	l.mu.Lock()
	if err != nil && l.err == nil {
		l.err = err
	}
	l.left--
	over := l.left == 0
	failed := l.err
	l.mu.Unlock()
	if !over {
		return err
	}
	if failed == nil {
		err = r.complete(ctx, l)
		failed = err
	}
	l.close()
	if failed != nil {
		r.count(-l.sent)
	}
	return err
}

// open opens the file on both sides, if no other worker has. mine is false where the piece needs no sending any more.
func (r *round) open(ctx context.Context, l *large, off int64) (mine bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false, nil
	}
	if l.src != nil {
		return !l.ordered, nil
	}
	defer func() { l.err = err }()
	err = r.persist(ctx, func() (err error) {
		l.src, err = r.openFile(ctx, l.i)
		return err
	})
	if err != nil {
		return false, atSource(ctx, err)
	}
	err = r.create(ctx, l)
	if errors.Is(err, errors.ErrUnsupported) {
		l.ordered = true
		return true, nil
	}
	return true, err
}

// create starts the file at the site, in parts.
func (r *round) create(ctx context.Context, l *large) error {
	life, cancel := context.WithCancel(ctx)
	err := r.change(ctx, func(bounded context.Context) error {
		defer context.AfterFunc(bounded, cancel)()
		parts, err := store.CreateParts(life, r.site, r.at(l.i))
		if errors.Is(err, fs.ErrExist) {
			if err := r.site.Remove(bounded, r.at(l.i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			parts, err = store.CreateParts(life, r.site, r.at(l.i))
		}
		l.parts = parts
		return err
	})
	if err != nil {
		cancel()
		l.parts = nil
		return err
	}
	l.cancel = cancel
	return nil
}

// transfer sends a piece, or the whole file where that has to be done in order.
func (r *round) transfer(ctx context.Context, l *large, t task, buf *buffer) error {
	if l.ordered {
		return r.inOrder(ctx, l, buf)
	}
	b := buf.take(t.n)
	if err := r.read(ctx, l.src, t.off, b); err != nil {
		return err
	}
	if err := l.parts.WritePart(ctx, t.off, [][]byte{b}); err != nil {
		return atSite(ctx, err)
	}
	l.crcs[t.off/l.piece] = crc32.Checksum(b, castagnoli)
	r.wrote(l, t.n)
	return nil
}

// wrote counts bytes of a file.
func (r *round) wrote(l *large, n int64) {
	l.mu.Lock()
	l.sent += n
	l.mu.Unlock()
	r.alive()
	r.count(n)
}

// inOrder sends a file from its beginning to its end.
func (r *round) inOrder(ctx context.Context, l *large, buf *buffer) error {
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	var w store.Writer
	err := r.change(ctx, func(bounded context.Context) (err error) {
		defer context.AfterFunc(bounded, cancel)()
		if err := r.site.Remove(bounded, r.at(l.i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		w, err = r.site.Create(life, r.at(l.i))
		return err
	})
	if err != nil {
		return err
	}
	size := r.src.Files[l.i].Size
	for off := int64(0); off < size; off += l.piece {
		b := buf.take(min(l.piece, size-off))
		err := r.read(ctx, l.src, off, b)
		if err == nil {
			_, err = w.Write(b)
			err = atSite(ctx, err)
		}
		if err != nil {
			return errors.Join(err, w.Abort())
		}
		l.crcs[off/l.piece] = crc32.Checksum(b, castagnoli)
		r.wrote(l, int64(len(b)))
	}
	return r.change(ctx, func(bounded context.Context) error {
		defer context.AfterFunc(bounded, cancel)()
		return w.Close()
	})
}

// complete ends a file all of whose pieces are written, and reads it back.
func (r *round) complete(ctx context.Context, l *large) error {
	if !l.ordered {
		err := r.change(ctx, func(bounded context.Context) error {
			defer context.AfterFunc(bounded, l.cancel)()
			return l.parts.Close()
		})
		if err != nil {
			return err
		}
	}
	f, crc := r.src.Files[l.i], uint32(0)
	for k, c := range l.crcs {
		crc = store.JoinCRC32C(crc, c, min(l.piece, f.Size-int64(k)*l.piece))
	}
	if err := r.otherwise(l.i, crc); err != nil {
		return err
	}
	here, err := r.compareLarge(ctx, l, f.Size)
	if err != nil {
		return atSite(ctx, err)
	}
	return r.keep(ctx, map[int]*found{l.i: {r.at(l.i), sum{Name: f.Name, Size: f.Size, Original: f.Identity, Here: here, CRC32C: crc, Reused: r.twins != nil}}})
}

const (
	// readBacks pieces of large files are read back at a time, each so long.
	readBacks = 8
	readBack  = 8 * mib
)

// compareLarge reads a file back and compares it piece by piece. It returns the version that it read.
func (r *round) compareLarge(ctx context.Context, l *large, size int64) (here store.Identity, err error) {
	f, err := r.site.Open(ctx, r.at(l.i))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if f.Size() != size {
		return "", r.wrong(l.i, "it has %d bytes, %d were written", f.Size(), size)
	}
	g, ctx := errgroup.WithContext(ctx)
	for k := range l.crcs {
		select {
		case r.verifying <- struct{}{}:
		case <-ctx.Done():
			return "", errors.Join(g.Wait(), ctx.Err())
		}
		g.Go(func() error {
			defer func() { <-r.verifying }()
			off := int64(k) * l.piece
			got, err := r.crcOf(ctx, f, off, min(l.piece, size-off))
			if err == nil && got != l.crcs[k] {
				err = r.wrong(l.i, "the %d bytes from %d are read back with CRC32C %08x, %08x were written", min(l.piece, size-off), off, got, l.crcs[k])
			}
			return err
		})
	}
	return f.Identity(), g.Wait()
}

// crcOf reads a piece of the copy. It stands still with the copy.
func (r *round) crcOf(ctx context.Context, f store.File, off, n int64) (crc uint32, err error) {
	buf := make([]byte, min(n, readBack))
	for end := off + n; off < end; {
		if err := r.gate.open(ctx); err != nil {
			return 0, err
		}
		b := buf[:min(int64(len(buf)), end-off)]
		if err := r.persist(ctx, func() error { return f.ReadRanges(ctx, []store.Range{{Off: off, Buf: b}}) }); err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, b)
		off += int64(len(b))
	}
	return crc, nil
}

// close lets go of what is open, and gives up what is not whole. Only one calls it at a time, when no piece is under way.
func (l *large) close() {
	if l.parts != nil {
		l.parts.Abort() // does nothing after Close; what it cannot remove goes with the place
		l.parts = nil
	}
	if l.cancel != nil {
		l.cancel()
		l.cancel = nil
	}
	if l.src != nil {
		l.src.Close()
		l.src = nil
	}
}

// isFence tells that this process may not change anything any more.
func isFence(err error) bool {
	var fence *temporary.FenceError
	return errors.As(err, &fence)
}
