package plan

import (
	"fmt"
	"time"
)

// ID names a placement: bytes that are somewhere for a time. Numbers are never used twice.
type ID uint64

// Action is something to be done. The actions are the types of this file. Those with an ID are journaled before they are done and answered with
// [Done] or [Failed]; [Pace] and [Extend] are not answered, nor is [Refuse], which only reports.
type Action interface{ String() string }

// Look asks what the files are. [Looked] follows, with all of them or several times with some.
type Look struct{ Paths []string }

func (a Look) String() string {
	if len(a.Paths) == 1 {
		return "look     " + a.Paths[0]
	}
	return fmt.Sprintf("look     %d files, first %s", len(a.Paths), a.Paths[0])
}

// Inspect asks what the checkpoint at a path is. [Inspected] follows.
type Inspect struct{ Path string }

func (a Inspect) String() string { return "inspect  " + a.Path }

// Make makes what a placement is: copies a checkpoint, or gives a file more sources. It must do nothing if the source is not Identity. A copy that
// was begun before is gone on with. Nobody finds it before it is published.
type Make struct {
	ID       ID     `json:"id"`
	Means    Means  `json:"means"`
	Path     string `json:"path"`
	Identity string `json:"identity"`
	Site     string `json:"site,omitempty"` // of copies
	// Access is who may read a copy.
	Access Access `json:"access,omitempty"`
	// Of is the placement whose data has the same content: nothing is sent, what is made is a name for it. 0: none.
	Of ID `json:"of,omitempty"`
	// Sources is how many there are to be in all, those of the original included, and Extra how many are to be made.
	Sources int `json:"sources,omitempty"`
	Extra   int `json:"extra,omitempty"`
	// Bytes is what it takes while it lasts; Content the length of what is copied.
	Bytes   int64 `json:"bytes"`
	Content int64 `json:"content"`
	// Rate bounds the making, in bytes a second.
	Rate int64 `json:"rate,omitempty"`
	// Lease is how long it may last, from now on.
	Lease     time.Duration `json:"lease_ns"`
	Emergency bool          `json:"emergency,omitempty"`
	// Job pays for it.
	Job string `json:"job"`
	Why string `json:"why"`
}

func (a Make) String() string {
	s := fmt.Sprintf("make     %d %s %s", a.ID, a.Means, a.Path)
	if a.Site != "" {
		s += " to=" + a.Site
	}
	if a.Access != AsOriginal {
		s += " access=" + string(a.Access)
	}
	if a.Of != 0 {
		s += fmt.Sprintf(" of=%d", a.Of)
	}
	if a.Extra > 0 {
		s += fmt.Sprintf(" sources=%d extra=%d", a.Sources, a.Extra)
	}
	s += fmt.Sprintf(" bytes=%d", a.Bytes)
	if a.Rate > 0 {
		s += fmt.Sprintf(" rate=%d", a.Rate)
	}
	if a.Emergency {
		s += " emergency"
	}
	return s + fmt.Sprintf(" lease=%v: %s", a.Lease, a.Why)
}

// Less is a making of which so many extra sources were not made: what it is then. Of a sibling nothing makes them later, and it takes less; of a file itself the store
// may.
func (a Make) Less(short int) Make {
	if short = min(short, a.Extra); short <= 0 {
		return a
	}
	if a.Means == Sibling {
		a.Bytes -= a.Bytes / int64(a.Extra) * int64(short)
	}
	a.Sources, a.Extra = a.Sources-short, a.Extra-short
	return a
}

// Pace changes the bytes a second of a making that is under way; 0 pauses it.
type Pace struct {
	ID   ID     `json:"id"`
	Rate int64  `json:"rate"`
	Why  string `json:"why"`
}

func (a Pace) String() string { return fmt.Sprintf("pace     %d rate=%d: %s", a.ID, a.Rate, a.Why) }

// Publish lets readers find a placement.
type Publish struct {
	ID    ID            `json:"id"`
	Means Means         `json:"means"`
	Path  string        `json:"path"`
	Site  string        `json:"site,omitempty"`
	Lease time.Duration `json:"lease_ns"`
	Why   string        `json:"why"`
	// Identity is that of the original. Readers is how many there are of a hot file, who spread over all of its sources.
	Identity string `json:"identity"`
	Readers  int    `json:"readers,omitempty"`
	Job      string `json:"job"`
}

func (a Publish) String() string {
	s := fmt.Sprintf("publish  %d %s %s", a.ID, a.Means, a.Path)
	if a.Readers > 0 {
		s += fmt.Sprintf(" readers=%d", a.Readers)
	}
	return s + fmt.Sprintf(" lease=%v: %s", a.Lease, a.Why)
}

// Extend changes how long a placement may last, from now on.
type Extend struct {
	ID    ID            `json:"id"`
	Lease time.Duration `json:"lease_ns"`
	Why   string        `json:"why"`
}

func (a Extend) String() string { return fmt.Sprintf("extend   %d lease=%v: %s", a.ID, a.Lease, a.Why) }

// Withdraw lets no reader find a placement any more. What readers have open stays.
type Withdraw struct {
	ID  ID     `json:"id"`
	Why string `json:"why"`
}

func (a Withdraw) String() string { return fmt.Sprintf("withdraw %d: %s", a.ID, a.Why) }

// Remove undoes what was made, whole or in part, also while it is being made: data is deleted, replication and storage policy are what they were.
type Remove struct {
	ID  ID     `json:"id"`
	Why string `json:"why"`
}

func (a Remove) String() string { return fmt.Sprintf("remove   %d: %s", a.ID, a.Why) }

// Refuse says what is not done, or not now, and why. It comes when the reason changes.
type Refuse struct {
	Path   string
	Site   string
	Job    string
	Reason Reason
	Detail string
}

func (a Refuse) String() string {
	s := "refuse   " + a.Path
	if a.Site != "" {
		s += " to=" + a.Site
	}
	s += " " + string(a.Reason)
	if a.Detail != "" {
		s += ": " + a.Detail
	}
	return s
}

// Reason is why something is refused, waits or ends.
type Reason string

// The reasons. They are only added to.
const (
	ReasonBudget   Reason = "budget"        // a budget is used up, or too small
	ReasonBusy     Reason = "busy"          // the cluster has too much to do
	ReasonCommit   Reason = "not-committed" // no committed version is known
	ReasonDrained  Reason = "drained"       // the operator lets nothing new begin
	ReasonExpired  Reason = "expired"       // the hint held too long ago
	ReasonFailed   Reason = "failed"        // it was tried and failed
	ReasonFewer    Reason = "fewer"         // it is there, with fewer sources than were asked for
	ReasonIdentity Reason = "identity"      // the source is another version
	ReasonInvalid  Reason = "invalid"       // the record is not one
	ReasonLate     Reason = "late"          // it would be ready when nobody reads any more
	ReasonMeans    Reason = "means"         // no allowed means adds a source
	ReasonOff      Reason = "switched-off"  // the budget's switch
	ReasonOldRun   Reason = "old-run"       // a newer run of the job is known
	ReasonPolicy   Reason = "policy"        // policy does not allow it
	ReasonQuota    Reason = "quota"         // the job's part of a budget
	ReasonRevoked  Reason = "revoked"       // the operator took it back
	ReasonSite     Reason = "site"          // the site is not known, full, read-only or gone
	ReasonSource   Reason = "source"        // the source is not there, or not whole
	ReasonWait     Reason = "not-yet"       // its time has not come
	ReasonWorth    Reason = "worth"         // it costs more than it is expected to return
	ReasonUnneeded Reason = "unneeded"      // nobody asks for it any more
)

// Reasons are all of them.
func Reasons() []Reason {
	return []Reason{
		ReasonBudget, ReasonBusy, ReasonCommit, ReasonDrained, ReasonExpired, ReasonFailed, ReasonFewer, ReasonIdentity, ReasonInvalid, ReasonLate, ReasonMeans,
		ReasonOff, ReasonOldRun, ReasonPolicy, ReasonQuota, ReasonRevoked, ReasonSite, ReasonSource, ReasonWait, ReasonWorth, ReasonUnneeded,
	}
}
