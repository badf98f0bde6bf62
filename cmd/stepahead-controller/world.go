package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/copies"
	"github.com/stepahead-io/stepahead/controller/execute"
	"github.com/stepahead-io/stepahead/controller/intake"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/policy"
	"github.com/stepahead-io/stepahead/controller/sources"
	"github.com/stepahead-io/stepahead/controller/timeline"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// makers carry out the means that this controller has.
func (p *program) makers(name string, key catalogue.Key) (map[plan.Means]controller.Maker, error) {
	grace := p.s.grace + time.Minute // nobody undoes what this controller still leaves to readers
	makers, err := sources.New(sources.Options{
		Stores: p.stores, Controller: name, Key: key, Clock: p.clock, Log: p.log, Grace: grace,
		Restored: func(r sources.Restoration) { p.log.Info("restored", zap.Any("file", r)) },
	})
	if err != nil {
		return nil, err
	}
	makers[plan.Copy], err = copies.New(copies.Options{
		Controller: name, Stores: p.stores, Key: key, Clock: p.clock, Grace: grace,
		Labels: func(ctx context.Context, path string) (map[string]string, error) {
			return policy.LabelsOf(ctx, p.stores.Home(), path)
		},
	})
	return makers, err
}

const (
	// publishTime bounds the writing of a public key into one store, publishEvery is the time between two tries.
	publishTime, publishEvery = 20 * time.Second, 30 * time.Second
)

// publishKey tells the home store and those of sites of the public half of the key that signs what readers are told, each as soon as it answers.
func (p *program) publishKey(ctx context.Context, stores controller.Stores, names []string, key catalogue.Key) error {
	var group errgroup.Group
	for _, site := range append([]string{""}, names...) {
		group.Go(func() error {
			p.publishTo(ctx, stores, site, key)
			return nil
		})
	}
	return group.Wait()
}

// publishTo tries until the key is there, or ctx ends.
func (p *program) publishTo(ctx context.Context, stores controller.Stores, site string, key catalogue.Key) {
	what := "catalogue key at " + cmp.Or(site, "home")
	for {
		err := publishOnce(ctx, stores, site, key)
		if err == nil || ctx.Err() != nil {
			p.problems.set(what, "")
			return
		}
		p.problems.set(what, fmt.Sprintf("its public half cannot be written, and readers trust nothing unless it is there from before: %v", err))
		p.log.Warn("the catalogue's public key cannot be written", zap.String("site", site), zap.Error(err))
		select {
		case <-p.clock.After(publishEvery):
		case <-ctx.Done():
			return
		}
	}
}

func publishOnce(ctx context.Context, stores controller.Stores, site string, key catalogue.Key) error {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	st := stores.Home()
	if site != "" {
		var err error
		if st, err = stores.Site(ctx, site); err != nil {
			return err
		}
	}
	return catalogue.PublishKey(ctx, st, key)
}

// told passes events to the engine, and has the timeline hear them.
type told struct {
	engine   *execute.Engine
	timeline *timeline.Log
	clock    clock
}

// Tell implements intake.Engine.
func (t told) Tell(ctx context.Context, who string, ev plan.Event) error {
	t.timeline.Heard(ev, t.clock.Now())
	return t.engine.Tell(ctx, who, ev)
}

// listeners have the engine told what jobs foretell, and how the world fares.
func (p *program) listeners(e *execute.Engine, name string, log *timeline.Log) (*intake.Intake, *intake.Facts, error) {
	to := told{e, log, p.clock}
	report := func(err error) { p.log.Warn("intake", zap.Error(err)) }
	var keys catalogue.Keys
	if p.key != nil {
		keys = p.key.Keys()
	}
	facts, err := intake.NewFacts(intake.FactsOptions{
		Keys:   keys,
		Engine: to, Clock: p.clock, Stores: p.stores, Looker: p.looker, Controller: name, Sites: p.given.others, HostsShare: p.s.hostsShare, ReadOnly: p.s.dryRun, Report: report,
		Cluster: plan.Cluster{NodeRate: int64(p.s.nodeRate), ReadersPerSource: p.s.readersPerSource},
		Sources: intake.SourcesOf(e.Ask), Readers: intake.ReadersOf(e.Ask),
	})
	if err != nil {
		return nil, nil, err
	}
	in, err := intake.New(intake.Options{
		Engine: to, Clock: p.clock, Store: p.stores.Home(), Registry: p.s.registry, Agents: p.s.heard(), Client: p.given.agents, Watched: p.given.watched, Ledgers: p.s.ledgers,
		Read: func(r relay.Record, age time.Duration) {
			facts.Read(r)
			p.service.Read(r, age)
		},
		Report: report,
	})
	if errors.Is(err, fs.ErrInvalid) {
		return nil, nil, exit.Usage(err)
	}
	return in, facts, err
}
