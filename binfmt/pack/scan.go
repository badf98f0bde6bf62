package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/media"
)

// scanChunk is how many files one worker scans before it notes them in the journal. A kill costs
// at most that many files a worker.
const scanChunk = 512

// seen is what the first pass learns of one file: a line of the journal.
type seen struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	MTime  int64  `json:"mtime_ns"`
	CRC    uint32 `json:"crc32c"`
	Type   string `json:"type"`
	Width  uint32 `json:"width"`
	Height uint32 `json:"height"`
}

// scanner is the first pass: it reads every file once.
type scanner struct {
	files   sourceFiles
	journal *journal
	workers int
	chunk   int
	step    func(files int, bytes int64) // reports progress, called by one goroutine at a time
	mu      sync.Mutex
}

// scan reads the entries' files, or takes what the journal knows of files that did not change. The
// result is in the entries' order.
func (s *scanner) scan(ctx context.Context, entries []Entry) ([]item, error) {
	items := make([]item, len(entries))
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(s.workers)
	for chunk := 0; chunk*s.chunk < len(entries) && group.Err() == nil; chunk++ {
		first, last := chunk*s.chunk, min((chunk+1)*s.chunk, len(entries))
		g.Go(func() error { return s.scanChunk(group, chunk, entries[first:last], items[first:last]) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return items, ctx.Err()
}

func (s *scanner) scanChunk(ctx context.Context, chunk int, entries []Entry, items []item) error {
	all, fresh := make([]seen, len(entries)), false
	buf := make([]byte, 256<<10)
	for first := 0; first < len(entries); first += s.files.together() {
		last := min(first+s.files.together(), len(entries))
		isNew, err := s.look(ctx, entries[first:last], all[first:last], buf)
		if err != nil {
			return err
		}
		fresh = fresh || isNew
	}
	for i, e := range entries {
		items[i] = all[i].item(e)
	}
	if !fresh {
		return nil
	}
	return s.journal.put(ctx, chunk, all)
}

func (k seen) item(e Entry) item {
	return item{Entry: e, parts: [1]binfmt.Part{{
		Extent: binfmt.Extent{Len: k.Size, CRC: k.CRC, HasCRC: true},
		Type:   k.Type, Width: k.Width, Height: k.Height,
	}}}
}

// look fills in what files hold: reads them, but for those that the journal has with the size and time that
// they have now. It tells whether it read any.
func (s *scanner) look(ctx context.Context, entries []Entry, all []seen, buf []byte) (fresh bool, err error) {
	var todo []int
	var unread []Entry
	for i, e := range entries {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		now, err := s.files.stat(ctx, e)
		if err != nil {
			return false, sourceError(s.files, e, absent(e, err))
		}
		known, ok := s.journal.known(e.Path)
		if !ok || known.Size != now.size || known.MTime != now.mtime {
			known = seen{Path: e.Path, Size: now.size, MTime: now.mtime}
			todo, unread = append(todo, i), append(unread, e)
		} else {
			s.report(known.Size)
		}
		all[i] = known
	}
	if len(unread) > 1 {
		s.files.expect(ctx, unread)
	}
	var errs []error
	for n, f := range s.files.open(ctx, unread) { // all are closed, whatever happens to one
		k, e := &all[todo[n]], unread[n]
		errs = append(errs, s.readFile(ctx, k, e, f, buf, errs))
	}
	return len(unread) > 0, errors.Join(errs...)
}

// readFile reads and closes a file; after errors of others it is only closed.
func (s *scanner) readFile(ctx context.Context, k *seen, e Entry, f sourceFile, buf []byte, before []error) error {
	if f.err != nil {
		return sourceError(s.files, e, absent(e, f.err))
	}
	defer f.Close()
	if err := errors.Join(before...); err != nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	expected := k.Size
	if err := k.read(f, buf); err != nil {
		return sourceError(s.files, e, err)
	}
	if k.Size != expected {
		return sourceError(s.files, e, fmt.Errorf("%d bytes read, %d expected: %w", k.Size, expected, ErrChanged))
	}
	s.report(k.Size)
	return nil
}

func (s *scanner) report(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step(1, bytes)
}

// absent tells a file that was seen a moment ago from one that a list names and that never was.
func absent(e Entry, err error) error {
	if e.line != 0 {
		return err
	}
	return gone(err)
}

// sourceError names the file, and its line where it comes from a list.
func sourceError(files sourceFiles, e Entry, err error) error {
	return fmt.Errorf("%s%q: %w", atLine(e.line), files.address(e.Path), err)
}

// read sums the whole file and looks at its head.
func (k *seen) read(r io.Reader, buf []byte) error {
	p, err := media.Look(r, buf)
	k.Size, k.CRC, k.Type, k.Width, k.Height = p.Len, p.CRC, p.Type, p.Width, p.Height
	return err
}

// sift takes out, or refuses, files without content and, in folders, files of no media type.
func sift(items []item, l *Listing, skip bool) (kept []item, skipped []string, err error) {
	var bad []string
	for _, it := range items {
		why := ""
		switch {
		case it.parts[0].Len == 0:
			why = "is empty"
		case it.parts[0].Type == media.Unknown && !l.Explicit:
			why = "is of no known media type"
		}
		if why == "" {
			kept = append(kept, it)
			continue
		}
		bad = append(bad, fmt.Sprintf("%q %s", filesIn(l.Store).address(it.Path), why))
	}
	if len(bad) > 0 && !skip {
		return nil, nil, fmt.Errorf("%s: remove them, or leave them out with --skip-bad: %w", some(bad), ErrSource)
	}
	if len(kept) == 0 {
		return nil, nil, fmt.Errorf("nothing is left to pack: %s: %w", some(bad), ErrSource)
	}
	return kept, bad, nil
}

// some names the first few of many.
func some(all []string) string {
	const most = 20
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}
