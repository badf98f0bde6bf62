// Package protocol knows the messages between a pool and its worker processes, and the worker's side of
// the conversation.
//
// A worker inherits three descriptors: [ControlFD], a unix SEQPACKET socket on which every message is one
// packet; [InputFD] and [OutputFD], shared memory that neither side can resize. The pool says Hello, the
// worker answers Welcome; then each Request has one Reply. A request holds up to [MaxBatch] jobs, whose inputs
// lie one after the other in the input memory, and whose outputs will in the output memory: see [Place]. Only what
// describes a job passes through the socket, never pixels. Every byte that comes from the other side is checked: a decoder is the one program
// here that reads hostile input.
package protocol

import "github.com/stepahead-io/stepahead/transform"

// Version is the version of this protocol. It rises with every change; both sides must agree.
const Version = 3

// The descriptors that a worker inherits.
const (
	ControlFD = 3
	InputFD   = 4
	OutputFD  = 5
)

// ServeFlag is the argument by which a pool tells the worker program that those descriptors are there.
const ServeFlag = "--serve"

const (
	// MaxPacket bounds one message, in bytes: a plan of at most 64 KiB and a source name, or a batch of
	// errors.
	MaxPacket = 96 << 10
	// MaxBatch is how many jobs one request may hold: enough to make what a message costs vanish beside the pixels'
	// cost, and few enough to lose. It is at least what a loader sends at once, and what decoding takes into one call
	// into C, so that neither is split.
	MaxBatch  = 16
	maxDetail = 2 << 10 // of an error's text
	maxKind   = 64      // of an error's kind
	// MaxSource bounds the name of a source, in bytes.
	MaxSource = 16 << 10
	// PlanSlots is how many plans a worker remembers.
	PlanSlots = 16
)

// Limits bound one job. Both sides hold them.
type Limits struct {
	MaxPixels int64 `json:"max_pixels"`
	MaxInput  int64 `json:"max_input"`  // bytes of the input memory
	MaxOutput int64 `json:"max_output"` // bytes of the output memory
	MaxMemory int64 `json:"max_memory"` // bytes that decoder and resampler may hold at once
}

// Hello opens the conversation.
type Hello struct {
	Protocol int    `json:"protocol"`
	Limits   Limits `json:"limits"`
}

// Welcome answers Hello.
type Welcome struct {
	Protocol  int               `json:"protocol"`
	Isolation []string          `json:"isolation"` // what the worker has locked down by itself
	Refused   map[string]string `json:"refused"`   // protection -> why it is not in force
	Golden    map[string]string `json:"golden"`    // operator identity -> golden digest, hex
}

// Request is one to MaxBatch jobs. Slots are filled and read in their order.
type Request []Job

// Job is what to do with one part. Its place in both memories follows from the sizes of the jobs before it.
type Job struct {
	Slot   uint8  // which remembered plan
	Plan   []byte // canonical JSON to remember in Slot first; empty: Slot holds it already
	Key    transform.Key
	Input  int64 // bytes
	Output int64 // bytes that the caller has room for
}

// Place returns where n bytes begin that follow used bytes of a memory, and how much of it is used then. Every job
// begins at a cache line of its own.
func Place(used, n int64) (at, then int64) {
	const line = 64
	at = (used + line - 1) &^ (line - 1)
	return at, at + n
}

// Status says how a job ended.
type Status uint8

// The ways a job ends.
const (
	Done   Status = iota // the tensor is in the output memory, where the job's room begins
	Short                // the tensor of Shape needs more room than Job.Output
	Failed               // Error says why
)

// Reply is one to MaxBatch outcomes: it ends the jobs of a request, in their order.
type Reply []Outcome

// Outcome ends a job.
type Outcome struct {
	Status Status
	Shape  [3]int64         // of the uint8 tensor, when Done or Short
	Error  *transform.Error // when Failed
}
