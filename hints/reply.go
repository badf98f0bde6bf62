package hints

import "slices"

// Reason says why a hint was refused. The set is closed and append-only: it crosses the wire.
type Reason string

// The reasons for refusing a hint.
const (
	ReasonIdentity    Reason = "identity"     // the agent sees another dataset under the same path
	ReasonDenied      Reason = "denied"       // the token does not allow it
	ReasonVersion     Reason = "version"      // the peer speaks another version of the messages
	ReasonOldRun      Reason = "old-run"      // the run was replaced by a newer one, or closed
	ReasonUnknownJob  Reason = "unknown-job"  // no schedule of this job and run is held
	ReasonUnknownPlan Reason = "unknown-plan" // the agent lacks an operator of a plan, or has another version
	ReasonUnsupported Reason = "unsupported"  // the agent does not act on this kind or form of hint
	ReasonBusy        Reason = "busy"         // the agent holds as many jobs or hints as it may
	ReasonUnavailable Reason = "unavailable"  // the agent cannot open the dataset or its index now
)

// Reply is the answer to a hint. Reason is empty exactly when the hint was accepted; Detail is for
// people.
type Reply struct {
	Accepted bool
	Reason   Reason
	Detail   string
}

// Accept is the reply to a hint that is acted on.
func Accept() Reply { return Reply{Accepted: true} }

// Refuse is the reply to a hint that is not.
func Refuse(r Reason, detail string) Reply { return Reply{Reason: r, Detail: detail} }

// Reasons returns every reason, in the order of the declarations above.
func Reasons() []Reason {
	return []Reason{ReasonIdentity, ReasonDenied, ReasonVersion, ReasonOldRun, ReasonUnknownJob,
		ReasonUnknownPlan, ReasonUnsupported, ReasonBusy, ReasonUnavailable}
}

func (r Reason) known() bool { return slices.Contains(Reasons(), r) }
