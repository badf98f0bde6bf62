package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller/sweeper"
	"github.com/stepahead-io/stepahead/store"
)

// noSweep is the --sweep of an agent that undoes nothing.
const noSweep = "off"

// sweepEvery returns how often the agent looks for what a controller left; 0 for never.
func (s *settings) sweepEvery() (time.Duration, error) {
	if s.sweep == noSweep {
		return 0, nil
	}
	d, err := time.ParseDuration(s.sweep)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--sweep %q: give a time such as 1m, or %s", s.sweep, noSweep)
	}
	return d, nil
}

// sweeping returns what looks for what a controller left until its context ends; nil for nothing.
func sweeping(s settings, st store.Store, registry *prometheus.Registry, log *zap.Logger) (func(context.Context), error) {
	every, err := s.sweepEvery()
	if err != nil || every == 0 {
		return nil, err
	}
	sw := sweeper.New(sweeper.Options{Store: st, Every: every, Log: log})
	registry.MustRegister(sweepMetrics{sw})
	return sw.Run, nil
}

var (
	descElected = prometheus.NewDesc("stepahead_agent_sweeper_elected", "1 while this agent undoes what controllers left in the store, if none lives.", nil, nil)
	descSweeps  = prometheus.NewDesc("stepahead_agent_sweeper_sweeps_total", "Sweeps made while no controller lived.", nil, nil)
	descUndone  = prometheus.NewDesc("stepahead_agent_sweeper_undone_total", "Things that were undone.", nil, nil)
	descFailing = prometheus.NewDesc("stepahead_agent_sweeper_failing", "Marks that the last sweep could not read or undo.", nil, nil)
	descErrors  = prometheus.NewDesc("stepahead_agent_sweeper_errors_total", "Looks that failed as a whole.", nil, nil)
)

// sweepMetrics exports what a sweeper did.
type sweepMetrics struct{ sweeper *sweeper.Sweeper }

// Describe implements prometheus.Collector.
func (sweepMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descElected, descSweeps, descUndone, descFailing, descErrors} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m sweepMetrics) Collect(ch chan<- prometheus.Metric) {
	n := m.sweeper.Stats()
	elected := 0.0
	if n.Elected {
		elected = 1
	}
	ch <- prometheus.MustNewConstMetric(descElected, prometheus.GaugeValue, elected)
	ch <- prometheus.MustNewConstMetric(descSweeps, prometheus.CounterValue, float64(n.Sweeps))
	ch <- prometheus.MustNewConstMetric(descUndone, prometheus.CounterValue, float64(n.Undone))
	ch <- prometheus.MustNewConstMetric(descFailing, prometheus.GaugeValue, float64(n.Failing))
	ch <- prometheus.MustNewConstMetric(descErrors, prometheus.CounterValue, float64(n.Errors))
}
