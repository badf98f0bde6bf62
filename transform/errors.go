package transform

import "fmt"

// ErrorKind says what a failed transform means for the sample.
type ErrorKind string

// The kinds of [Error]. The first four are facts about the content and come back the same wherever
// the sample is tried; "plan" is a mistake in the plan; the last three say nothing about the sample,
// which may be tried again and is never replaced because of them.
const (
	KindDecode      ErrorKind = "decode"      // broken bytes
	KindTruncated   ErrorKind = "truncated"   // the bytes end too early
	KindUnsupported ErrorKind = "unsupported" // a format or a variant that no operator here reads
	KindLimit       ErrorKind = "limit"       // larger than the limits allow
	KindPlan        ErrorKind = "plan"        // the plan is invalid, or does not fit this sample
	KindCrash       ErrorKind = "crash"       // the worker process died
	KindDeadline    ErrorKind = "deadline"    // the worker process was killed for taking too long
	KindIO          ErrorKind = "io"          // the worker process could not be started or talked to
)

// Error is a failed transform. Op names the operator or step, Detail the facts and what to do.
type Error struct {
	Kind   ErrorKind
	Op     string
	Detail string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("transform %s: %s: %s", e.Op, e.Kind, e.Detail) }

// Content reports whether the error is a fact about the sample's bytes, so that every other place
// that runs the same operators meets it too and the declared policy for bad samples applies.
func (e *Error) Content() bool {
	switch e.Kind {
	case KindDecode, KindTruncated, KindUnsupported, KindLimit:
		return true
	}
	return false
}
