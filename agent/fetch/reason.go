package fetch

// Reason says why an entry is not a prepared tensor. The set is closed and append-only: it crosses the
// wire and labels metrics.
type Reason string

// Prepared is the reason of an entry that needs none.
const Prepared Reason = ""

// Reasons that an agent gives with raw bytes.
const (
	NotReady    Reason = "not-ready"    // the preparation did not end before the deadline
	Expired     Reason = "expired"      // it was prepared and has been thrown away since
	CPU         Reason = "cpu"          // the node needs its CPU itself
	Queue       Reason = "queue"        // too much is waiting
	Memory      Reason = "memory"       // the shelf is full, or the entry is larger than the reader takes
	Egress      Reason = "egress"       // sending the tensor would cost more than it saves
	Poison      Reason = "poison"       // a preparation of this part failed before
	UnknownPlan Reason = "unknown-plan" // the agent lacks an operator of the plan, or has another version
)

// Reasons that an agent gives without bytes.
const (
	Identity   Reason = "identity"    // the agent sees another dataset under the same path
	Denied     Reason = "denied"      // the token does not allow it
	UnknownJob Reason = "unknown-job" // no schedule of this job and run is held
	Version    Reason = "version"     // the peer speaks another version of the protocol
)

// Reasons that a loader concludes by itself.
const (
	NoAgent     Reason = "no-agent"    // no agent owns the sample
	Unreachable Reason = "unreachable" // the agent could not be reached, or was lost
	Deadline    Reason = "deadline"    // the agent did not answer in time
	Corrupt     Reason = "corrupt"     // the answer contradicts itself or its checksum
)

// Reasons returns every reason but [Prepared], in the order of the declarations above.
func Reasons() []Reason {
	return []Reason{NotReady, Expired, CPU, Queue, Memory, Egress, Poison, UnknownPlan,
		Identity, Denied, UnknownJob, Version, NoAgent, Unreachable, Deadline, Corrupt}
}

// fromAgent reports whether an agent may give the reason.
func (r Reason) fromAgent() bool {
	switch r {
	case NotReady, Expired, CPU, Queue, Memory, Egress, Poison, UnknownPlan, Identity, Denied, UnknownJob, Version:
		return true
	}
	return false
}
