package hdfs

import (
	"context"
	"path"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// listFrom is from how many files of a folder on their locations are asked for by listing it.
const listFrom = 3

// Prefetch implements store.Prefetcher. Files of one folder are asked for together, as many as the NameNode gives at a time
// (1,000 replicas by default); where blocks have tokens, which listings lack, each on its own. For 5 minutes the calls that
// follow ask nothing.
func (s *Store) Prefetch(ctx context.Context, names []string) error {
	if err := s.begin(ctx, names...); err != nil {
		return s.failed("Prefetch", "/", err)
	}
	folders := map[string][]string{}
	for _, name := range names {
		p := s.path(name)
		if _, until := s.layouts.get(p); !time.Now().Before(until) {
			folders[path.Dir(p)] = append(folders[path.Dir(p)], path.Base(p))
		}
	}
	var alone []string
	for dir, wanted := range folders {
		slices.Sort(wanted)
		wanted = slices.Compact(wanted)
		if len(wanted) >= listFrom && !s.tokens.Load() {
			if err := s.learnFolder(ctx, dir, wanted); err != nil {
				return failedAt("Prefetch", s.url(dir), err)
			}
			continue
		}
		for _, base := range wanted {
			alone = append(alone, path.Join(dir, base))
		}
	}
	s.each(len(alone), func(i int) {
		if l, _, err := s.open(ctx, alone[i]); err == nil && !l.open {
			s.layouts.put(l, time.Now().Add(prefetchedFor))
		}
	})
	if err := ctx.Err(); err != nil {
		return s.failed("Prefetch", "/", err)
	}
	return nil
}

// Forget implements store.Prefetcher.
func (s *Store) Forget(names []string) {
	for _, name := range names {
		s.layouts.forget(s.path(name))
	}
}

// learnFolder learns the wanted files of a folder, which are sorted, from listings that start before the next of them. What
// cannot be learned is left out.
func (s *Store) learnFolder(ctx context.Context, dir string, wanted []string) error {
	for len(wanted) > 0 {
		listing, err := s.names.GetListing(ctx, dir, before(wanted[0]), true)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		page := listing.GetPartialListing()
		if err != nil || len(page) == 0 {
			return nil
		}
		for _, status := range page {
			if _, found := slices.BinarySearch(wanted, string(status.GetPath())); found {
				s.learnListed(path.Join(dir, string(status.GetPath())), status)
			}
		}
		last := string(page[len(page)-1].GetPath())
		i, found := slices.BinarySearch(wanted, last)
		if found {
			i++
		}
		if i == 0 || listing.GetRemainingEntries() == 0 {
			return nil // nothing of what is left exists
		}
		wanted = wanted[i:]
	}
	return nil
}

// before is what a listing must start after to hold base: no name in UTF-8 lies between the two.
func before(base string) []byte {
	b := []byte(base)
	b[len(b)-1]--
	return append(b, 0xff)
}

// learnListed takes in a file as a listing describes it.
func (s *Store) learnListed(path string, status *hproto.FileStatus) {
	located := status.GetLocations()
	if status.GetFileType() != hproto.FileStatus_FILE || located == nil || located.GetUnderConstruction() || status.GetFileEncryptionInfo() != nil || status.GetEcPolicy() != nil {
		return
	}
	l := newLayout(path, status)
	if err := s.takeIn(l, located); err == nil {
		s.layouts.put(l, time.Now().Add(prefetchedFor))
	}
}
