package loader

import (
	"maps"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
)

// StepStats says what one delivered step cost. docs/loader.md tells how to read it.
type StepStats struct {
	Step  int64 `json:"step"`
	Epoch int64 `json:"epoch"`
	// Stall is how long the caller waited for the step in Next, in seconds; Network, Queue and
	// Transform split it by what the step was waiting for.
	Stall     float64 `json:"stall_seconds"`
	Network   float64 `json:"network_seconds"`
	Queue     float64 `json:"queue_seconds"`
	Transform float64 `json:"transform_seconds"`
	// Consumer is how long the caller was away between the step before and this one, in seconds.
	Consumer float64 `json:"consumer_seconds"`
	// Build is the time from the start of the step's building to its end, in seconds.
	Build float64 `json:"build_seconds"`
	// Prepared, Raw and Local count media parts: tensors from agents; bytes from agents, transformed
	// here; read from the store and transformed here. What is delivered as it is stored is none of them.
	Prepared int `json:"prepared"`
	Raw      int `json:"raw"`
	Local    int `json:"local"`
	// Substituted counts bad samples replaced in this step.
	Substituted int `json:"substituted"`
	// ByReason counts the parts that were not prepared, by reason. ByNode does so for every agent that
	// owns parts, and counts those it prepared under "prepared". Without agents both are empty.
	ByReason map[string]int            `json:"by_reason,omitempty"`
	ByNode   map[string]map[string]int `json:"by_node,omitempty"`
	// LeadSeconds is how long the prepared tensors of this step had lain ready, on average.
	LeadSeconds float64 `json:"lead_seconds"`
	// AgentCPU is the CPU time that agents report for the prepared tensors, in seconds.
	AgentCPU float64 `json:"agent_cpu_seconds"`
}

// Stats are the totals of a Loader since Open.
type Stats struct {
	// Steps counts delivered steps, Samples those of this rank in them.
	Steps   int64 `json:"steps"`
	Samples int64 `json:"samples"`
	// Stall to LeadSeconds are sums of the fields of StepStats, LeadSeconds weighted by prepared parts.
	Stall       float64                   `json:"stall_seconds"`
	Network     float64                   `json:"network_seconds"`
	Queue       float64                   `json:"queue_seconds"`
	Transform   float64                   `json:"transform_seconds"`
	Consumer    float64                   `json:"consumer_seconds"`
	Build       float64                   `json:"build_seconds"`
	Prepared    int64                     `json:"prepared"`
	Raw         int64                     `json:"raw"`
	Local       int64                     `json:"local"`
	Substituted int64                     `json:"substituted"`
	ByReason    map[string]int64          `json:"by_reason,omitempty"`
	ByNode      map[string]map[string]int `json:"by_node,omitempty"`
	LeadSeconds float64                   `json:"lead_seconds"`
	// PreparedShare is Prepared of all media parts, 0 to 1.
	PreparedShare float64 `json:"prepared_share"`
	// WorkerCPU is the CPU time of the local workers, in seconds.
	WorkerCPU float64 `json:"worker_cpu_seconds"`
	AgentCPU  float64 `json:"agent_cpu_seconds"`
	// StoreReads counts parts read from the store, StoreBytes their bytes, CRCFailures the reads that
	// did not match their checksum.
	StoreReads  int64 `json:"store_reads"`
	StoreBytes  int64 `json:"store_bytes"`
	CRCFailures int64 `json:"crc_failures"`
	// Reads is what reading cost, as the store counts it: bytes on the wire, connections, retries and where the
	// replicas were. nil where the store does not count.
	Reads *store.ReadStats `json:"reads,omitempty"`
	// Hints counts messages sent to agents, by kind; HintsFailed those that failed or were refused.
	Hints       map[string]int64 `json:"hints,omitempty"`
	HintsFailed int64            `json:"hints_failed"`
	// Canaries counts prepared parts that were made again locally, CanaryMismatches those that
	// differed.
	Canaries         int64 `json:"canaries"`
	CanaryMismatches int64 `json:"canary_mismatches"`
	// Waiting: a caller waits in Next at this moment.
	Waiting bool `json:"waiting"`
	// MappedBytes is the batch memory mapped now. Mappings counts the pieces of it in use: batches, and
	// work space of those that are being built.
	MappedBytes int64 `json:"mapped_bytes"`
	Mappings    int   `json:"mappings"`
	// Ledger is the account of what agents prepared: hits, late ones, misses by reason and node, and the
	// lead times.
	Ledger hints.LedgerSnapshot `json:"ledger"`
	// Recent are the last steps delivered, oldest first, at most 1,024.
	Recent []StepStats `json:"recent"`
	// Substitutions are the last bad samples, oldest first, at most 1,024.
	Substitutions []Substitution `json:"substitutions"`
}

// Substitution is one bad sample that was replaced.
type Substitution struct {
	Step       int64          `json:"step"`
	Position   int64          `json:"position"`
	Bad        BadSampleError `json:"bad"`
	Substitute Substitute     `json:"substitute"`
}

// Substitute is a sample that took a bad one's place. It may have been bad too: then the place has another
// Substitution.
type Substitute struct {
	sampler.SampleRef
	Key string `json:"key"`
}

// recentSteps and recentSubstitutions bound what Stats remembers.
const (
	recentSteps         = 1024
	recentSubstitutions = 1024
)

// add counts a delivered step.
func (s *Stats) add(d StepStats, samples int) {
	s.Steps++
	s.Samples += int64(samples)
	s.Stall += d.Stall
	s.Network += d.Network
	s.Queue += d.Queue
	s.Transform += d.Transform
	s.Consumer += d.Consumer
	s.Build += d.Build
	s.LeadSeconds += d.LeadSeconds * float64(d.Prepared)
	s.AgentCPU += d.AgentCPU
	s.Prepared += int64(d.Prepared)
	s.Raw += int64(d.Raw)
	s.Local += int64(d.Local)
	s.Substituted += int64(d.Substituted)
	for reason, n := range d.ByReason {
		addTo(&s.ByReason, reason, int64(n))
	}
	for node, reasons := range d.ByNode {
		for reason, n := range reasons {
			addNode(&s.ByNode, node, reason, n)
		}
	}
	s.Recent = appendBounded(s.Recent, d, recentSteps)
}

// snapshot returns a copy that shares nothing with s and fills in the shares.
func (s *Stats) snapshot() Stats {
	c := *s
	c.ByReason, c.Hints = maps.Clone(s.ByReason), maps.Clone(s.Hints)
	c.ByNode = nil
	for node, reasons := range s.ByNode {
		for reason, n := range reasons {
			addNode(&c.ByNode, node, reason, n)
		}
	}
	c.Recent = append([]StepStats{}, s.Recent...)
	c.Substitutions = append([]Substitution{}, s.Substitutions...)
	if s.Prepared > 0 {
		c.LeadSeconds = s.LeadSeconds / float64(s.Prepared)
	}
	if all := s.Prepared + s.Raw + s.Local; all > 0 {
		c.PreparedShare = float64(s.Prepared) / float64(all)
	}
	return c
}

func addTo(m *map[string]int64, key string, n int64) {
	if *m == nil {
		*m = map[string]int64{}
	}
	(*m)[key] += n
}

func addNode(m *map[string]map[string]int, node, reason string, n int) {
	if *m == nil {
		*m = map[string]map[string]int{}
	}
	if (*m)[node] == nil {
		(*m)[node] = map[string]int{}
	}
	(*m)[node][reason] += n
}

// appendBounded appends v and drops the oldest beyond limit.
func appendBounded[T any](s []T, v T, limit int) []T {
	if len(s) >= limit {
		s = append(s[:0], s[len(s)-limit+1:]...)
	}
	return append(s, v)
}

// note counts how one part was obtained.
func (d *StepStats) note(o origin) {
	what := "prepared"
	if o.reason != "" {
		what = string(o.reason)
		d.ByReason[what]++
	}
	if o.node != "" {
		addNode(&d.ByNode, o.node, what, 1)
	}
}

// post enters the parts of a delivered step into the ledger.
func post(l *hints.Ledger, origins []origin) {
	for _, o := range origins {
		switch {
		case o.reason != "":
			l.Miss(o.node, string(o.reason))
		case o.lead > 0:
			l.Hit(o.node, o.lead)
		default:
			l.Late(o.node)
		}
	}
}

// stall fills in how a wait was spent.
func (d *StepStats) stall(wait split) {
	d.Stall = wait.sum().Seconds()
	d.Network = wait[waitNetwork].Seconds()
	d.Queue = wait[waitQueue].Seconds()
	d.Transform = wait[waitTransform].Seconds()
}
