package agent

import (
	"fmt"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt"
)

// key names one prepared tensor. Two readers that ask for the same key get the same bytes, whatever
// their job, rank or step.
type key struct {
	dataset [32]byte
	sample  uint64
	field   string
	epoch   uint64
	plan    [32]byte // digest of the agent's half
	seed    uint64
	source  string
	// differing names the plan's operators that are others in the job's own program, "" if none is: a job must not get what
	// was made for one whose operators are this agent's.
	differing string
}

// extent is where an encoded part lies.
type extent struct {
	dataset [32]byte
	binfmt.Extent
}

// item is one preparation that a step asks for.
type item struct {
	key       key
	extent    extent
	media     string       // the part's media type
	operators string       // identities of the plan's operators: what a poison entry is bound to
	in, out   int64        // bytes read and bytes produced
	refused   fetch.Reason // not empty: never prepared, and why
	task      *task        // where it comes from; the planner does not look into it
}

// phase is the state of an entry.
type phase uint8

const (
	waiting  phase = iota // wanted; no bytes are reserved yet
	queued                // its bytes are reserved
	running               // a worker has it
	stopping              // a worker had it and was told to stop; it may be wanted still
	ready                 // on the shelf
	failed                // answered raw, for the reason it holds
)

// entry is one key on its way to the shelf. It lives as long as a step wants it, and on until the
// last reply that carries its bytes is out.
type entry struct {
	id uint64
	item
	phase    phase
	wants    []want
	waiters  []waiter
	asked    bool          // it is in the planner's list of entries with waiters
	owner    *job          // whose share of the shelf pays for it
	held     int64         // bytes of the shelf it holds, reserved or used
	start    time.Duration // latest moment to start without being late
	heavy    bool          // it runs in the lane of heavy work
	began    time.Duration // when it began to run
	readyAt  time.Duration
	servedAt time.Duration // when it was first handed out
	served   bool
	gone     bool // no step wants it any more; it leaves when nothing uses its bytes
	replies  int  // answers on their way that carry its bytes
	tries    int  // attempts that failed
	reason   fetch.Reason
}

// want is a step of a job that an entry is for.
type want struct {
	job  *job
	step int64
}

// waiter is a reader who waits for an entry, or for its step to be looked up.
type waiter struct {
	ticket uint64
	index  int
	key    key
	until  time.Duration
}

func (e *entry) poisonKey() poisonKey { return poisonKey{e.extent, e.operators} }

// need is what the shelf must have free before the entry may start: its input and its output.
func (e *entry) need() int64 { return e.in + e.out }

// String names the entry in traces: job/step/sample.
func (e *entry) String() string {
	if len(e.wants) == 0 {
		return fmt.Sprintf("?/%d", e.key.sample)
	}
	return fmt.Sprintf("%s/%d/%d", e.wants[0].job.id, e.wants[0].step, e.key.sample)
}
