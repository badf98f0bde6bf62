package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/cmd/daemon"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/cmd/sites"
	"github.com/stepahead-io/stepahead/cmd/version"
	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/execute"
	"github.com/stepahead-io/stepahead/controller/intake"
	"github.com/stepahead-io/stepahead/controller/journal"
	"github.com/stepahead-io/stepahead/controller/lease"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/policy"
	"github.com/stepahead-io/stepahead/controller/service"
	"github.com/stepahead-io/stepahead/controller/sources"
	"github.com/stepahead-io/stepahead/controller/timeline"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/store"
)

// program is a controller that runs.
type program struct {
	s        settings
	log      *zap.Logger
	given    given
	stores   *sites.Sites
	rules    *rulesWatch // nil: none were given, and nothing is allowed
	service  *service.Service
	registry *prometheus.Registry
	problems *problems
	clock    clock
	key      *catalogue.Key // that signs what readers are told; nil in a dry run
	looker   *intake.Looker
	timeline *timeline.Log
	hup      chan os.Signal
}

// serve runs a controller until ctx ends, or another one may be the active one.
func serve(ctx context.Context, s settings, out io.Writer) error {
	log, err := daemon.NewLog(s.logLevel)
	if err != nil {
		return exit.Usage(err)
	}
	defer func() { _ = log.Sync() }() // standard error may not support it
	p := &program{s: s, log: log, problems: newProblems(), clock: clock{time.Now()}, hup: make(chan os.Signal, 1)}
	signal.Notify(p.hup, syscall.SIGHUP)
	defer signal.Stop(p.hup)
	if err := p.configure(); err != nil {
		return err
	}
	if p.stores, err = sites.Open(ctx, s.store, p.given.urls); err != nil {
		return err
	}
	defer p.stores.Close()
	p.looker = intake.NewLooker(intake.LookerOptions{Stores: p.stores, Labels: policy.LabelsOf})
	p.timeline = timeline.NewLog(s.homeSite)
	lis, err := net.Listen("tcp", s.at.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer lis.Close()
	return p.run(ctx, lis, out)
}

// run serves, and acts while this controller is the active one.
func (p *program) run(ctx context.Context, lis net.Listener, out io.Writer) error {
	p.registry = prometheus.NewRegistry()
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var err error
	if p.service, err = service.New(service.Options{Version: version.Text(), Log: p.log, Metrics: p.registry, Keys: p.given.keys, TLS: p.given.tls}); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	line := "listening addr=" + lis.Addr().String()
	if p.s.at.Pages != "" {
		pages, err := net.Listen("tcp", p.s.at.Pages)
		if err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		line += " metrics=" + pages.Addr().String()
		group.Go(func() error { return daemon.ServePages(ctx, pages, p.registry, p.service.Handler()) })
	}
	group.Go(func() error { return p.service.Run(ctx, lis) })
	group.Go(func() error { return p.act(ctx) })
	_, err = fmt.Fprintln(out, line)
	return errors.Join(err, group.Wait())
}

// act waits until this controller is the active one, and is it until ctx ends. A dry run needs to be nobody.
func (p *program) act(ctx context.Context) error {
	if p.s.dryRun {
		return p.rehearse(ctx)
	}
	claim, err := lease.Acquire(ctx, p.stores.Home(), lease.Options{Waiting: func(err error) {
		p.log.Info("standby: another controller is the active one, or the store does not answer", zap.Error(err))
	}})
	if ctx.Err() != nil {
		return nil // nobody is told that it waited
	}
	if err != nil {
		return err
	}
	defer func() {
		if err := claim.Release(); err != nil {
			p.log.Warn("the lease was not given back: it ends by itself", zap.Error(err))
		}
	}()
	j, err := journal.Open(journal.Options{File: p.s.journal})
	if err != nil {
		return fmt.Errorf("--journal: %w", err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			p.log.Error("journal", zap.Error(err))
		}
	}()
	log, err := p.openAudit()
	if err != nil {
		return err
	}
	defer p.closeAudit(log)
	p.recall(log)
	name, err := execute.Name(j, p.s.journal)
	if err != nil {
		return err
	}
	o := p.engine(name)
	o.Journal, o.Lease, o.World = j, claim, p.world()
	if o.Makers, err = p.makers(name, *p.key); err != nil {
		return err
	}
	revoked := &revocations{file: p.s.journal + revokedSuffix}
	said, err := p.remembered(revoked)
	if err != nil {
		return err
	}
	o.Settings = append(o.Settings, said...)
	return p.begin(ctx, o, service.Active{
		Name: name, Audit: log, Held: claim.Held, Sweep: p.sweeper(name, claim.Held), Drained: p.rememberDrained, Revoked: revoked.add,
	})
}

// rehearse plans and acts on nothing.
func (p *program) rehearse(ctx context.Context) error {
	log, err := p.openAudit()
	if err != nil {
		return err
	}
	defer p.closeAudit(log)
	o := p.engine("dry-run")
	o.DryRun = true
	return p.begin(ctx, o, service.Active{Name: "dry-run", Audit: log, DryRun: true})
}

func (p *program) openAudit() (*audit.Log, error) {
	if p.s.audit == "" {
		return nil, nil
	}
	l, err := audit.Open(audit.Options{File: p.s.audit, Warn: func(err error) { p.log.Error("audit log", zap.Error(err)) }})
	if err != nil {
		return nil, fmt.Errorf("--audit: %w", err)
	}
	return l, nil
}

// recall has the timeline know what controllers did before this start, as far as anything that jobs say can be about it.
func (p *program) recall(l *audit.Log) {
	if l == nil {
		return
	}
	now, wall := p.clock.Now(), p.clock.Wall()
	err := l.Read(0, wall.Add(-hints.MaxTTL), func(line audit.Line) error {
		p.timeline.Did(line.Entry, now, wall)
		return nil
	})
	if err != nil {
		p.log.Warn("what was done before the start is not in timelines", zap.Error(err))
	}
}

func (p *program) closeAudit(l *audit.Log) {
	if l == nil {
		return
	}
	if err := l.Close(); err != nil {
		p.log.Error("audit log", zap.Error(err))
	}
}

// engine returns the options of the engine, but for what only an active controller has.
func (p *program) engine(name string) execute.Options {
	o := execute.Options{
		Plan: plan.Options{Home: p.s.homeSite, Grace: p.s.grace, HostsShare: p.s.hostsShare}, Name: name, Clock: p.clock, Log: p.log, Reconcile: p.s.reconcile, Looker: p.looker,
		Audit: func(e audit.Entry) {
			p.service.Record(e)
			p.timeline.Did(e, p.clock.Now(), p.clock.Wall())
			if p.s.dryRun {
				p.log.Info("dry run", zap.String("what", e.What), zap.Uint64("placement", uint64(e.Placement)), zap.String("path", e.Path), zap.String("site", e.Site), zap.String("why", e.Why))
			}
		},
	}
	if p.rules != nil {
		o.Settings = p.rules.begin(p.clock.Wall())
	}
	return o
}

// begin runs the engine, and what tells it of the world, until ctx ends or the engine does.
func (p *program) begin(ctx context.Context, o execute.Options, a service.Active) error {
	e, err := execute.New(o)
	if err != nil {
		return err
	}
	in, facts, err := p.listeners(e, o.Name, p.timeline)
	if err != nil {
		return err
	}
	p.registry.MustRegister(heard{in, facts})
	a.Engine, a.Stats, a.Progress, a.Timeline, a.Resolve = e, e.Stats, e.Progress, p.timeline, p.stores.Place().Resolve
	a.Ready = func(ctx context.Context, path string, id plan.ID) (map[string]int, error) {
		return sources.Ready(ctx, p.stores.Home(), path, o.Name, id)
	}
	a.Problems = func() []string { return append(p.problems.all(), p.silence(in.Stats())...) }
	p.service.Activate(a) // before the engine does anything: that has its line in the audit log
	p.log.Info("active", zap.String("controller", a.Name), zap.Bool("dry-run", a.DryRun))
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group.Go(func() error {
		defer cancel() // nothing is to be told any more
		err := e.Run(ctx)
		if ctx.Err() != nil && !errors.Is(err, store.ErrNotHeld) {
			return nil // it was to end, whatever that interrupted
		}
		return err
	})
	beside := func(run func(ctx context.Context) error) {
		group.Go(func() error {
			if err := run(ctx); err != nil && ctx.Err() == nil { // the engine has ended, and says why
				p.log.Debug("ended", zap.Error(err))
			}
			return nil
		})
	}
	if p.rules != nil {
		p.rules.tell = e.Tell
		beside(func(ctx context.Context) error { return p.rules.run(ctx, p.hup) })
	}
	if p.key != nil {
		beside(func(ctx context.Context) error { return p.publishKey(ctx, p.stores, p.stores.Names(), *p.key) })
	}
	beside(facts.Run)
	beside(func(ctx context.Context) error {
		select {
		case <-facts.Ready():
			return in.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// clock is the time of this process.
type clock struct{ began time.Time }

func (c clock) Now() time.Duration                   { return time.Since(c.began) }
func (clock) Wall() time.Time                        { return time.Now() }
func (clock) After(d time.Duration) <-chan time.Time { return time.After(d) }
