package hints

import "time"

// Limits of a hint. The sender and the receiver check them.
const (
	// MaxMessage bounds an encoded hint, in bytes.
	MaxMessage = 4 << 20
	// MaxTTL bounds how long a hint holds: "for ever" cannot be said.
	MaxTTL = 24 * time.Hour
	// MaxFiles bounds the files that a hint about a checkpoint or a start names.
	MaxFiles = 1 << 15

	maxName      = 255     // bytes of a job, run, node, field, source, layout or hint id
	maxAddr      = 300     // bytes of an address: a host name of 253, a port
	maxURL       = 4096    // bytes of a URL or a path
	maxPlan      = 1 << 20 // bytes of a plan or an order's specification
	maxFields    = 64
	maxMembers   = 1 << 12
	maxAgents    = 1 << 14
	maxOperators = 1024
	maxStep      = 1 << 62 // leaves room to count on
	maxSteps     = 1 << 12 // of a window
	maxSamples   = 1 << 18 // of a window, all steps together
	maxStepTime  = time.Hour
)
