package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stepahead-io/stepahead/store"
)

var (
	descReadBytes   = prometheus.NewDesc("stepahead_agent_store_bytes_total", "Bytes of reads: asked for by the agent, and received from storage nodes.", []string{"kind"}, nil)
	descConnections = prometheus.NewDesc("stepahead_agent_store_connections_total", "Connections to storage nodes opened, and reads that found one open.", []string{"result"}, nil)
	descRetries     = prometheus.NewDesc("stepahead_agent_store_retries_total", "Reads tried once more, by cause.", []string{"cause"}, nil)
	descHedges      = prometheus.NewDesc("stepahead_agent_store_hedges_total", "Reads asked of a second node because the first was slow, by who answered first.", []string{"result"}, nil)
	descHedgeBytes  = prometheus.NewDesc("stepahead_agent_store_hedge_bytes_total", "Bytes that came twice.", nil, nil)
	descReplicas    = prometheus.NewDesc("stepahead_agent_store_replica_bytes_total", "Bytes read, by where the replica was.", []string{"place"}, nil)
	descCalls       = prometheus.NewDesc("stepahead_agent_store_calls_total", "Calls of the service that knows files and locations, by method.", []string{"method"}, nil)
	descCallRetries = prometheus.NewDesc("stepahead_agent_store_call_retries_total", "Calls of that service tried once more, by cause.", []string{"cause"}, nil)
)

// readMetrics exports what reading cost, as the store counts it.
type readMetrics struct{ store store.ReadCounter }

// Describe implements prometheus.Collector.
func (readMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descReadBytes, descConnections, descRetries, descHedges, descHedgeBytes, descReplicas, descCalls, descCallRetries} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m readMetrics) Collect(ch chan<- prometheus.Metric) {
	r := m.store.ReadStats()
	put := func(d *prometheus.Desc, n int64, label ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), label...)
	}
	put(descReadBytes, r.Asked, "asked")
	put(descReadBytes, r.Wire, "wire")
	put(descConnections, r.Connections, "opened")
	put(descConnections, r.Reused, "reused")
	put(descHedges, r.HedgesWon, "won")
	put(descHedges, r.HedgesLost, "lost")
	put(descHedgeBytes, r.HedgeBytes)
	put(descReplicas, r.SameNode, "node")
	put(descReplicas, r.SameRack, "rack")
	put(descReplicas, r.Remote, "other")
	for cause, n := range r.Retries {
		put(descRetries, n, cause)
	}
	for method, n := range r.Calls {
		put(descCalls, n, method)
	}
	for cause, n := range r.CallRetries {
		put(descCallRetries, n, cause)
	}
}
