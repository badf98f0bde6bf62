// Package control is what may be asked of a controller over the network: its messages, and a client.
package control

import (
	"time"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/controllerpb"
	"github.com/stepahead-io/stepahead/controller/plan"
)

// Status is how a controller fares.
type Status struct {
	Version string `json:"version"`
	// State is "active", "standby" or "dry-run"; Controller the name of its journal.
	State      string `json:"state"`
	Controller string `json:"controller"`
	// LeaseProblem is empty while the lease is held.
	LeaseProblem string        `json:"lease_problem,omitempty"`
	Drained      bool          `json:"drained"`
	Up           time.Duration `json:"up_ns"`
	// Begun are the placements that have begun and are not gone, Waiting how many wait for room: those that the caller sees.
	Begun   []plan.Count `json:"begun"`
	Waiting int          `json:"waiting"`
	// Making are those of them that are being made, the best first, at most 100.
	Making []plan.Standing `json:"making"`
	// Usage, Tally and Cluster are nil for who does not see all.
	Usage   *plan.Usage   `json:"usage,omitempty"`
	Tally   *plan.Tally   `json:"tally,omitempty"`
	Cluster *plan.Cluster `json:"cluster,omitempty"`
	// Problems are what is not as it should be, each a sentence.
	Problems []string `json:"problems,omitempty"`
}

// Ranking is what there is and what waits, the best first, and what is asked for and not done.
type Ranking struct {
	Placements []plan.Standing `json:"placements"`
	All        int             `json:"all"`
	Refused    []plan.Standing `json:"refused"`
	RefusedAll int             `json:"refused_all"`
	Usage      *plan.Usage     `json:"usage,omitempty"`
}

// Why is what is decided on a path. Policy says which rules decide, in lines. Known is empty where that is not the caller's to know, or nothing is.
type Why struct {
	Path      string          `json:"path"`
	Known     string          `json:"known,omitempty"`
	Standings []plan.Standing `json:"standings"`
	Policy    []string        `json:"policy,omitempty"`
	// Ready is how many nodes serve a hot file now, by rack, where the controller has begun something for it. ReadyProblem says why that cannot be told.
	Ready        map[string]int64 `json:"ready,omitempty"`
	ReadyProblem string           `json:"ready_problem,omitempty"`
}

// Swept is something that was left behind.
type Swept struct {
	// Site is "" for the home store; Mark is the name of the mark.
	Site  string     `json:"site,omitempty"`
	Mark  string     `json:"mark"`
	Means plan.Means `json:"means,omitempty"`
	Path  string     `json:"path,omitempty"`
	// Done is what was done to undo it, or would be; Problem why it is still there, "" where it is not.
	Done    []string `json:"done,omitempty"`
	Problem string   `json:"problem,omitempty"`
}

// Unread is a store that could not be looked at, or not wholly: what is there may be left.
type Unread struct {
	// Site is "" for the home store.
	Site    string `json:"site"`
	Problem string `json:"problem"`
}

// SweepResult is what a sweep found.
type SweepResult struct {
	// Swept is what was left behind, Revoked the controller's own placements, as they were before.
	Swept   []Swept         `json:"swept"`
	Revoked []plan.Standing `json:"revoked,omitempty"`
	// Unread are the stores of which not all is known. What was found in the others was undone all the same.
	Unread []Unread `json:"unread"`
}

// Encode returns the message.
func (r SweepResult) Encode() *controllerpb.SweepReply {
	m := &controllerpb.SweepReply{Standings: EncodeStandings(r.Revoked)}
	for _, w := range r.Swept {
		m.Swept = append(m.Swept, &controllerpb.Swept{Site: w.Site, Mark: w.Mark, Means: string(w.Means), Path: w.Path, Done: w.Done, Problem: w.Problem})
	}
	for _, u := range r.Unread {
		m.Unread = append(m.Unread, &controllerpb.Unread{Site: u.Site, Problem: u.Problem})
	}
	return m
}

func decodeSweepResult(m *controllerpb.SweepReply) SweepResult {
	r := SweepResult{Swept: []Swept{}, Revoked: decodeStandings(m.Standings), Unread: []Unread{}}
	for _, w := range m.Swept {
		r.Swept = append(r.Swept, Swept{Site: w.Site, Mark: w.Mark, Means: plan.Means(w.Means), Path: w.Path, Done: w.Done, Problem: w.Problem})
	}
	for _, u := range m.Unread {
		r.Unread = append(r.Unread, Unread{Site: u.Site, Problem: u.Problem})
	}
	return r
}

// Encode returns the message.
func (s Status) Encode() *controllerpb.StatusReply {
	m := &controllerpb.StatusReply{
		Version: s.Version, State: s.State, Controller: s.Controller, LeaseProblem: s.LeaseProblem, Drained: s.Drained, UpMs: s.Up.Milliseconds(),
		Waiting: int64(s.Waiting), Problems: s.Problems, Usage: encodeUsage(s.Usage), Making: EncodeStandings(s.Making), Cluster: encodeCluster(s.Cluster),
	}
	for _, c := range s.Begun {
		m.Begun = append(m.Begun, &controllerpb.Count{Means: string(c.Means), State: c.State, N: int64(c.N), Bytes: c.Bytes})
	}
	if y := s.Tally; y != nil {
		m.Tally = &controllerpb.Tally{
			InTime: y.InTime, Late: y.Late, Missed: y.Missed, Unused: y.Unused, LeadNs: int64(y.Lead), IdleByteHours: y.IdleByteHours,
			CopyByteHours: y.CopyByteHours, SourceByteHours: y.SourceByteHours, SavedSeconds: y.SavedSeconds,
			MeasuredStarts: y.MeasuredStarts, Unhelped: y.Unhelped, MeasuredSeconds: y.MeasuredSeconds, ReusedBytes: y.ReusedBytes,
		}
	}
	return m
}

func decodeStatus(m *controllerpb.StatusReply) Status {
	s := Status{
		Version: m.Version, State: m.State, Controller: m.Controller, LeaseProblem: m.LeaseProblem, Drained: m.Drained,
		Up: time.Duration(m.UpMs) * time.Millisecond, Begun: []plan.Count{}, Waiting: int(m.Waiting), Problems: m.Problems, Usage: decodeUsage(m.Usage),
		Making: decodeStandings(m.Making), Cluster: decodeCluster(m.Cluster),
	}
	for _, c := range m.Begun {
		s.Begun = append(s.Begun, plan.Count{Means: plan.Means(c.Means), State: c.State, N: int(c.N), Bytes: c.Bytes})
	}
	if y := m.Tally; y != nil {
		s.Tally = &plan.Tally{
			InTime: y.InTime, Late: y.Late, Missed: y.Missed, Unused: y.Unused, Lead: time.Duration(y.LeadNs), IdleByteHours: y.IdleByteHours,
			CopyByteHours: y.CopyByteHours, SourceByteHours: y.SourceByteHours, SavedSeconds: y.SavedSeconds,
			MeasuredStarts: y.MeasuredStarts, Unhelped: y.Unhelped, MeasuredSeconds: y.MeasuredSeconds, ReusedBytes: y.ReusedBytes,
		}
	}
	return s
}

func encodeCluster(c *plan.Cluster) *controllerpb.Cluster {
	if c == nil {
		return nil
	}
	return &controllerpb.Cluster{
		Nodes: int64(c.Nodes), Tagged: int64(c.Tagged), Load: c.Load, Free: c.Free, NodeRate: c.NodeRate, ReadersPerSource: c.ReadersPerSource,
		MaxReplication: int64(c.MaxReplication),
	}
}

func decodeCluster(m *controllerpb.Cluster) *plan.Cluster {
	if m == nil {
		return nil
	}
	return &plan.Cluster{
		Nodes: int(m.Nodes), Tagged: int(m.Tagged), Load: m.Load, Free: m.Free, NodeRate: m.NodeRate, ReadersPerSource: m.ReadersPerSource,
		MaxReplication: int(m.MaxReplication),
	}
}

func encodeUsage(u *plan.Usage) *controllerpb.Usage {
	if u == nil {
		return nil
	}
	return &controllerpb.Usage{
		Held: u.Held, Rate: u.Rate, ByteHoursLeft: u.ByteHoursLeft, Egress: u.Egress, Cores: u.Cores, Memory: u.Memory, Placements: int64(u.Placements), Off: u.Off,
		Expected: u.Expected,
	}
}

func decodeUsage(m *controllerpb.Usage) *plan.Usage {
	if m == nil {
		return nil
	}
	return &plan.Usage{
		Held: m.Held, Rate: m.Rate, ByteHoursLeft: m.ByteHoursLeft, Egress: m.Egress, Cores: m.Cores, Memory: m.Memory, Placements: int(m.Placements), Off: m.Off,
		Expected: m.Expected,
	}
}

// Encode returns the message.
func (r Ranking) Encode() *controllerpb.RankingReply {
	return &controllerpb.RankingReply{
		Standings: EncodeStandings(r.Placements), All: int64(r.All), Refused: EncodeStandings(r.Refused), RefusedAll: int64(r.RefusedAll), Usage: encodeUsage(r.Usage),
	}
}

func decodeRanking(m *controllerpb.RankingReply) Ranking {
	return Ranking{
		Placements: decodeStandings(m.Standings), All: int(m.All), Refused: decodeStandings(m.Refused), RefusedAll: int(m.RefusedAll), Usage: decodeUsage(m.Usage),
	}
}

// Encode returns the message.
func (w Why) Encode() *controllerpb.WhyReply {
	return &controllerpb.WhyReply{
		Path: w.Path, Known: w.Known, Standings: EncodeStandings(w.Standings), Policy: w.Policy, Ready: w.Ready, ReadyProblem: w.ReadyProblem,
	}
}

func decodeWhy(m *controllerpb.WhyReply) Why {
	return Why{Path: m.Path, Known: m.Known, Standings: decodeStandings(m.Standings), Policy: m.Policy, Ready: m.Ready, ReadyProblem: m.ReadyProblem}
}

// EncodeStandings returns the messages of placements.
func EncodeStandings(list []plan.Standing) []*controllerpb.Standing {
	out := make([]*controllerpb.Standing, 0, len(list))
	for _, s := range list {
		m := &controllerpb.Standing{
			Id: uint64(s.ID), Path: s.Path, Site: s.Site, Means: string(s.Means), State: s.State, Job: s.Job, Emergency: s.Emergency, Bytes: s.Bytes,
			Sources: int64(s.Sources), Extra: int64(s.Extra), Value: s.Value, Cost: s.Cost, Rank: s.Rank, LeftNs: int64(s.Left), Reason: string(s.Reason), Detail: s.Detail, Why: s.Why,
		}
		if p := s.Progress; p != nil {
			m.Progress = &controllerpb.Progress{Done: p.Done, Total: p.Total, Rate: p.Rate}
		}
		out = append(out, m)
	}
	return out
}

func decodeStandings(list []*controllerpb.Standing) []plan.Standing {
	out := make([]plan.Standing, 0, len(list))
	for _, m := range list {
		s := plan.Standing{
			ID: plan.ID(m.Id), Path: m.Path, Site: m.Site, Means: plan.Means(m.Means), State: m.State, Job: m.Job, Emergency: m.Emergency, Bytes: m.Bytes,
			Sources: int(m.Sources), Extra: int(m.Extra), Value: m.Value, Cost: m.Cost, Rank: m.Rank, Left: time.Duration(m.LeftNs), Reason: plan.Reason(m.Reason), Detail: m.Detail,
			Why: m.Why,
		}
		if p := m.Progress; p != nil {
			s.Progress = &plan.Progress{Done: p.Done, Total: p.Total, Rate: p.Rate}
		}
		out = append(out, s)
	}
	return out
}

// EncodeLine returns the message of a line of the audit log.
func EncodeLine(l audit.Line) *controllerpb.AuditLine {
	m := &controllerpb.AuditLine{
		Number: l.Number, AtNs: l.At.UnixNano(), Who: l.Who, What: l.What, Placement: uint64(l.Placement), Path: l.Path, Site: l.Site, Job: l.Job,
		Bytes: l.Bytes, Why: l.Why, Err: l.Err, Means: string(l.Means), TookNs: int64(l.Took), Reused: l.Reused,
	}
	if !l.Until.IsZero() {
		m.UntilNs = l.Until.UnixNano()
	}
	return m
}

func decodeLine(m *controllerpb.AuditLine) audit.Line {
	l := audit.Line{Number: m.Number, Entry: audit.Entry{
		At: time.Unix(0, m.AtNs).UTC(), Who: m.Who, What: m.What, Placement: plan.ID(m.Placement), Path: m.Path, Site: m.Site, Job: m.Job,
		Bytes: m.Bytes, Why: m.Why, Err: m.Err, Means: plan.Means(m.Means), Took: time.Duration(m.TookNs), Reused: m.Reused,
	}}
	if m.UntilNs != 0 {
		l.Until = time.Unix(0, m.UntilNs).UTC()
	}
	return l
}
