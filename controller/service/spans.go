package service

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stepahead-io/stepahead/controller/timeline"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// histogram is one of lengths of time from a second to a day and a half.
func histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "stepahead", Subsystem: "controller", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(1, 2, 18),
	}, labels)
}

// spans count what the time of evaluations went to.
type spans struct{ stages, ready, regression *prometheus.HistogramVec }

func newSpans() spans {
	return spans{
		stages: histogram("evaluation_stage_seconds", "What the time of an evaluation went to, one stage after the other; read says where the bytes were: home, copy, late or remote.",
			"site", "read", "stage"),
		ready:      histogram("copy_ready_seconds", "Age of a checkpoint when a copy of it was ready for an evaluation.", "site"),
		regression: histogram("regression_age_seconds", "Age of a checkpoint when a regression of it was declared.", "site"),
	}
}

func (s spans) observe(list []timeline.Span) {
	for _, p := range list {
		switch p.Name {
		case timeline.AgeReady:
			s.ready.WithLabelValues(p.Site).Observe(p.Took.Seconds())
		case timeline.AgeRegression:
			s.regression.WithLabelValues(p.Site).Observe(p.Took.Seconds())
		default:
			s.stages.WithLabelValues(p.Site, string(p.Read), strings.ReplaceAll(string(p.Name), " ", "-")).Observe(p.Took.Seconds())
		}
	}
}

// Describe tells what Collect gives.
func (s spans) Describe(ch chan<- *prometheus.Desc) {
	for _, h := range []*prometheus.HistogramVec{s.stages, s.ready, s.regression} {
		h.Describe(ch)
	}
}

// Collect gives what was counted.
func (s spans) Collect(ch chan<- prometheus.Metric) {
	for _, h := range []*prometheus.HistogramVec{s.stages, s.ready, s.regression} {
		h.Collect(ch)
	}
}

// Read counts how long the ranks of a start took, as they said so long ago. What was said before this service began another process has counted.
func (s *Service) Read(r relay.Record, age time.Duration) {
	if r.Start == nil || r.Start.LastMS <= 0 || age > time.Since(s.began) {
		return
	}
	for rank, ms := range map[string]int64{"median": r.Start.MedianMS, "last": r.Start.LastMS} {
		if ms > 0 { // not every job knows the median
			s.metrics.starts.WithLabelValues(rank).Observe(float64(ms) / 1000)
		}
	}
}
