package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/store"
)

const (
	// lookEvery is the time between two looks.
	lookEvery = 30 * time.Second
	// askTime bounds what is asked of one store at a time.
	askTime = 20 * time.Second
	// firstAnswer is how long sites are waited for at the start: one that has not answered by then counts as one that does not, until it does.
	firstAnswer = 5 * time.Second
	// believedFor is how long what was known of a cluster counts that does not answer any more.
	believedFor = 5 * time.Minute
	// waitingReads bounds the starts that wait to be looked at, and filesOfStart the files of one.
	waitingReads = 64
	filesOfStart = 256
	// freeShare is the part of the free space that temporary replicas may fill; busyTransfers keep a node as busy as it can be.
	freeShare     = 0.1
	busyTransfers = 64
)

// Site is another datacenter. RemoteRate is the bytes a second at which an evaluation there reads what is not there; 0: it is measured.
type Site struct {
	Name       string
	RemoteRate int64
}

// FactsOptions configure [Facts]. Engine, Clock, Stores, Looker and Controller have no default.
type FactsOptions struct {
	Engine Engine
	Clock  Clock
	Stores controller.Stores
	Looker *Looker
	// Controller is the name of the journal, which rows of the catalogue and probes have.
	Controller string
	// Keys are believed beside those that a store trusts (catalogue.TrustedKeys): the controller's own.
	Keys  catalogue.Keys
	Sites []Site
	// Cluster is what is believed of the cluster as long as it does not tell. Its NodeRate and ReadersPerSource are replaced by what starts show, once they
	// show it. Defaults: 100 MB/s, 4 readers, at most 512 replicas.
	Cluster plan.Cluster
	// HostsShare says that the ranks of a host share what they read, so that a host is one reader.
	HostsShare bool
	// Sources returns how many sources a file has by the controller's doing; 0: no more than it had. [SourcesOf] makes one. Default: none has.
	Sources func(ctx context.Context, path string) int
	// Readers returns how many readers a run's start announced of each of some files, 0 where it announced none: of starts that do not say how much a rank read, it is
	// taken from that. [ReadersOf] makes one. Default: none is known.
	Readers func(ctx context.Context, job, run string, paths []string) []int
	// ReadOnly writes nothing: sites are not probed, and reports of damage stay.
	ReadOnly bool
	// Report, if not nil, gets what failed and will be tried again. It is called by several goroutines.
	Report func(error)
}

func (o FactsOptions) withDefaults() (FactsOptions, error) {
	if o.Engine == nil || o.Clock == nil || o.Stores == nil || o.Looker == nil || o.Controller == "" {
		return o, fmt.Errorf("intake.NewFacts: Engine, Clock, Stores, Looker and Controller must be given: %w", fs.ErrInvalid)
	}
	o.Cluster.NodeRate = cmp.Or(o.Cluster.NodeRate, 100e6)
	o.Cluster.ReadersPerSource = cmp.Or(o.Cluster.ReadersPerSource, 4)
	o.Cluster.MaxReplication = cmp.Or(o.Cluster.MaxReplication, 512)
	if o.Sources == nil {
		o.Sources = func(context.Context, string) int { return 0 }
	}
	if o.Readers == nil {
		o.Readers = func(_ context.Context, _, _ string, paths []string) []int { return make([]int, len(paths)) }
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	return o, nil
}

// Facts find out how the cluster and the sites fare, what starts show of them, and whether readers found damage. [Facts.Run] runs them.
type Facts struct {
	o     FactsOptions
	reads chan relay.Record
	ready chan struct{}
	nodes atomic.Pointer[[]store.Node] // as they were last

	sites   []*site
	starts  starts // of the goroutine that looks at home, as is what follows
	cluster plan.Cluster
	told    bool
	heard   time.Duration // when the cluster answered last
	settled chan struct{} // closed when home was looked at once
}

// NewFacts returns facts. It does no I/O.
func NewFacts(o FactsOptions) (*Facts, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Facts{o: o, reads: make(chan relay.Record, waitingReads), ready: make(chan struct{}), settled: make(chan struct{})}
	for _, s := range o.Sites {
		f.sites = append(f.sites, &site{o: o, given: s, looked: make(chan struct{})})
	}
	return f, nil
}

// Read takes what ranks say of how long their start took. It waits for nothing.
func (f *Facts) Read(r relay.Record) {
	select {
	case f.reads <- r:
	default: // one of many
	}
}

// Nodes are those of the cluster as it told of them last; none where it does not. They are not to be changed.
func (f *Facts) Nodes() []store.Node {
	if nodes := f.nodes.Load(); nodes != nil {
		return *nodes
	}
	return nil
}

// Ready is closed when everything was looked at once, and told, or soon, whatever does not answer. What jobs foretell should be told afterwards: a planner that does not know
// a site undoes what a predecessor left there.
func (f *Facts) Ready() <-chan struct{} { return f.ready }

// Run finds out again and again, and tells the engine what changed, until ctx ends or the engine does; it returns that error. No store waits for another. It runs once.
func (f *Facts) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.followHome(ctx) })
	group.Go(func() error { return f.heed(ctx, "") })
	for _, s := range f.sites {
		group.Go(func() error { return f.followSite(ctx, s) })
		group.Go(func() error { return f.heed(ctx, s.given.Name) })
	}
	group.Go(func() error { return f.first(ctx) })
	return group.Wait()
}

// first waits for the first look at everything, but not for long, and says then that all is ready.
func (f *Facts) first(ctx context.Context) error {
	late := f.o.Clock.After(firstAnswer)
	over := false
	wait := func(looked <-chan struct{}) error {
		select { // what is known is known, however late it is
		case <-looked:
			return nil
		default:
		}
		if over {
			return nil
		}
		select {
		case <-looked:
		case <-late:
			over = true
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
	if err := wait(f.settled); err != nil {
		return err
	}
	for _, s := range f.sites {
		if err := wait(s.looked); err != nil {
			return err
		}
		if err := s.unheard(ctx); err != nil {
			return err
		}
	}
	close(f.ready)
	return nil
}

// followHome looks at the home store, and learns from starts.
func (f *Facts) followHome(ctx context.Context) error {
	for first := true; ; first = false {
		if err := f.lookAtHome(ctx); err != nil {
			return err
		}
		if first {
			close(f.settled)
		}
		for next := f.o.Clock.After(lookEvery); next != nil; {
			select {
			case r := <-f.reads:
				f.observe(ctx, r)
			case <-next:
				next = nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// lookAtHome looks at the home store once.
func (f *Facts) lookAtHome(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return f.lookAtCluster(ctx) })
	group.Go(func() error {
		if found := f.o.Looker.LookAgain(ctx); len(found) > 0 {
			return tell(ctx, f.o.Engine, plan.Looked{Files: found})
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// followSite looks at a site.
func (f *Facts) followSite(ctx context.Context, s *site) error {
	for first := true; ; first = false {
		if err := s.look(ctx); err != nil {
			return err
		}
		if first {
			close(s.looked)
		}
		select {
		case <-f.o.Clock.After(lookEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAtCluster asks the nodes, and tells what changed.
func (f *Facts) lookAtCluster(ctx context.Context) error {
	now := f.o.Clock.Now()
	asked, cancel := context.WithTimeout(ctx, askTime)
	nodes, err := nodesOf(asked, f.o.Stores.Home())
	cancel()
	f.nodes.Store(&nodes) // none where they are not known now
	s := survey{configured: f.o.Cluster, tagged: f.o.Looker.o.Tagged}
	if e, known := f.starts.estimate(); known {
		s.configured.NodeRate, s.configured.ReadersPerSource = int64(e.nodeRate), e.readersPerSource
	}
	var c plan.Cluster
	switch {
	case err == nil:
		c, f.heard = s.of(nodes), now
	case errors.Is(err, errors.ErrUnsupported):
		c, f.heard = s.configured, now
	case ctx.Err() != nil:
		return ctx.Err()
	case f.told && now-f.heard < believedFor:
		f.o.Report(fmt.Errorf("the nodes of the cluster are not known now: %w", err))
		return nil
	default: // nothing is made on a cluster of which nothing is known
		f.o.Report(fmt.Errorf("the nodes of the cluster are not known: nothing new is made: %w", err))
	}
	if f.told && !differs(c, f.cluster) {
		return nil
	}
	f.cluster, f.told = c, true
	return tell(ctx, f.o.Engine, plan.ClusterChanged{Cluster: c})
}

func nodesOf(ctx context.Context, st store.Store) ([]store.Node, error) {
	l, ok := st.(store.NodeLister)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return l.Nodes(ctx)
}

func tell(ctx context.Context, e Engine, ev plan.Event) error {
	if err := e.Tell(ctx, "facts", ev); err != nil {
		return &engineError{err}
	}
	return nil
}

// observe learns from a start that is over: how many bytes a second its last reader got, and how many readers there were at each source.
func (f *Facts) observe(ctx context.Context, r relay.Record) {
	s := r.Start
	if s == nil || s.LastMS <= 0 || s.Ranks == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	sources, announced := 0, 0.0
	files := f.files(ctx, r.Paths())
	announcedOf := f.o.Readers(ctx, r.Job, r.Run, files)
	for i, file := range f.o.Looker.Look(ctx, files) {
		if file.Identity != "" && file.Size > 0 {
			sources += max(file.Replicas*file.Blocks, f.o.Sources(ctx, file.Path))
			announced += float64(file.Size) * float64(announcedOf[i])
		}
	}
	if f.cluster.Nodes > 0 {
		sources = min(sources, f.cluster.Nodes)
	}
	readers := s.Ranks
	if f.o.HostsShare && s.RanksPerHost > 0 {
		readers = (s.Ranks + s.RanksPerHost - 1) / s.RanksPerHost
	}
	bytes := float64(s.Bytes)
	if s.Bytes <= 0 {
		bytes = announced / float64(readers)
	}
	if sources > 0 {
		f.starts.add(observation{readers: float64(readers) / float64(sources), rate: 1000 * bytes / float64(s.LastMS)})
	}
}

// ReadersOf returns a FactsOptions.Readers that asks the planner; ask is execute.Engine.Ask.
func ReadersOf(ask func(ctx context.Context, f func(p *plan.Planner, now time.Duration)) error) func(ctx context.Context, job, run string, paths []string) []int {
	return func(ctx context.Context, job, run string, paths []string) []int {
		readers := make([]int, len(paths))
		var known []int
		if ask(ctx, func(p *plan.Planner, _ time.Duration) { known = p.Readers(job, run, paths) }) == nil {
			copy(readers, known)
		}
		return readers
	}
}

// SourcesOf returns a FactsOptions.Sources that asks the planner; ask is execute.Engine.Ask.
func SourcesOf(ask func(ctx context.Context, f func(p *plan.Planner, now time.Duration)) error) func(ctx context.Context, path string) int {
	return func(ctx context.Context, path string) (sources int) {
		err := ask(ctx, func(p *plan.Planner, _ time.Duration) {
			standing, _ := p.Why(path)
			for _, s := range standing {
				if s.Begun() {
					sources = max(sources, s.Sources)
				}
			}
		})
		if err != nil {
			return 0
		}
		return sources
	}
}

// files are those at paths, some of which are folders.
func (f *Facts) files(ctx context.Context, paths []string) (files []string) {
	for _, path := range paths {
		infos, err := f.o.Stores.Home().List(ctx, path)
		if err != nil {
			files = append(files, path)
			continue
		}
		for _, info := range infos {
			if !info.Dir {
				files = append(files, info.Name)
			}
		}
	}
	return files[:min(len(files), filesOfStart)]
}
