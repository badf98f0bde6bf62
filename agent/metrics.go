package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/hints"
)

const (
	prepared = "prepared" // label of an answer that carries a tensor
	accepted = "accepted" // label of a hint that was
)

// metrics are the agent's counters. Every label value exists from the start, at zero.
type metrics struct {
	answers      *prometheus.CounterVec // by reason
	hints        *prometheus.CounterVec // by kind and result
	preparations *prometheus.CounterVec // by result
	refusals     *prometheus.CounterVec // by reason: what the audit log holds

	preparedBytes, preparedCPU, unusedBytes, unusedCPU prometheus.Counter
	resolveFailures, registryFailures, loadFailures    prometheus.Counter
	relayed, relayFailures                             prometheus.Counter

	lead      prometheus.Histogram
	read, run prometheus.Histogram

	shelf, jobs, queued, waiting, running, open, cores prometheus.Gauge
	load                                               *prometheus.GaugeVec // by signal
}

var (
	hintKinds      = []string{"schedule", "window", "progress", "close", "start", "checkpoint", "other"}
	agentReasons   = []fetch.Reason{fetch.ReasonNotReady, fetch.ReasonExpired, fetch.ReasonCPU, fetch.ReasonQueue, fetch.ReasonMemory, fetch.ReasonEgress, fetch.ReasonPoison, fetch.ReasonUnknownPlan, fetch.ReasonIdentity, fetch.ReasonDenied, fetch.ReasonUnknownJob}
	refusalReasons = []string{"denied", "identity", "unknown-plan", "busy", "other"}
	loadSignals    = []string{"cpu", "delay", "memory", "io"}
)

func newMetrics(reg prometheus.Registerer, limit int64) (*metrics, error) {
	m := &metrics{}
	b := builder{reg: reg}
	m.answers = b.counters("answers_total", "Entries answered, by reason; prepared ones were tensors.", "reason")
	m.hints = b.counters("hints_total", "Hints taken, by kind and result.", "kind", "result")
	m.preparations = b.counters("preparations_total", "Preparations that ended, by result.", "result")
	m.refusals = b.counters("refusals_total", "Hints and fetches refused as a whole, each with a line in the log.", "reason")
	m.load = b.gauges("load_ratio", "Load of others at the last sample.", "signal")
	m.preparedBytes = b.counter("prepared_bytes_total", "Bytes of tensors made.")
	m.preparedCPU = b.counter("prepared_cpu_seconds_total", "CPU time of the workers for tensors made.")
	m.unusedBytes = b.counter("unused_bytes_total", "Bytes of tensors thrown away before anyone asked.")
	m.unusedCPU = b.counter("unused_cpu_seconds_total", "CPU time of tensors thrown away before anyone asked.")
	m.resolveFailures = b.counter("resolve_failures_total", "Steps of which some samples could not be looked up.")
	m.registryFailures = b.counter("registry_failures_total", "Failed attempts to renew the registry entry.")
	m.loadFailures = b.counter("load_failures_total", "Load samples that could not be taken; they count as a loaded node.")
	m.relayed = b.counter("relayed_total", "Hints about checkpoints and starts kept for the controller.")
	m.relayFailures = b.counter("relay_failures_total", "Hints about checkpoints and starts that could not be kept, and were refused.")
	m.lead = b.histogram("lead_seconds", "How long tensors lay ready when they were asked for.", 1e-3)
	m.read = b.histogram("read_seconds", "Time to read one encoded part.", 1e-4)
	m.run = b.histogram("transform_seconds", "Time of one part in a worker, waiting for it included.", 1e-3)
	m.shelf = b.gauge("shelf_bytes", "Bytes of the shelf reserved or used.")
	m.jobs = b.gauge("jobs_count", "Jobs served.")
	m.queued = b.gauge("queued_count", "Preparations that have their bytes reserved and wait for a core.")
	m.waiting = b.gauge("waiting_count", "Preparations that wait for bytes of the shelf.")
	m.running = b.gauge("running_count", "Preparations that run.")
	m.open = b.gauge("gate_open_state", "1 while work may start, 0 while others need the node.")
	m.cores = b.gauge("granted_cores", "Cores granted to preparations.")
	b.gauge("shelf_limit_bytes", "Size of the shelf.").Set(float64(limit))
	m.zero()
	return m, b.err
}

// zero creates every label value.
func (m *metrics) zero() {
	m.answers.WithLabelValues(prepared)
	for _, r := range agentReasons {
		m.answers.WithLabelValues(string(r))
	}
	for _, k := range hintKinds {
		m.hints.WithLabelValues(k, accepted)
		for _, r := range hints.Reasons() {
			m.hints.WithLabelValues(k, string(r))
		}
	}
	m.preparations.WithLabelValues(prepared)
	for f := stopped; f <= foreign; f++ {
		m.preparations.WithLabelValues(f.String())
	}
	for _, r := range refusalReasons {
		m.refusals.WithLabelValues(r)
	}
	for _, s := range loadSignals {
		m.load.WithLabelValues(s)
	}
}

// builder registers metrics and keeps the first error.
type builder struct {
	reg prometheus.Registerer
	err error
}

func register[C prometheus.Collector](b *builder, c C) C {
	if err := b.reg.Register(c); err != nil && b.err == nil {
		b.err = err
	}
	return c
}

func opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "stepahead", Subsystem: "agent", Name: name, Help: help}
}

func (b *builder) counter(name, help string) prometheus.Counter {
	return register(b, prometheus.NewCounter(prometheus.CounterOpts(opts(name, help))))
}

func (b *builder) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(b, prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels))
}

func (b *builder) gauge(name, help string) prometheus.Gauge {
	return register(b, prometheus.NewGauge(prometheus.GaugeOpts(opts(name, help))))
}

func (b *builder) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(b, prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(name, help)), labels))
}

// histogram has buckets from first seconds on, each twice the one before.
func (b *builder) histogram(name, help string, first float64) prometheus.Histogram {
	o := opts(name, help)
	return register(b, prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: o.Namespace, Subsystem: o.Subsystem, Name: o.Name, Help: o.Help,
		Buckets: prometheus.ExponentialBuckets(first, 2, 16),
	}))
}
