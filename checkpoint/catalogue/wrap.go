package catalogue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/store"
)

// Options say where readers look. With the zero value they look nowhere.
type Options struct {
	// Site is the store whose catalogue has rows of copies of the files; nil: no copies are read. It is not closed by the Store.
	Site store.Store
	// Of is how many readers of the same files there are, and Index, from 0 on, the number of this one: then the rows of hot files in the catalogue of the store itself are
	// followed. 0: they are not.
	Index, Of int
	// Keys are trusted, and no others; nil: those of TrustedKeys.
	Keys Keys
	// Report, if not nil, is told of each damage; word of it is left in the store of the row in any case.
	Report func(Damage)
	// Log says once for each placement and reason why the original was read. Default: nothing is said.
	Log *zap.Logger
	// Now is a monotonic clock. Default: that of this process.
	Now func() time.Duration
}

// Stats count what was read, and why not otherwise.
type Stats struct {
	// CopyBytes came from copies, SiblingBytes from siblings of hot files, EvenBytes from the original's replica that was this reader's turn, and OriginalBytes from
	// the original although a row leads elsewhere.
	CopyBytes     int64 `json:"copy_bytes"`
	SiblingBytes  int64 `json:"sibling_bytes"`
	EvenBytes     int64 `json:"even_bytes"`
	OriginalBytes int64 `json:"original_bytes"`
	// Fallbacks counts files, and single reads of hot files, by why the original was read.
	Fallbacks map[string]int64 `json:"fallbacks,omitempty"`
}

// Why the original is read although a row leads elsewhere.
const (
	// ReasonChanged: the original is not the version of which the row knows a copy.
	ReasonChanged = "original-changed"
	// ReasonUnknown: the copy has no such file.
	ReasonUnknown = "not-in-copy"
	// ReasonMissing: the copy's file is gone.
	ReasonMissing = "copy-missing"
	// ReasonOther: the copy's file is another version than the row says.
	ReasonOther = "copy-changed"
	// ReasonRead: reading the copy failed, or took too long.
	ReasonRead = "copy-unreadable"
	// ReasonCorrupt: the copy's bytes are wrong.
	ReasonCorrupt = "copy-corrupt"
	// ReasonNode: a replica could not be read alone.
	ReasonNode = "replica-unreadable"
	// ReasonPlaces: where the replicas of the original are could not be asked.
	ReasonPlaces = "places-unknown"
	// ReasonSuspended: the copy failed a short while ago.
	ReasonSuspended = "copy-suspended"
	// ReasonExpired, ReasonSignature and ReasonRow: the row is of no use; ReasonSite: the catalogue could not be read.
	ReasonExpired   = "row-expired"
	ReasonSignature = "row-not-trusted"
	ReasonRow       = "row-bad"
	ReasonSite      = "catalogue-unreadable"
)

// reasonOf says what is wrong with a copy of which an error is known.
func reasonOf(err error) string {
	switch store.ClassOf(err) {
	case store.NotFound:
		return ReasonMissing
	case store.IdentityChanged:
		return ReasonOther
	case store.Corrupt:
		return ReasonCorrupt
	}
	return ReasonRead
}

// suspendedFor is how long a copy that failed is left alone.
const suspendedFor = 5 * time.Minute

// Store reads from temporary copies what another store has, wherever these are known to be the same, and from that store on any doubt: who reads notices
// nothing but the time it takes. Names, sizes and versions are always those of that store, asked there; everything else is done there.
type Store struct {
	store.Store
	o           Options
	copies, hot *Resolver // nil: not looked for

	mu        sync.Mutex
	stats     Stats
	said      map[string]bool
	suspended map[placement]time.Duration // until
}

var (
	_ store.Store      = (*Store)(nil)
	_ store.ManyReader = (*Store)(nil)
	_ store.Prefetcher = (*Store)(nil)
)

// Wrap returns a store that reads what st has. It does no I/O.
func Wrap(st store.Store, o Options) *Store {
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Duration { return time.Since(start) }
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	s := &Store{Store: st, o: o, said: map[string]bool{}, suspended: map[placement]time.Duration{}}
	r := ResolverOptions{Keys: o.Keys, Now: o.Now}
	if o.Site != nil {
		s.copies = NewResolver(o.Site, r)
	}
	if o.Of > 0 && o.Index >= 0 {
		s.hot = NewResolver(st, r)
	}
	return s
}

// Stats returns what was counted so far.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Fallbacks = maps.Clone(s.stats.Fallbacks)
	return out
}

// Open implements store.Store. The file is the original's version at this moment, whatever its bytes are read from.
func (s *Store) Open(ctx context.Context, name string) (store.File, error) {
	original, err := s.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if s.copies != nil {
		if f := s.openCopy(ctx, name, original); f != nil {
			return f, nil
		}
	}
	if s.hot != nil {
		if f := s.openHot(ctx, name, original); f != nil {
			return f, nil
		}
	}
	return original, nil
}

// openHot returns a hot file; nil where there is no row of it.
func (s *Store) openHot(ctx context.Context, name string, original store.File) store.File {
	row, err := s.row(ctx, s.hot, s.Address(name))
	if err != nil || row.Sources == nil {
		return nil
	}
	if s.isSuspended(row) {
		s.fell(row, ReasonSuspended, s.Address(name), nil)
		return nil
	}
	if row.Identity != string(original.Identity()) || row.Sources.Size != original.Size() {
		s.fell(row, ReasonChanged, s.Address(name), nil)
		return nil
	}
	return newHot(s, row, name, original)
}

// row returns the row of a path. An error that does not match ErrNone is counted.
func (s *Store) row(ctx context.Context, r *Resolver, url string) (Row, error) {
	row, err := r.Resolve(ctx, url)
	if err == nil || errors.Is(err, ErrNone) || ctx.Err() != nil {
		return row, err
	}
	reason := ReasonSite
	switch {
	case errors.Is(err, ErrExpired):
		reason = ReasonExpired
	case errors.Is(err, ErrSignature):
		reason = ReasonSignature
	case errors.Is(err, ErrRow):
		reason = ReasonRow
	}
	s.fell(Row{}, reason, url, err)
	return row, err
}

// maxSaid bounds what is remembered of what was logged.
const maxSaid = 1000

// fell counts that the original is read, and says so once for each row and reason.
func (s *Store) fell(row Row, reason, file string, err error) {
	key := fmt.Sprint(row.Controller, " ", row.Placement, " ", reason)
	s.mu.Lock()
	if s.stats.Fallbacks == nil {
		s.stats.Fallbacks = map[string]int64{}
	}
	s.stats.Fallbacks[reason]++
	known := s.said[key] || len(s.said) >= maxSaid
	if !known {
		s.said[key] = true
	}
	s.mu.Unlock()
	if !known {
		s.o.Log.Warn("the original is read, not a copy", zap.String("reason", reason), zap.String("file", file), zap.String("controller", row.Controller),
			zap.Uint64("placement", row.Placement), zap.Error(err))
	}
}

// damaged tells the controller, through the store of the row, and whoever asked to be told, that something that a row leads to is not what it says.
func (s *Store) damaged(ctx context.Context, st store.Store, row Row, file string, cause error) {
	d := Damage{Placement: row.Placement, Controller: row.Controller, File: file, Detail: cause.Error()}
	if s.o.Report != nil {
		s.o.Report(d)
	}
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	if err := ReportDamage(ctx, st, d); err != nil {
		s.o.Log.Warn("nobody could be told of a damaged copy", zap.Error(err))
	}
}

// placement names one.
type placement struct {
	controller string
	number     uint64
}

func placementOf(row Row) placement { return placement{row.Controller, row.Placement} }

// suspend leaves a copy alone for a while.
func (s *Store) suspend(row Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended[placementOf(row)] = s.o.Now() + suspendedFor
}

func (s *Store) isSuspended(row Row) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.suspended[placementOf(row)]
	if ok && s.o.Now() >= until {
		delete(s.suspended, placementOf(row))
		return false
	}
	return ok
}

// count adds to one of the numbers of bytes.
func (s *Store) count(to *int64, ranges []store.Range) {
	n := int64(0)
	for _, r := range ranges {
		n += int64(len(r.Buf))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*to += n
}

// manyAtOnce is how many files ReadMany reads at a time.
const manyAtOnce = 32

// ReadMany implements store.ManyReader.
func (s *Store) ReadMany(ctx context.Context, files []store.FileRanges) error {
	var plain []store.FileRanges
	var places []int // of plain, in files
	var group errgroup.Group
	group.SetLimit(manyAtOnce)
	for i := range files {
		if _, ours := files[i].File.(*file); !ours {
			plain, places = append(plain, files[i]), append(places, i)
			continue
		}
		group.Go(func() error {
			files[i].Err = files[i].File.ReadRanges(ctx, files[i].Ranges)
			return nil
		})
	}
	var err error
	if len(plain) > 0 {
		err = store.ReadMany(ctx, s.Store, plain)
	}
	_ = group.Wait() // files have the errors
	for k, i := range places {
		files[i].Err = plain[k].Err
	}
	return errors.Join(err, ctx.Err())
}

// Prefetch implements store.Prefetcher: of the originals, and of the copies, which are asked for anew.
func (s *Store) Prefetch(ctx context.Context, names []string) error {
	if s.copies != nil {
		if p, ok := s.o.Site.(store.Prefetcher); ok {
			copies := s.copied(ctx, names)
			p.Forget(copies)
			_ = p.Prefetch(ctx, copies) // opening one says what is wrong
		}
	}
	if p, ok := s.Store.(store.Prefetcher); ok {
		return p.Prefetch(ctx, names)
	}
	return nil
}

// Forget implements store.Prefetcher. What was learned of copies stays until the next Prefetch: their rows say which version they have to be.
func (s *Store) Forget(names []string) {
	if p, ok := s.Store.(store.Prefetcher); ok {
		p.Forget(names)
	}
}

// copied returns the names of the copies of files, as far as there are any.
func (s *Store) copied(ctx context.Context, names []string) []string {
	var out []string
	for _, name := range names {
		if row, f, ok := s.copyOf(ctx, name); ok {
			out = append(out, path.Join(row.Copy.Place, f.Name))
		}
	}
	return out
}

// copyOf returns the row and the entry of a file in it: of the nearest of the folders that it lies in, and itself, that has a row. One that is of no use ends the search, too.
func (s *Store) copyOf(ctx context.Context, name string) (Row, CopyFile, bool) {
	for at := name; ; at = path.Dir(at) {
		row, err := s.row(ctx, s.copies, s.Address(at))
		if err == nil && row.Copy != nil {
			f, ok := row.FileOf(s.Address(name))
			if !ok {
				s.fell(row, ReasonUnknown, s.Address(name), fs.ErrNotExist)
			}
			return row, f, ok
		}
		if path.Dir(at) == at || err != nil && !errors.Is(err, ErrNone) { // the root, or "." of a name that is none
			return Row{}, CopyFile{}, false
		}
	}
}
