package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/plan"
)

// collectTime bounds how long a scrape waits for the planner.
const collectTime = 5 * time.Second

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stepahead_controller_"+name, help, labels, nil)
}

// metrics are what is counted here, and what is asked for at a scrape.
type metrics struct {
	service  *Service
	actions  *prometheus.CounterVec // by action and result
	failures *prometheus.CounterVec // by reason
	refusals *prometheus.CounterVec // by gRPC code
	made     *prometheus.CounterVec // bytes, by means and site
	making   *prometheus.CounterVec // seconds, by the same
	starts   *prometheus.HistogramVec
	spans    spans

	state, lease, drained, placements, bytes, waiting, rate, allowance, egress, cores, memory *prometheus.Desc
	opened, unused, lead, idle, byteHours, reused, saved, measured, helped, margin, expected  *prometheus.Desc
	on, fanOut, nodes, load, free, nodeRate, knee                                             *prometheus.Desc
	auditWaiting, auditFailures, auditLost, problems                                          *prometheus.Desc
	running, journalDown, journalErrors, strays, lost, refused, abandoned                     *prometheus.Desc
}

func newMetrics(s *Service) (*metrics, error) {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "stepahead", Subsystem: "controller", Name: name, Help: help}, labels)
	}
	m := &metrics{
		service:  s,
		actions:  counters("actions_total", "What the audit log says, by action, and whether it begins, was done or failed.", "action", "result"),
		failures: counters("failures_total", "Actions that failed, by reason.", "reason"),
		refusals: counters("refusals_total", "Calls that the caller's token does not allow, each with a line in the log.", "code"),
		made:     counters("made_bytes_total", "Bytes of placements whose making has ended.", "means", "site"),
		making:   counters("made_seconds_total", "How long those were made, without pauses.", "means", "site"),
		starts:   histogram("start_read_seconds", "How long the ranks of a start took to read: of each start that says so the median and the last rank.", "rank"),
		spans:    newSpans(),

		state:         desc("active_state", "1 while this controller acts, 0 on standby and in a dry run."),
		lease:         desc("lease_held_state", "1 while the lease is held."),
		drained:       desc("drained_state", "1 while nothing new begins."),
		placements:    desc("placements_count", "Placements that have begun and are not gone.", "means", "state"),
		bytes:         desc("held_bytes", "Bytes held, by site; those of temporary sources of hot files have none.", "site"),
		waiting:       desc("waiting_count", "Placements that wait for room."),
		rate:          desc("granted_bytes_per_second", "Rate granted to copies.", "site"),
		allowance:     desc("allowance_byte_hours", "What is left of the allowances.", "site"),
		egress:        desc("making_egress_bytes_per_second", "Rate of all makings together, of the storage budget."),
		cores:         desc("making_cores", "CPU cores of all makings, of the storage budget."),
		memory:        desc("making_memory_bytes", "Memory of all makings, of the storage budget."),
		opened:        desc("opened_total", "Evaluations that opened a checkpoint elsewhere: in time, late, or missed, to which nothing was on its way.", "result"),
		unused:        desc("unused_copies_total", "Copies that went and had not been opened."),
		lead:          desc("lead_seconds_total", "How long copies in time had been ready, added up."),
		idle:          desc("idle_byte_hours_total", "Bytes of copies times the hours before the first opening: waste."),
		byteHours:     desc("byte_hours_total", "What placements that are gone took.", "kind"),
		reused:        desc("reused_bytes_total", "Bytes of copies that lay at their site already, and were not sent."),
		saved:         desc("saved_seconds_total", "Seconds of ranks that temporary sources which were read are expected to have saved."),
		measured:      desc("measured_saved_seconds_total", "Seconds of ranks that starts were faster than expected without temporary sources, of those that say how long they took."),
		helped:        desc("measured_starts_total", "Starts that had temporary sources and say how long they took, by whether that helped.", "result"),
		expected:      desc("expected_bytes_per_second", "Rate that the next copy to a site is expected to get, by the last ones and the link's budget.", "site"),
		on:            desc("budget_on_state", "1 while a budget is switched on.", "budget"),
		fanOut:        desc("starts_count", "Starts of jobs that files are prepared for: their ranks are still to come, or have begun to read.", "state"),
		nodes:         desc("nodes_count", "Storage nodes in service, and those of them that have a directory of the storage type for extra replicas.", "kind"),
		load:          desc("cluster_load_state", "How busy the storage nodes are, from 0 to 1."),
		free:          desc("free_bytes", "Bytes that temporary replicas may fill."),
		nodeRate:      desc("node_bytes_per_second", "What one storage node is believed to serve: as configured, until starts show it."),
		knee:          desc("readers_per_source_count", "C_load: with more readers at a source the last one is believed to wait longer."),
		margin:        desc("margin_seconds", "The largest lead time beyond the predicted duration that any job's copies have by now.", "site"),
		auditWaiting:  desc("audit_waiting_count", "Lines of the audit log that are not written yet."),
		auditFailures: desc("audit_failures_total", "Writes of the audit log that failed."),
		auditLost:     desc("audit_lost_total", "Lines of the audit log that were lost."),
		running:       desc("running_count", "Actions under way."),
		journalDown:   desc("journal_down_state", "1 while the journal takes no records: nothing is begun."),
		journalErrors: desc("journal_errors_total", "Records that could not be written."),
		strays:        desc("strays_total", "Leavings of other controllers, or of this one's past, that were found in a store and undone."),
		lost:          desc("lost_total", "Placements that were not there any more when the stores were looked at."),
		refused:       desc("planner_refusals_total", "What was asked for and not done, or not then, by reason.", "reason"),
		abandoned:     desc("abandoned_total", "Calls of stores that did not end long after they were told to."),
		problems:      desc("problems_count", "What is not as it should be; `stepahead ctl status` says what."),
	}
	m.begin()
	for _, c := range []prometheus.Collector{m.actions, m.failures, m.refusals, m.made, m.making, m.starts, m} {
		if err := s.o.Metrics.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// begin has the counters that nothing was counted in yet be 0, so that their first growth is seen.
func (m *metrics) begin() {
	for _, action := range actions()[:5] {
		m.actions.WithLabelValues(action, "begun")
		m.actions.WithLabelValues(action, "done")
		m.actions.WithLabelValues(action, "failed")
	}
	for _, reason := range plan.Reasons() {
		m.failures.WithLabelValues(string(reason))
	}
	for _, code := range []string{"Unauthenticated", "PermissionDenied"} {
		m.refusals.WithLabelValues(code)
	}
	for _, rank := range []string{"median", "last"} {
		m.starts.WithLabelValues(rank)
	}
}

// actions are what is done to placements, and what else an entry may be about: for a label.
func actions() []string {
	return []string{"make", "publish", "extend", "withdraw", "remove", "refuse", "sweep", "revoke", "drain", "undrain", "damaged", "policy", "budgets", "prices", "other"}
}

// ofEntry is what an entry is about, and whether that begins, is done or failed.
func ofEntry(e audit.Entry) (action, result string) {
	action, result = e.What, "begun"
	for verb, did := range map[string]string{"make": "made", "publish": "published", "extend": "extended", "withdraw": "withdrawn", "remove": "removed"} {
		if e.What == did {
			action, result = verb, "done"
		}
	}
	if !slices.Contains(actions(), action) {
		action = "other"
	}
	if e.Err != "" {
		result = "failed"
	} else if result == "begun" && !slices.Contains(actions()[:5], action) {
		result = "done"
	}
	return action, result
}

// count counts an entry of the audit log.
func (m *metrics) count(e audit.Entry) {
	action, result := ofEntry(e)
	m.actions.WithLabelValues(action, result).Inc()
	if e.Err == "" {
		if action == "make" && result == "done" {
			m.made.WithLabelValues(string(e.Means), e.Site).Add(float64(max(e.Bytes, 0)))
			m.making.WithLabelValues(string(e.Means), e.Site).Add(max(e.Took, 0).Seconds())
		}
		return
	}
	reason, _, _ := strings.Cut(e.Err, ":") // as controller.Error writes it
	if !slices.Contains(plan.Reasons(), plan.Reason(reason)) {
		reason = string(plan.ReasonFailed)
	}
	m.failures.WithLabelValues(reason).Inc()
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.state, m.lease, m.drained, m.placements, m.bytes, m.waiting, m.rate, m.allowance, m.egress, m.cores, m.memory,
		m.opened, m.unused, m.lead, m.idle, m.byteHours, m.reused, m.saved, m.measured, m.helped, m.margin, m.expected, m.on, m.fanOut,
		m.nodes, m.load, m.free, m.nodeRate, m.knee, m.auditWaiting, m.auditFailures, m.auditLost, m.problems,
		m.running, m.journalDown, m.journalErrors, m.strays, m.lost, m.refused, m.abandoned,
	} {
		ch <- d
	}
	m.spans.Describe(ch)
}

// Collect implements prometheus.Collector. What the planner does not tell in time is left out.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) { put(d, prometheus.GaugeValue, v, labels...) }
	total := func(d *prometheus.Desc, v float64, labels ...string) { put(d, prometheus.CounterValue, v, labels...) }
	defer m.spans.Collect(ch)
	a := m.service.now()
	if a == nil {
		gauge(m.state, 0)
		gauge(m.lease, 0)
		return
	}
	ctx, cancel := context.WithTimeout(m.service.life, collectTime)
	defer cancel()
	gauge(m.state, flag(!a.DryRun))
	if a.Held != nil {
		gauge(m.lease, flag(a.Held(ctx) == nil))
	}
	if a.Audit != nil {
		h := a.Audit.Health()
		gauge(m.auditWaiting, float64(h.Waiting))
		total(m.auditFailures, float64(h.Failures))
		total(m.auditLost, float64(h.Lost))
	}
	if a.Problems != nil {
		gauge(m.problems, float64(len(a.Problems())))
	}
	if a.Stats != nil {
		e := a.Stats()
		gauge(m.running, float64(e.Running))
		gauge(m.journalDown, flag(e.JournalDown))
		total(m.journalErrors, float64(e.JournalErrors))
		total(m.strays, float64(e.Strays))
		total(m.lost, float64(e.Lost))
		for _, reason := range plan.Reasons() {
			total(m.refused, float64(e.Refused[reason]), string(reason))
		}
		total(m.abandoned, float64(e.Abandoned))
	}
	var p planned
	if a.Engine.Ask(ctx, p.read) == nil {
		m.collectPlan(p, gauge, total)
		if a.Timeline != nil {
			m.spans.observe(a.Timeline.Settled(p.now))
		}
	}
}

// planned is what a scrape asks the planner for.
type planned struct {
	begun   []plan.Count
	waiting int
	drained bool
	usage   plan.Usage
	tally   plan.Tally
	margins map[string]time.Duration
	cluster plan.Cluster
	now     time.Duration
	// announced and reading are starts.
	announced, reading int
}

func (s *planned) read(p *plan.Planner, now time.Duration) {
	s.now, s.cluster = now, p.Cluster()
	s.begun, s.waiting = p.Counts()
	s.announced, s.reading = p.Starts()
	s.drained, s.usage, s.tally, s.margins = p.Drained(), p.Usage(), p.Tally(), p.Margins()
}

func (m *metrics) collectPlan(p planned, gauge, total func(d *prometheus.Desc, v float64, labels ...string)) {
	for _, c := range p.begun {
		gauge(m.placements, float64(c.N), string(c.Means), c.State)
	}
	gauge(m.waiting, float64(p.waiting))
	gauge(m.drained, flag(p.drained))
	for site, n := range p.usage.Held {
		gauge(m.bytes, float64(n), site)
	}
	for site, n := range p.usage.Rate {
		gauge(m.rate, float64(n), site)
	}
	for site, n := range p.usage.ByteHoursLeft {
		gauge(m.allowance, n, site)
	}
	gauge(m.egress, float64(p.usage.Egress))
	gauge(m.cores, p.usage.Cores)
	gauge(m.memory, float64(p.usage.Memory))
	y := p.tally
	total(m.opened, float64(y.InTime), "in-time")
	total(m.opened, float64(y.Late), "late")
	total(m.opened, float64(y.Missed), "missed")
	total(m.unused, float64(y.Unused))
	total(m.lead, y.Lead.Seconds())
	total(m.idle, y.IdleByteHours)
	total(m.byteHours, y.CopyByteHours, "copy")
	total(m.byteHours, y.SourceByteHours, "source")
	total(m.reused, float64(y.ReusedBytes))
	total(m.saved, y.SavedSeconds)
	total(m.measured, y.MeasuredSeconds)
	total(m.helped, float64(y.MeasuredStarts-y.Unhelped), "helped")
	total(m.helped, float64(y.Unhelped), "not-helped")
	for _, budget := range []string{"wan", "replicas", "storage"} {
		gauge(m.on, flag(!slices.Contains(p.usage.Off, budget)), budget)
	}
	for site, n := range p.usage.Expected {
		gauge(m.expected, float64(n), site)
	}
	gauge(m.fanOut, float64(p.announced), "announced")
	gauge(m.fanOut, float64(p.reading), "reading")
	gauge(m.nodes, float64(p.cluster.Nodes), "in-service")
	gauge(m.nodes, float64(p.cluster.Tagged), "tagged")
	gauge(m.load, p.cluster.Load)
	gauge(m.free, float64(p.cluster.Free))
	gauge(m.nodeRate, float64(p.cluster.NodeRate))
	gauge(m.knee, p.cluster.ReadersPerSource)
	for site, d := range p.margins {
		gauge(m.margin, d.Seconds(), site)
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
