package main

import (
	"cmp"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stepahead-io/stepahead/controller/intake"
)

var (
	descHints  = prometheus.NewDesc("stepahead_controller_hints_total", "What jobs foretold: new, heard before, older than anything holds, or of jobs that say too much.", []string{"result"}, nil)
	descAgents = prometheus.NewDesc("stepahead_controller_agents_count", "Agents that hand over what jobs foretell, and those that are known and do not.", []string{"state"}, nil)
	descNodes  = prometheus.NewDesc("stepahead_controller_node_transfers_count", "Transfers that a storage node has in progress, where the store tells: its queue.", []string{"node", "rack"}, nil)
)

// heard exports what became of what was heard, and how each storage node fares.
type heard struct {
	in    *intake.Intake
	facts *intake.Facts
}

// Describe implements prometheus.Collector.
func (heard) Describe(ch chan<- *prometheus.Desc) {
	ch <- descHints
	ch <- descAgents
	ch <- descNodes
}

// Collect implements prometheus.Collector.
func (h heard) Collect(ch chan<- prometheus.Metric) {
	s := h.in.Stats()
	for result, n := range map[string]int{"new": s.Told, "repeated": s.Repeated, "expired": s.Expired, "dropped": s.Dropped} {
		ch <- prometheus.MustNewConstMetric(descHints, prometheus.CounterValue, float64(n), result)
	}
	for state, n := range map[string]int{"following": s.Following, "silent": s.Silent} {
		ch <- prometheus.MustNewConstMetric(descAgents, prometheus.GaugeValue, float64(n), state)
	}
	said := make(map[[2]string]bool)
	for _, n := range h.facts.Nodes() {
		name := [2]string{cmp.Or(n.Addr, n.Node), n.Rack}
		if n.Load < 0 || said[name] {
			continue
		}
		said[name] = true
		ch <- prometheus.MustNewConstMetric(descNodes, prometheus.GaugeValue, float64(n.Load), name[0], name[1])
	}
}

// silence says that agents do not answer, or that there is none although only agents are heard.
func (p *program) silence(s intake.Stats) []string {
	if s.Looked && s.Silent+s.Following == 0 && len(p.s.heard()) > 0 && len(p.s.ledgers)+len(p.s.watch) == 0 {
		return []string{fmt.Sprintf("agents: none is registered in %s of the home store: what jobs foretell is not known; start one on that store, or say "+
			"--agents none if there is to be none", p.s.registry)}
	}
	if s.Silent == 0 {
		return nil
	}
	return []string{fmt.Sprintf("agents: %d of %d hand nothing over: what their jobs foretell is not known; the log says why", s.Silent, s.Silent+s.Following)}
}
