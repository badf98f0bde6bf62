package loader

import (
	"cmp"
	"context"
	"slices"
)

// groupBytes bounds the encoded parts that are read, and transformed, together. One that is larger is alone.
const groupBytes = 2 << 20

// startLocal reads entries from the store, group by group, and has each transformed as soon as it is there.
// Errors end up in b.tasks, bad content in the entries.
func (b *build) startLocal(entries []*entry) {
	entries = slices.SortedFunc(slices.Values(entries), func(x, y *entry) int {
		return cmp.Or(cmp.Compare(x.part.Bin, y.part.Bin), cmp.Compare(x.part.Off, y.part.Off))
	})
	for len(entries) > 0 {
		n := firstGroup(entries, b.share)
		group := entries[:n:n]
		entries = entries[n:]
		b.tasks.start(func(ctx context.Context) error { return b.local(ctx, group) })
	}
}

// firstGroup is how many of the first entries are read together: of one bin, no more bytes than one read should hold, no more
// that go through a plan than a worker gets at once, and no more others than files are opened together.
func firstGroup(entries []*entry, share int) int {
	transforms, bytes := 0, int64(0)
	for n, e := range entries {
		bytes += e.part.Len
		if !e.stored {
			transforms++
		}
		if n > 0 && (e.part.Bin != entries[0].part.Bin || bytes > groupBytes || transforms > share || n == filesTogether) {
			return n
		}
	}
	return len(entries)
}

// local reads the entries of one group and has them transformed.
func (b *build) local(ctx context.Context, entries []*entry) error {
	pieces, err := b.read(ctx, entries)
	if err != nil {
		return err
	}
	jobs := make([]job, 0, len(entries))
	for i, e := range entries {
		e.source = fromStore
		p := pieces[i]
		if p.err != nil {
			e.bad = faultOf(p.err)
		}
		switch {
		case e.stored:
			e.done = true
		case p.err != nil:
			b.drop(p.buf)
		default:
			jobs = append(jobs, job{e, p.buf})
		}
	}
	b.queue.add(b, jobs...)
	return nil
}

// read returns the stored bytes of entries of one bin, in their order. Those that are delivered so are read into their places in
// the batch; each other buffer goes back with drop.
func (b *build) read(ctx context.Context, entries []*entry) ([]*piece, error) {
	if err := b.reserve(ctx, entries); err != nil {
		return nil, err
	}
	if err := b.l.reads.enter(ctx, b.step, 1); err != nil {
		return nil, err
	}
	defer b.l.reads.leave(1)
	defer b.clock.enter(waitNetwork)()
	pieces := make([]*piece, len(entries))
	var bytes int64
	for i, e := range entries {
		pieces[i] = &piece{Extent: e.part.Extent, buf: e.dst}
		if !e.stored {
			pieces[i].buf = b.l.buf.get(int(e.part.Len))
		}
		bytes += e.part.Len
	}
	failures, err := b.l.data.read(ctx, entries[0].part.Bin, slices.Clone(pieces))
	b.l.count(func(s *Stats) {
		s.StoreReads += int64(len(pieces))
		s.StoreBytes += bytes
		s.CRCFailures += int64(failures)
	})
	return pieces, err
}

// reserve waits for room for the bytes of a group, as far as they are not read into the batch.
func (b *build) reserve(ctx context.Context, entries []*entry) error {
	var bytes int64
	for _, e := range entries {
		if !e.stored {
			bytes += b.l.takesRoom(int(e.part.Len))
		}
	}
	if bytes == 0 {
		return nil
	}
	if err := b.l.room.enter(ctx, b.step, bytes); err != nil {
		return err
	}
	b.reserved.Add(bytes)
	return nil
}

// drop gives back the buffer of a part that was read, and its room.
func (b *build) drop(buf []byte) {
	b.unreserve(b.l.takesRoom(len(buf)))
	b.l.buf.put(buf)
}

func (b *build) unreserve(bytes int64) {
	b.reserved.Add(-bytes)
	b.l.room.leave(bytes)
}

// takesRoom is how much of Loader.room a part of n bytes takes: a very large one all of it.
func (l *Loader) takesRoom(n int) int64 { return min(int64(n), roomFor(l.o.Workers)) }

// roomFor is how many bytes may be read ahead of the workers: enough that reading hides behind transforming, in a
// store that takes as long for a read as a worker for two groups.
func roomFor(workers int) int64 { return int64(workers) * 2 * groupBytes }
