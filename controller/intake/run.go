package intake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/checkpoint/watch"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

const (
	// findEvery is the time between two looks at the registry, and findSoon after one that failed or while nobody is followed.
	findEvery, findSoon = time.Minute, 5 * time.Second
	// readEvery is the time between two looks at a ledger's file.
	readEvery = time.Second
	// forgetAfter is how many looks at the registry an agent may be missing in before it is not asked any more.
	forgetAfter = 3
	// An agent that was lost is asked again after pauses that double; one that will not do better soon after awayFor.
	firstPause, longestPause = 500 * time.Millisecond, 30 * time.Second
	awayFor                  = 5 * time.Minute
)

// followed is an agent that is asked for its ledger. Its cursor outlives connections, and the agent's address.
type followed struct {
	node, addr string
	cancel     context.CancelFunc
	missing    int
	cursor     relay.Cursor
	hears      bool
}

// Run hears agents, ledgers and watched folders until ctx ends, and returns its error, or the engine's. It waits for all that it started.
func (in *Intake) Run(ctx context.Context) error {
	in.client = relay.NewClient(in.o.Client)
	defer func() { _ = in.client.Close() }() // nothing is under way
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return in.find(ctx, group) })
	for _, file := range in.o.Ledgers {
		group.Go(func() error { return in.readLedger(ctx, file) })
	}
	for _, w := range in.o.Watched {
		group.Go(func() error { return in.watch(ctx, w) })
	}
	return group.Wait()
}

// wait returns after d, or with ctx's error.
func (in *Intake) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-in.o.Clock.After(d):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// find looks for agents again and again, and follows each that may be believed.
func (in *Intake) find(ctx context.Context, group *errgroup.Group) error {
	agents, doubtful := map[string]*followed{}, map[string]string{}
	for {
		pause := findEvery
		found, err := in.finder.Find(ctx, in.o.Clock.Now(), in.silent())
		if err != nil && ctx.Err() == nil {
			in.o.Report(fmt.Errorf("the list of agents cannot be read: %w", err))
			pause = findSoon
		}
		listed := map[string]string{}
		for _, a := range found {
			if a.Trusted {
				listed[a.Node] = a.Addr
			} else if doubtful[a.Node] != a.Addr {
				doubtful[a.Node] = a.Addr
				in.o.Report(fmt.Errorf("agent %s at %s is not believed: its registry file does not belong to the store's owner: give its address, if it may be", a.Node, a.Addr))
			}
		}
		in.settle(ctx, group, agents, listed, err == nil)
		if len(agents) == 0 {
			pause = findSoon
		}
		if err := in.wait(ctx, pause); err != nil {
			return err
		}
	}
}

// silent are the nodes of agents that are followed and do not answer.
func (in *Intake) silent() (nodes []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for node, f := range in.followed {
		if !f.hears {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// settle follows the agents that are listed, and no longer those that were not for a while, where the list is complete.
func (in *Intake) settle(ctx context.Context, group *errgroup.Group, agents map[string]*followed, listed map[string]string, complete bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stats.Looked = true
	for node, f := range agents {
		addr, there := listed[node]
		switch {
		case there:
			f.missing = 0
		case complete:
			f.missing++
		}
		if f.missing >= forgetAfter || there && addr != f.addr {
			f.cancel()
			delete(agents, node)
			delete(in.followed, node)
			if there {
				agents[node] = in.follow(ctx, group, node, addr, f.cursor)
			}
		}
	}
	for node, addr := range listed {
		if agents[node] == nil {
			agents[node] = in.follow(ctx, group, node, addr, relay.Cursor{})
		}
	}
}

// follow begins to follow an agent. The lock is held.
func (in *Intake) follow(ctx context.Context, group *errgroup.Group, node, addr string, after relay.Cursor) *followed {
	ctx, cancel := context.WithCancel(ctx)
	f := &followed{node: node, addr: addr, cancel: cancel, cursor: after}
	in.followed[node] = f
	group.Go(func() error {
		defer cancel()
		return in.hear(ctx, f)
	})
	return f
}

// hear has an agent hand over what it keeps, again and again, until ctx ends.
func (in *Intake) hear(ctx context.Context, f *followed) error {
	limit := &bucket{size: agentBurst, rate: agentRate, at: in.o.Clock.Now()}
	silent, reported := false, time.Duration(0)
	for pause := firstPause; ; {
		heard := false
		following := func() {
			heard = true
			in.hears(f, true)
		}
		err := in.client.Records(ctx, f.addr, in.at(f), hints.MaxTTL, following, func(h relay.Handed) error { return in.handed(ctx, f, limit, h) })
		in.hears(f, false)
		var engine *engineError
		switch {
		case ctx.Err() != nil:
			return nil // Run's own end is told by its other parts
		case errors.As(err, &engine):
			return err
		case errors.Is(err, relay.ErrUnsupported), errors.Is(err, hints.ErrDenied), errors.Is(err, relay.ErrDamaged), errors.Is(err, relay.ErrVersion):
			in.o.Report(err)
			pause = awayFor
		case heard:
			silent, pause = false, firstPause
		default: // not each time that it is asked
			if now := in.o.Clock.Now(); !silent || now-reported >= awayFor {
				in.o.Report(fmt.Errorf("agent %s does not answer, and is asked again: %w", f.node, err))
				silent, reported = true, now
			}
		}
		if in.wait(ctx, pause) != nil {
			return nil
		}
		pause = min(2*pause, longestPause)
	}
}

// at is how far an agent's ledger was read.
func (in *Intake) at(f *followed) relay.Cursor {
	in.mu.Lock()
	defer in.mu.Unlock()
	return f.cursor
}

func (in *Intake) hears(f *followed, hears bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	f.hears = hears
}

// handed takes a record of an agent.
func (in *Intake) handed(ctx context.Context, f *followed, limit *bucket, h relay.Handed) error {
	came := in.o.Clock.Now()
	for pause := limit.take(came); pause > 0; pause = limit.take(in.o.Clock.Now()) {
		if err := in.wait(ctx, pause); err != nil {
			return err
		}
	}
	if err := in.take(ctx, "agent "+f.node, h.Record, h.Age+in.o.Clock.Now()-came); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	f.cursor = relay.Cursor{Number: h.Record.Number, ID: h.Record.ID}
	return nil
}

// readLedger reads a ledger's file while it grows.
func (in *Intake) readLedger(ctx context.Context, file string) error {
	tail := relay.NewTail(file, 0)
	defer func() { _ = tail.Close() }() // it was only read
	for {
		err := tail.Read(math.MaxUint64, func(r relay.Record) error {
			return in.take(ctx, "ledger "+file, r, in.o.Wall().Sub(time.UnixMilli(r.ReceivedMS)))
		})
		pause := readEvery
		var engine *engineError
		switch {
		case errors.As(err, &engine):
			return err
		case err != nil:
			in.o.Report(err)
			pause = longestPause
		}
		if err := in.wait(ctx, pause); err != nil {
			return err
		}
	}
}

// watch tells what becomes of checkpoints in a folder, as their job would.
func (in *Intake) watch(ctx context.Context, w Watched) error {
	o := watch.Options{Report: in.o.Report, Recent: 1, Clock: sleeper{in}}
	return watch.Watch(ctx, in.o.Store, w.Folder, o, func(ev watch.Event) error {
		return in.take(ctx, "watch "+w.Folder, noticed(w.Job, ev), 0)
	})
}

// sleeper is the clock of a watch.
type sleeper struct{ in *Intake }

func (s sleeper) Now() time.Duration { return s.in.o.Clock.Now() }

func (s sleeper) Sleep(ctx context.Context, d time.Duration) error { return s.in.wait(ctx, d) }

// noticed is what a job would have said of what was noticed in its folder.
func noticed(job string, ev watch.Event) relay.Record {
	h := hints.Hint{ID: hints.NewID(), Job: job, Run: "watched", TTL: hints.MaxTTL, Confidence: 1, Checkpoint: &hints.Checkpoint{State: hints.Deleted, Path: ev.Path, Step: -1}}
	if c := ev.Checkpoint; c != nil {
		h.Checkpoint.State = hints.Committed
		c.Foretell(&h)
		h.Checkpoint.Path = ev.Path
	}
	return relay.RecordOf(h, "", time.Time{}, func(path string) string { return path })
}
