package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stepahead-io/stepahead/transform/worker"
)

var (
	descRunning   = prometheus.NewDesc("stepahead_agent_workers_count", "Worker processes alive.", nil, nil)
	descStarted   = prometheus.NewDesc("stepahead_agent_workers_started_total", "Worker processes ever started.", nil, nil)
	descKilled    = prometheus.NewDesc("stepahead_agent_workers_lost_total", "Worker processes lost, by reason.", []string{"reason"}, nil)
	descCPU       = prometheus.NewDesc("stepahead_agent_workers_cpu_seconds_total", "CPU time of all workers.", nil, nil)
	descIsolation = prometheus.NewDesc("stepahead_agent_workers_isolation_info", "What confines the workers; 1.", []string{"level"}, nil)
)

// workerMetrics exports the state of a pool.
type workerMetrics struct{ pool *worker.Pool }

// Describe implements prometheus.Collector.
func (workerMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRunning, descStarted, descKilled, descCPU, descIsolation} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (w workerMetrics) Collect(ch chan<- prometheus.Metric) {
	s := w.pool.Stats()
	ch <- prometheus.MustNewConstMetric(descRunning, prometheus.GaugeValue, float64(s.Running))
	ch <- prometheus.MustNewConstMetric(descStarted, prometheus.CounterValue, float64(s.Started))
	ch <- prometheus.MustNewConstMetric(descCPU, prometheus.CounterValue, w.pool.CPU().Seconds())
	for reason, n := range s.Killed {
		ch <- prometheus.MustNewConstMetric(descKilled, prometheus.CounterValue, float64(n), reason)
	}
	level := s.Isolation
	if level == "" {
		level = "none yet"
	}
	ch <- prometheus.MustNewConstMetric(descIsolation, prometheus.GaugeValue, 1, level)
}
