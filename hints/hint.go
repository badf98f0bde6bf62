package hints

import (
	"time"
)

// ProtocolVersion is the version of the messages that this package speaks.
const ProtocolVersion = 1

// Hint is something foretold. Exactly one of the kinds is set.
type Hint struct {
	// ID names the hint. A second hint with the same id changes nothing. [NewID] makes one.
	ID string
	// Job and Run name the job and its current start. Runs are compared for equality only: a new
	// one voids the job's older ones.
	Job, Run string
	// TTL is how long the hint holds from its arrival, between 1 ms and [MaxTTL].
	TTL time.Duration
	// Confidence is the probability, in (0, 1], that what is foretold comes true.
	Confidence float64
	// Identity is what the hint is bound to: a dataset's identity or a checkpoint's.
	Identity [32]byte

	Schedule   *Schedule
	Progress   *Progress
	Close      *Close
	Start      *Start
	Checkpoint *Checkpoint
}

// Schedule foretells the samples of a job's steps. Exactly one of Spec and Window is set.
type Schedule struct {
	// DatasetURL is where the agent opens the dataset itself, and Dataset is the identity it must find.
	DatasetURL string
	Dataset    [32]byte
	// Spec is the canonical JSON of the order's specification, which the agent runs itself.
	Spec []byte
	// Window lists explicit ids, for orders that no specification gives. This version of the package
	// refuses it with [ReasonUnsupported].
	Window *Window
	Fields []FieldPlan
	// Source and Seed key the randomness of each sample.
	Source string
	Seed   uint64
	// FirstStep is the first step that will be asked for.
	FirstStep int64
	// StepTime is the expected time between steps; 0 if unknown.
	StepTime time.Duration
	// Agents is the list that owners are chosen from; Generation grows when it changes.
	Agents     []Agent
	Generation uint64
	// Operators maps an operator's identity to the hex digest of its golden outputs.
	Operators map[string]string
}

// FieldPlan is the agent's half of one media field's plan, as canonical JSON and its SHA-256.
type FieldPlan struct {
	Field  string
	Plan   []byte
	Digest [32]byte
}

// Agent is a node's name, as the store's locations give it, and where it listens.
type Agent struct{ Node, Addr string }

// Window is a stretch of explicit sample ids, one list a step from FirstStep on. An Epoch voids the
// windows announced with a smaller one.
type Window struct {
	Epoch     uint64
	FirstStep int64
	Steps     [][]WindowSample
}

// WindowSample is one place of a window's step.
type WindowSample struct {
	Source        uint32
	Epoch, Sample uint64
}

// Progress moves the step clock when no fetch does.
type Progress struct {
	// Step is the lowest step that any rank still wants.
	Step int64
}

// Close ends a run: what was prepared for it is freed at once.
type Close struct{}

// Start foretells that a job starts and what it reads first.
type Start struct {
	Ranks, RanksPerHost uint32
	// ExpectedIn is when it starts, from the hint's arrival.
	ExpectedIn time.Duration
	Files      []HotFile
}

// HotFile is a file that many ranks read at once.
type HotFile struct {
	Path    string
	Readers uint32
}

// CheckpointState is a moment in a checkpoint's life. The numbers cross the wire.
type CheckpointState int

// The states of a checkpoint.
const (
	Saving              CheckpointState = 1
	Committed           CheckpointState = 2
	EvaluationScheduled CheckpointState = 3
	EvaluationCancelled CheckpointState = 4
	EvaluationOpened    CheckpointState = 5
	EvaluationDone      CheckpointState = 6
	Deleted             CheckpointState = 7
)

// Checkpoint foretells or reports a moment in a checkpoint's life.
type Checkpoint struct {
	State  CheckpointState
	Path   string
	Layout string
	SaveID string
	Files  []CheckpointFile
	// Urgency is in [0, 1]; larger is sooner.
	Urgency float64
}

// CheckpointFile is one file of a committed checkpoint. CRC is CRC-32C.
type CheckpointFile struct {
	Name string
	Size int64
	CRC  uint32
}
