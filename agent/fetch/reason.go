package fetch

// Reason says why an entry is not a prepared tensor. The set is closed and append-only: it crosses the
// wire and labels metrics.
type Reason string

// ReasonNone is the reason of a prepared entry.
const ReasonNone Reason = ""

// Reasons that an agent gives with raw bytes.
const (
	ReasonNotReady    Reason = "not-ready"    // the preparation did not end before the deadline
	ReasonExpired     Reason = "expired"      // it was prepared and has been thrown away since
	ReasonCPU         Reason = "cpu"          // the node needs its CPU itself
	ReasonQueue       Reason = "queue"        // too much is waiting
	ReasonMemory      Reason = "memory"       // the shelf is full, or the entry is larger than the reader takes
	ReasonEgress      Reason = "egress"       // sending the tensor would cost more than it saves
	ReasonPoison      Reason = "poison"       // a preparation of this part failed before
	ReasonUnknownPlan Reason = "unknown-plan" // the agent lacks an operator of the plan, or has another version
)

// Reasons that an agent gives without bytes.
const (
	ReasonIdentity   Reason = "identity"    // the agent sees another dataset under the same path
	ReasonDenied     Reason = "denied"      // the token does not allow it
	ReasonUnknownJob Reason = "unknown-job" // no schedule of this job and run is held
	ReasonVersion    Reason = "version"     // the peer speaks another version of the protocol
)

// Reasons that a loader concludes by itself.
const (
	ReasonNoAgent     Reason = "no-agent"    // no agent owns the sample
	ReasonUnreachable Reason = "unreachable" // the agent could not be reached, or was lost
	ReasonDeadline    Reason = "deadline"    // the agent did not answer in time
	ReasonCorrupt     Reason = "corrupt"     // the answer contradicts itself or its checksum
)

// Reasons returns every reason but [ReasonNone], in the order of the declarations above.
func Reasons() []Reason {
	return []Reason{ReasonNotReady, ReasonExpired, ReasonCPU, ReasonQueue, ReasonMemory, ReasonEgress, ReasonPoison, ReasonUnknownPlan,
		ReasonIdentity, ReasonDenied, ReasonUnknownJob, ReasonVersion, ReasonNoAgent, ReasonUnreachable, ReasonDeadline, ReasonCorrupt}
}

// fromAgent reports whether an agent may give the reason.
func (r Reason) fromAgent() bool {
	switch r {
	case ReasonNotReady, ReasonExpired, ReasonCPU, ReasonQueue, ReasonMemory, ReasonEgress, ReasonPoison, ReasonUnknownPlan, ReasonIdentity, ReasonDenied, ReasonUnknownJob, ReasonVersion:
		return true
	}
	return false
}
