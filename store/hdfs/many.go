package hdfs

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/stepahead-io/stepahead/store"
)

// reading is what one call reads of one file.
type reading struct {
	file   *file
	ranges []store.Range
	only   string // from this node alone (UUID); "" for any

	ctx  context.Context // ends with the first failure
	stop context.CancelCauseFunc
	once sync.Once
	err  error // the first failure
}

func (r *reading) fail(err error) {
	r.once.Do(func() {
		r.err = err
		r.stop(err)
	})
}

// job is one request of a reading.
type job struct {
	*reading
	request
}

// ReadMany implements store.ManyReader. The requests to all files are joined where they lie close together and spread over
// the DataNodes.
func (s *Store) ReadMany(ctx context.Context, files []store.FileRanges) error {
	all := make([]*reading, len(files))
	for i := range files {
		f, ok := files[i].File.(*file)
		if !ok || f.s != s {
			return s.failed("ReadMany", fmt.Sprintf("file %d", i), fmt.Errorf("%w: a %T that this store did not open", fs.ErrInvalid, files[i].File))
		}
		all[i] = &reading{file: f, ranges: files[i].Ranges}
	}
	s.readAll(ctx, all)
	for i, r := range all {
		files[i].Err = nil
		if r.err != nil {
			files[i].Err = s.failed("ReadRanges", r.file.name, r.err)
		}
	}
	return ctx.Err()
}

// readAll reads and sets each reading's error. No memory of the caller is touched after it has returned.
func (s *Store) readAll(ctx context.Context, all []*reading) {
	for _, r := range all {
		r.ctx, r.stop = context.WithCancelCause(ctx)
		defer r.stop(nil)
	}
	parts := make([][]part, len(all))
	overlaps := make([][]overlap, len(all))
	found := make([][]request, len(all))
	s.each(len(all), func(i int) {
		r := all[i]
		if err := r.file.check(ctx, r.ranges); err != nil {
			r.fail(err)
			return
		}
		parts[i], overlaps[i] = disjoint(r.ranges)
		s.stats.asked.Add(asked(parts[i]))
		var err error
		if found[i], err = s.requestsOf(r.ctx, r.file.l, parts[i]); err != nil {
			r.fail(err)
		}
	})
	s.runJobs(all, found)
	for i, r := range all {
		if r.err == nil {
			for _, o := range overlaps[i] {
				o.fill(parts[i])
			}
		}
	}
}

// requestsOf finds the blocks of parts of a file and plans the requests to them.
func (s *Store) requestsOf(ctx context.Context, l *layout, parts []part) ([]request, error) {
	var blocks []*block
	for _, p := range parts {
		more, err := s.blocksOf(ctx, l, p.Off, int64(len(p.Buf)))
		if err != nil {
			return nil, err
		}
		if n := len(blocks); n > 0 && blocks[n-1].off == more[0].off {
			more = more[1:]
		}
		blocks = append(blocks, more...)
	}
	span := int64(maxSpan)
	if l.striped != nil {
		span = maxStripedSpan
	}
	return requests(parts, blocks, span), nil
}

// runJobs runs the requests of all readings, those that follow each other on different nodes.
func (s *Store) runJobs(all []*reading, found [][]request) {
	var jobs []job
	for i, r := range all {
		for _, q := range found[i] {
			jobs = append(jobs, job{r, q})
		}
	}
	jobs = interleave(jobs, func(j job) *node {
		if places := s.reader.order(j.block, func(place) int { return fine }, nil); len(places) > 0 {
			return places[0].node
		}
		return nil
	})
	s.each(len(jobs), func(i int) {
		j := jobs[i]
		if err := j.ctx.Err(); err != nil {
			j.fail(err)
			return
		}
		if err := s.perform(j); err != nil {
			j.fail(err)
		}
	})
}

func (s *Store) perform(j job) error {
	if j.file.l.striped != nil {
		return s.readGroup(j.ctx, j.file.l, j.request)
	}
	r := blockRead{s: s, l: j.file.l, b: j.block, parts: j.parts, only: j.only}
	return r.run(j.ctx)
}

// each runs do for 0 to n-1, Options.Parallel at a time, and returns when all have ended.
func (s *Store) each(n int, do func(i int)) {
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			do(i)
		}
	}
	var others sync.WaitGroup
	for range min(n, s.o.Parallel) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}
