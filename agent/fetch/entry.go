package fetch

import (
	"time"

	"github.com/stepahead-io/stepahead/transform"
)

// ProtocolVersion is the version of the wire that this package speaks. Peers of different versions
// answer each other with [ReasonVersion] and no bytes.
const ProtocolVersion = 1

// Want names one entry: a field of a sample in an epoch.
type Want struct {
	Sample, Epoch uint64
	Field         string
}

// Request asks an agent for the entries of one step. A Request is not changed by this package.
type Request struct {
	// Job and Run name the job and its current start.
	Job, Run string
	// Generation is the number of the agent list by which the agent was chosen.
	Generation uint64
	// Step is the step that the wants belong to.
	Step int64
	// Progress is the lowest step that this rank still wants.
	Progress int64
	// Dataset is the dataset's identity.
	Dataset [32]byte
	// PlanDigests holds, for every field that a want names, the digest of the agent's half of its plan.
	PlanDigests map[string][32]byte
	// Wants are the entries. The index of a want is its place here.
	Wants []Want
	// Deadline is how long the agent may wait for preparations that run or are queued. 0: not at all.
	Deadline time.Duration
	// MaxEntry is the largest entry the loader takes, in bytes. A handler reads it; [Client.Fetch]
	// sets it from its options.
	MaxEntry int64
}

// Tensor is a prepared sample in the caller's memory. Its bytes have been checked against CRC.
type Tensor struct {
	Spec transform.TensorSpec
	Data []byte
	CRC  uint32 // CRC-32C of Data
}

// Answer is what became of one want: Prepared is set, or Raw is set and Reason says why, or only
// Reason is set. Data lies in the memory that [Alloc] gave.
type Answer struct {
	Prepared *Tensor
	// Raw holds the part's stored bytes. It is empty but not nil for a part of zero bytes.
	Raw    []byte
	Reason Reason
	// Node is the agent's name as it gives it; empty when the loader concluded the reason itself and
	// the agent had not named itself.
	Node string
	// LeadTime is how long the tensor lay ready when it was asked for; 0 if it was waited for.
	LeadTime time.Duration
	// PrepareCPU is the CPU time of its preparation.
	PrepareCPU time.Duration
}

// Alloc gives the memory for the payload of a want: exactly size bytes, size > 0. It is called at most
// once a want, after the sizes were checked against each other and against the limits. An error ends
// the Fetch.
type Alloc func(want int, prepared bool, size int64) ([]byte, error)

// Payload is an entry as an agent sends it: prepared (Raw false, Reason empty), raw (Raw true and a
// reason), or none (Raw false and a reason; no Data).
type Payload struct {
	Spec transform.TensorSpec // of a prepared entry
	// Data must not change until Release. It is sent without a copy.
	Data []byte
	// Release, if not nil, is called exactly once for every payload given to send, when nothing refers
	// to Data any more: sent, failed or cancelled. It may be called by another goroutine, before or
	// after send returns, and must not block.
	Release    func()
	Raw        bool
	Reason     Reason
	CRC        uint32   // CRC-32C of Data
	PlanDigest [32]byte // of a prepared entry: the plan that made it
	LeadTime   time.Duration
	PrepareCPU time.Duration
}
