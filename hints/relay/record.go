// Package relay keeps what jobs foretell of checkpoints and starts until the controller has read it: a ledger in a file, to which records are
// only ever added.
package relay

import (
	"encoding/hex"
	"time"

	"github.com/stepahead-io/stepahead/hints"
)

// Version is that of records.
const Version = 1

// Record is one hint as an agent took it. Exactly one of Start, Checkpoint and Ended is set.
type Record struct {
	Version int `json:"v"`
	// Number is the record's place in the ledger, from 1 on. Numbers grow; of each job a ledger forgets from the smallest.
	Number uint64 `json:"number"`
	// ReceivedMS is when the agent took it, in milliseconds since 1970 by the clock of its host. It holds for TTLMS from then on.
	ReceivedMS int64 `json:"received_ms"`
	TTLMS      int64 `json:"ttl_ms"`
	// ID is the hint's: a record that repeats one says nothing new.
	ID         string  `json:"id"`
	Job        string  `json:"job"`
	Run        string  `json:"run"`
	User       string  `json:"user,omitempty"`
	Confidence float64 `json:"confidence"`
	// Identity is the checkpoint's, as hexadecimal digits; "" where the hint is bound to none.
	Identity   string      `json:"identity,omitempty"`
	Start      *Start      `json:"start,omitempty"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// Ended: the run is over.
	Ended bool `json:"ended,omitempty"`
}

// Start foretells that a job starts, or, if Phase is set, says how far it is: hints.Start has what the fields mean. Paths are names in the store.
type Start struct {
	// Phase is "" of an announcement, else "opened" or "read".
	Phase        string    `json:"phase,omitempty"`
	Ranks        uint32    `json:"ranks"`
	RanksPerHost uint32    `json:"ranks_per_host"`
	ExpectedInMS int64     `json:"expected_in_ms"`
	Files        []HotFile `json:"files"`
	// MedianMS, LastMS and Bytes are hints.Took.
	MedianMS int64 `json:"median_ms,omitempty"`
	LastMS   int64 `json:"last_ms,omitempty"`
	Bytes    int64 `json:"bytes,omitempty"`
}

// HotFile is a file that many ranks read at once.
type HotFile struct {
	Path    string `json:"path"`
	Readers uint32 `json:"readers"`
}

// Checkpoint is a moment in a checkpoint's life. Path is a name in the store, State one of the names of hints.CheckpointState.
type Checkpoint struct {
	State        string           `json:"state"`
	Path         string           `json:"path"`
	Step         int64            `json:"step"` // -1: not known
	Layout       string           `json:"layout,omitempty"`
	SaveID       string           `json:"save_id,omitempty"`
	Files        []CheckpointFile `json:"files,omitempty"`
	Urgency      float64          `json:"urgency"`
	Evaluation   string           `json:"evaluation,omitempty"`
	Site         string           `json:"site,omitempty"`
	ExpectedInMS int64            `json:"expected_in_ms,omitempty"`
	Sequence     uint64           `json:"sequence,omitempty"`
	// AgoMS is how long before the sending that happened which is said, by the sender's clock.
	AgoMS    int64   `json:"ago_ms,omitempty"`
	Result   *Result `json:"result,omitempty"`
	Decision string  `json:"decision,omitempty"`
}

// Result is one thing that an evaluation has found.
type Result struct {
	Metric     string   `json:"metric,omitempty"`
	Value      *float64 `json:"value,omitempty"`
	Regression bool     `json:"regression"`
}

// CheckpointFile is one file of a committed checkpoint. A CRC of 0 is not known.
type CheckpointFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	CRC  uint32 `json:"crc32c,omitempty"`
}

// Paths are the names in the store that the record speaks of.
func (r Record) Paths() []string {
	if r.Checkpoint != nil {
		return []string{r.Checkpoint.Path}
	}
	var paths []string
	if r.Start != nil {
		for _, f := range r.Start.Files {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// Expired tells whether the record no longer holds, by the clock of the host that wrote it.
func (r Record) Expired(now time.Time) bool { return now.UnixMilli() >= r.ReceivedMS+r.TTLMS }

// RecordOf returns the record of a hint that a user's token was good for, taken at a time; name gives the place in the store of each of its
// paths.
func RecordOf(h hints.Hint, user string, received time.Time, name func(path string) string) Record {
	r := Record{
		Version: Version, ReceivedMS: received.UnixMilli(), TTLMS: h.TTL.Milliseconds(),
		ID: h.ID, Job: h.Job, Run: h.Run, User: user, Confidence: h.Confidence,
	}
	if h.Identity != [32]byte{} {
		r.Identity = hex.EncodeToString(h.Identity[:])
	}
	r.Ended = h.Close != nil
	if s := h.Start; s != nil {
		r.Start = &Start{
			Ranks: s.Ranks, RanksPerHost: s.RanksPerHost, ExpectedInMS: s.ExpectedIn.Milliseconds(), Files: []HotFile{},
			MedianMS: s.Took.Median.Milliseconds(), LastMS: s.Took.Last.Milliseconds(), Bytes: s.Took.Bytes,
		}
		if s.Phase != hints.Announced {
			r.Start.Phase = s.Phase.String()
		}
		for _, f := range s.Files {
			r.Start.Files = append(r.Start.Files, HotFile{name(f.Path), f.Readers})
		}
	}
	if c := h.Checkpoint; c != nil {
		r.Checkpoint = &Checkpoint{
			State: c.State.String(), Path: name(c.Path), Step: c.Step, Layout: c.Layout, SaveID: c.SaveID, Urgency: c.Urgency,
			Evaluation: c.Evaluation, Site: c.Site, ExpectedInMS: c.ExpectedIn.Milliseconds(), Sequence: c.Sequence,
			AgoMS: c.Ago.Milliseconds(), Decision: string(c.Decision),
		}
		if found := c.Result; found != nil {
			r.Checkpoint.Result = &Result{Metric: found.Metric, Value: found.Value, Regression: found.Regression}
		}
		for _, f := range c.Files {
			r.Checkpoint.Files = append(r.Checkpoint.Files, CheckpointFile(f))
		}
	}
	return r
}
