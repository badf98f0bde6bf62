package plan

import (
	"time"

	"github.com/stepahead-io/stepahead/hints/relay"
)

// Event is something that happened. The events are the types of this file.
type Event interface{ apply(*Planner) }

// Hint is what a job foretold, as an agent kept it. The same hint again, a late one and one of a run that was replaced change nothing.
type Hint struct {
	Record relay.Record
	// Age is how long ago the agent took it, as the agent's own clock says; below 0 it counts as 0.
	Age time.Duration
}

// Looked answers [Look].
type Looked struct{ Files []File }

// Inspected answers [Inspect]. It may also come unasked, when a watcher has seen that a checkpoint changed.
type Inspected struct{ Checkpoint Checkpoint }

// FanOut says that a start's ranks read: the first has opened the file, or, if Ended, the last has read it. Path may be a folder; an empty one stands
// for all files of the start. A run that announced no start stands for the job's newest: who launches a job and its ranks may not know of each other.
type FanOut struct {
	Job, Run, Path string
	Ended          bool
}

// Took says how long a start's ranks took to read: the last of them Last; one rank read Bytes, 0: what was announced. Paths are files or folders, none stands for all files of the start. It comes
// before the [FanOut] that ends the same.
type Took struct {
	Job, Run string
	Paths    []string
	Last     time.Duration
	Bytes    int64
}

// JobEnded says that a run is over, however it ended.
type JobEnded struct{ Job, Run string }

// Done answers an action that was done. Action is the zero value's name: "make", "publish", "withdraw" or "remove".
type Done struct {
	ID     ID
	Action string
	// Reused is how many bytes of a copy lay at the site already, and Took how long the making was not paused.
	Reused int64
	Took   time.Duration
	// Short is how many extra sources a making has not made, for want of a place for them.
	Short int
}

// Failed answers an action that was not done. What had been done in part stays until it is removed. An action that fails is tried again,
// unless it is a Make whose Reason is ReasonIdentity or ReasonSource: then the source is asked for first.
type Failed struct {
	ID     ID
	Action string
	Reason Reason
	Detail string
}

// Damaged says that a published placement is not what it should be: it is withdrawn at once.
type Damaged struct {
	ID     ID
	Detail string
}

// ClusterChanged replaces what is known of the cluster.
type ClusterChanged struct{ Cluster Cluster }

// SiteChanged replaces what is known of a site.
type SiteChanged struct{ Site Site }

// BudgetsChanged replaces the budgets. What no longer fits is aborted, the least worth first.
type BudgetsChanged struct{ Budgets Budgets }

// PricesChanged replaces the price list.
type PricesChanged struct{ Prices Prices }

// PolicyChanged replaces the policy. What it no longer allows is undone.
type PolicyChanged struct{ Policy Policy }

// Revoke undoes placements, and keeps them from being made again until what asked for them has ended: the one with the ID, or all of a path, or, where both
// are zero, all there are. Where Job is set, only those on its account; where Roots are, only those of paths that are one of them or lie below.
type Revoke struct {
	ID    ID
	Path  string
	Job   string
	Roots []string
	Why   string
}

// Revoked tells a new planner what was revoked before: what is at a site, "" for a hot file, is not made for so long, whoever asks for it. It comes among the settings.
type Revoked struct {
	Path, Site string
	Left       time.Duration
}

// Drain lets nothing new begin, or lets it again. What is there runs out.
type Drain struct{ On bool }

// Tick says that time has passed.
type Tick struct{}

// Recovered tells a new planner what its predecessor left, as the journal and the world say. It must come before any other event but the settings.
type Recovered struct{ Held []Held }

// Held is a placement that was begun and not removed.
type Held struct {
	// Make is the action that began it; of Even it is made up from its Publish.
	Make Make
	// Made says that the making had ended, Published that readers may find it, Undoing that it was to be undone.
	Made, Published, Undoing bool
	// Short is as in [Done].
	Short int
	// Left is what is left of its lease; below 0 it is over.
	Left time.Duration
}
