package main

import (
	"fmt"
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stepahead-io/stepahead/store"
)

type counted store.ReadStats

func (c counted) ReadStats() store.ReadStats { return store.ReadStats(c) }

// TestReadMetrics: every count of the store is exported under a name of its own.
func TestReadMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	must(t, registry.Register(readMetrics{counted{
		Asked: 1, Wire: 2, Connections: 3, Reused: 4, Retries: map[string]int64{"checksum": 5}, HedgesWon: 6, HedgesLost: 7,
		HedgeBytes: 8, SameNode: 9, SameRack: 10, Remote: 11, Calls: map[string]int64{"getFileInfo": 12}, CallRetries: map[string]int64{"standby": 13},
	}}))
	families, err := registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			got[name] = m.GetCounter().GetValue()
		}
	}
	const p = "stepahead_agent_store_"
	want := map[string]float64{
		p + "bytes_total kind=asked": 1, p + "bytes_total kind=wire": 2,
		p + "connections_total result=opened": 3, p + "connections_total result=reused": 4,
		p + "retries_total cause=checksum": 5,
		p + "hedges_total result=won":      6, p + "hedges_total result=lost": 7, p + "hedge_bytes_total": 8,
		p + "replica_bytes_total place=node": 9, p + "replica_bytes_total place=rack": 10, p + "replica_bytes_total place=other": 11,
		p + "calls_total method=getFileInfo": 12, p + "call_retries_total cause=standby": 13,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
