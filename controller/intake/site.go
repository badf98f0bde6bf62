package intake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

const (
	// probeEvery is the time between two measurements of a site, probeBytes what one writes and reads.
	probeEvery = 10 * time.Minute
	probeBytes = 4 << 20
)

// localRate is what is believed of reading a copy that is there.
const localRate = 1e9

// unprobeTime bounds how long the end of a controller waits for a site to remove what was written to measure it.
const unprobeTime = 5 * time.Second

// site is another datacenter as it was found last.
type site struct {
	o      FactsOptions
	given  Site
	looked chan struct{} // closed when it was looked at once

	mu   sync.Mutex // is held while the engine is told
	told bool

	// What follows is of the goroutine that looks.
	is     plan.Site
	probed bool
	probe  time.Duration // when it was probed last
}

// look finds out how the site fares and tells it.
func (s *site) look(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	was := s.is
	err := s.ask(asked)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.o.Report(fmt.Errorf("site %s: %w", s.given.Name, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told && !siteDiffers(was, s.is) {
		s.is = was // small steps add up
		return nil
	}
	s.told = true
	return tell(ctx, s.o.Engine, plan.SiteChanged{Site: s.is})
}

// unheard tells of a site of which nothing was told that it does not answer.
func (s *site) unheard(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told {
		return nil
	}
	s.told = true
	s.o.Report(fmt.Errorf("site %s: it has not answered yet, and counts as one that does not", s.given.Name))
	return tell(ctx, s.o.Engine, plan.SiteChanged{Site: plan.Site{Name: s.given.Name}})
}

// ask finds out how the site is.
func (s *site) ask(ctx context.Context) error {
	s.is.Name = s.given.Name
	st, err := s.o.Stores.Site(ctx, s.given.Name)
	if err == nil {
		_, err = st.Stat(ctx, "/")
	}
	if err != nil {
		s.is.Up, s.probed = false, false
		return err
	}
	s.is.Up, s.is.LocalRate = true, localRate
	if s.is.Free, err = freeOf(ctx, st); err != nil {
		return fmt.Errorf("its free space is not known: %w", err)
	}
	if s.given.RemoteRate > 0 {
		s.is.RemoteRate = s.given.RemoteRate
	}
	if s.o.ReadOnly {
		s.is.Writable = true // nothing will be written
		return nil
	}
	if now := s.o.Clock.Now(); !s.probed || now-s.probe >= probeEvery {
		err := s.measure(ctx, st)
		s.probed, s.probe = err == nil, now // what failed is tried again soon
		return err
	}
	return nil
}

// replicasOf is how many replicas a copy is believed to have, where there are nodes for them.
const replicasOf = 3

// freeOf is how many bytes of files fit into a store's nodes; of a store that does not tell more than anybody fills.
func freeOf(ctx context.Context, st store.Store) (int64, error) {
	nodes, err := nodesOf(ctx, st)
	if errors.Is(err, errors.ErrUnsupported) {
		return 1 << 61, nil
	}
	free, serve := 0.0, 0
	for _, n := range nodes {
		if n.InService {
			free += float64(n.Free)
			serve++
		}
	}
	return int64(min(free/float64(max(min(serve, replicasOf), 1)), 1<<61)), err
}

// measure writes a small file, reads it back and removes it: whether the site takes files, and how fast it is read from here. What killed processes left beside
// the marks goes too.
func (s *site) measure(ctx context.Context, st store.Store) error {
	name := temporary.ProbeOf(s.o.Controller)
	data := make([]byte, probeBytes)
	_, _ = rand.Read(data) // never fails; a link may compress what is not random
	s.is.Writable = false
	if err := store.ReplaceFile(ctx, st, name, data); err != nil {
		return errors.Join(fmt.Errorf("it takes no files: %w", err), unprobe(ctx, st, name))
	}
	info, stated := st.Stat(ctx, name) // for the clock of the store
	began := s.o.Clock.Now()
	_, err := store.ReadFile(ctx, st, name, int64(len(data)))
	took := s.o.Clock.Now() - began
	if err = errors.Join(err, unprobe(ctx, st, name)); err == nil && stated == nil {
		err = temporary.Clean(ctx, st, temporary.SweepOptions{Now: info.ModTime})
	}
	if err != nil {
		return fmt.Errorf("what was written cannot be read or removed: %w", err)
	}
	s.is.Writable = true
	if s.given.RemoteRate == 0 && took > 0 {
		rate := int64(float64(len(data)) / took.Seconds())
		if s.is.RemoteRate > 0 {
			rate = (s.is.RemoteRate + rate) / 2
		}
		s.is.RemoteRate = rate
	}
	return nil
}

// unprobe removes what measure wrote, also when there is no time any more.
func unprobe(ctx context.Context, st store.Store, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unprobeTime)
	defer cancel()
	return temporary.Remove(ctx, st, name)
}
