// Package protocol knows the messages between a pool and its worker processes, and the worker's side of
// the conversation.
//
// A worker inherits three descriptors: [ControlFD], a unix SEQPACKET socket on which every message is one
// packet; [InputFD] and [OutputFD], shared memory that neither side can resize. The pool says Hello, the
// worker answers Welcome; then each Request has one Reply. Only what describes a job passes through the
// socket, never pixels. Every byte that comes from the other side is checked: a decoder is the one program
// here that reads hostile input.
package protocol

import "github.com/stepahead-io/stepahead/transform"

// Version is the version of this protocol. It rises with every change; both sides must agree.
const Version = 1

// The descriptors that a worker inherits.
const (
	ControlFD = 3
	InputFD   = 4
	OutputFD  = 5
)

// ServeFlag is the argument by which a pool tells the worker program that those descriptors are there.
const ServeFlag = "--serve"

const (
	// MaxPacket bounds one message, in bytes: a plan of at most 64 KiB and a source name.
	MaxPacket = 96 << 10
	maxDetail = 4 << 10 // of an error's text
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
	Golden    map[string]string `json:"golden"`    // operator identity -> golden digest, hex
}

// Request is one job; its input lies at the front of the input memory.
type Request struct {
	Slot   uint8  // which remembered plan
	Plan   []byte // canonical JSON to remember in Slot first; empty: Slot holds it already
	Key    transform.Key
	Input  int64 // bytes
	Output int64 // bytes that the caller has room for
}

// Status says how a job ended.
type Status uint8

// The ways a job ends.
const (
	Done   Status = iota // the tensor is in the output memory
	Short                // the tensor of Shape needs more room than Request.Output
	Failed               // Error says why
)

// Reply ends a job.
type Reply struct {
	Status  Status
	Shape   [3]int64         // of the uint8 tensor, when Done or Short
	PeakRSS int64            // bytes, of the process so far, as it says itself
	Error   *transform.Error // when Failed
}
