package hints

import (
	"strings"
	"time"
)

// ProtocolVersion is the newest version of the messages that this package speaks; it speaks all down to 1.
// A hint has the lowest version that can say it: 4 about how far a start is and what came of an evaluation, 3 about checkpoints otherwise, 2 with members or
// windows, else 1.
const ProtocolVersion = 4

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
	// Window continues the Window of the run's schedule.
	Window *Window
}

// Schedule foretells the samples of a job's steps. Exactly one of Spec and Window is set.
type Schedule struct {
	// DatasetURL is where the agent opens the dataset itself, and Dataset is the identity it must find.
	DatasetURL string
	Dataset    [32]byte
	// Members are the datasets of an order over several, in the order of its sources; DatasetURL and
	// Source are then empty, and Dataset is the identity of their union. [Schedule.Datasets] gives one list
	// for both forms.
	Members []Member
	// Spec is the canonical JSON of the order's specification, which the agent runs itself.
	Spec []byte
	// Window lists the explicit ids of the first steps, for orders that no specification gives or whose
	// specification the agent does not know. Hints of kind Window continue it.
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

// Member is one dataset of several: the source's name, which keys the randomness of its samples, where
// the agent opens it, and its own identity.
type Member struct {
	Name, DatasetURL string
	Dataset          [32]byte
}

// Datasets returns the datasets of either form. That of a schedule without Members has the empty name.
func (s *Schedule) Datasets() []Member {
	if len(s.Members) > 0 {
		return s.Members
	}
	return []Member{{DatasetURL: s.DatasetURL, Dataset: s.Dataset}}
}

// FieldPlan is the agent's half of one media field's plan, as canonical JSON and its SHA-256.
type FieldPlan struct {
	Field  string
	Plan   []byte
	Digest [32]byte
}

// Agent is a node's name, as the store's locations give it, and where it listens.
type Agent struct{ Node, Addr string }

// Window is a stretch of explicit sample ids, one list a step from FirstStep on, in which order does not
// count. An Epoch voids what was announced with a smaller one; windows of the same one must leave no gap.
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

// Start foretells that a job starts and what it reads first; in a later phase it says how far the job's ranks are with that.
type Start struct {
	Phase               StartPhase
	Ranks, RanksPerHost uint32
	// ExpectedIn is when it starts, from the hint's arrival. Only of Announced.
	ExpectedIn time.Duration
	// Files are those that ranks read; of the phases after Announced also folders that they are in, or none for all that were announced.
	Files []HotFile
	// Took is how long reading took. Only of Read.
	Took Took
}

// StartPhase is how far a start is. The numbers cross the wire.
type StartPhase int

// The phases of a start.
const (
	// Announced: the job will start.
	Announced StartPhase = 0
	// Opened: the first rank has opened the files.
	Opened StartPhase = 1
	// Read: all ranks have read them.
	Read StartPhase = 2
)

// String is the phase's name: "announced", "opened" or "read".
func (p StartPhase) String() string {
	switch p {
	case Announced:
		return "announced"
	case Opened:
		return "opened"
	case Read:
		return "read"
	}
	return "unknown"
}

// Took sums up how long ranks took from the first opening on until each had read what it wanted. 0 is not known.
type Took struct {
	Median, Last time.Duration
	// Bytes are those that one rank read, in the median.
	Bytes int64
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
	// LossSpike: the loss has jumped, so that what is asked for of the checkpoint is urgent.
	LossSpike CheckpointState = 8
	// EvaluationLoaded: the evaluation has read the checkpoint, and computes. EvaluationResult: it has found something. EvaluationDecided: what
	// is done with the run because of it. Nothing is asked for by these three.
	EvaluationLoaded  CheckpointState = 9
	EvaluationResult  CheckpointState = 10
	EvaluationDecided CheckpointState = 11

	lastState = EvaluationDecided
)

// stateNames are the states as people and ledgers write them, from Saving on.
const stateNames = "saving committed evaluation-scheduled evaluation-cancelled evaluation-opened evaluation-done deleted loss-spike " +
	"evaluation-loaded evaluation-result evaluation-decided"

// String is the state's name, such as "evaluation-scheduled".
func (s CheckpointState) String() string {
	if s < Saving || s > lastState {
		return "unknown"
	}
	return strings.Fields(stateNames)[s-Saving]
}

// ParseCheckpointState is the opposite of String; false for what is no state's name.
func ParseCheckpointState(name string) (CheckpointState, bool) {
	for i, known := range strings.Fields(stateNames) {
		if known == name {
			return Saving + CheckpointState(i), true
		}
	}
	return 0, false
}

// OfEvaluation tells whether the state is one of an evaluation of a checkpoint, and not of the checkpoint itself.
func (s CheckpointState) OfEvaluation() bool {
	return s >= EvaluationScheduled && s <= EvaluationDone || s.Outcome()
}

// Outcome tells whether the state says what came of an evaluation, and asks for nothing.
func (s CheckpointState) Outcome() bool { return s >= EvaluationLoaded && s <= EvaluationDecided }

// Checkpoint foretells or reports a moment in a checkpoint's life.
type Checkpoint struct {
	State  CheckpointState
	Path   string
	Layout string
	SaveID string
	Files  []CheckpointFile
	// Urgency is in [0, 1]; larger is sooner.
	Urgency float64
	// Step is the training step that the checkpoint is of; -1 if it is not known.
	Step int64
	// Evaluation tells several evaluations of one checkpoint apart, Site is where it runs, and ExpectedIn when it opens the checkpoint,
	// from the hint's arrival.
	Evaluation, Site string
	ExpectedIn       time.Duration
	// Sequence grows with what a run's sender says about a checkpoint: of two hints the one with the smaller number is late. 0 says
	// nothing about the order.
	Sequence uint64
	// Ago is how long before the sending that happened which is said, by the sender's clock.
	Ago time.Duration
	// Result is of EvaluationResult, Decision of EvaluationDecided.
	Result   *Result
	Decision Decision
}

// Result is one thing that an evaluation has found.
type Result struct {
	// Metric names it, such as "mmlu"; "" where there is one.
	Metric string
	// Value is nil where there is no number.
	Value *float64
	// Regression says that it is worse than it may be.
	Regression bool
}

// Decision is what is done with a run after an evaluation.
type Decision string

// The decisions.
const (
	Continue Decision = "continue"
	Rollback Decision = "rollback"
	Stop     Decision = "stop"
)

// CheckpointFile is one file of a committed checkpoint. CRC is CRC-32C.
type CheckpointFile struct {
	Name string
	Size int64
	CRC  uint32
}
