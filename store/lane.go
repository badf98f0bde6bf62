package store

import "context"

// Lane says what a read is for. A store that bounds what it has in flight bounds each lane by itself, so that reads of
// one lane never wait for those of another.
type Lane int

const (
	// Feed is for samples of the next steps: small reads that are wanted soon. It is the lane of a context that names none.
	Feed Lane = iota
	// Bulk is for checkpoints and other large things: much at once, in large reads.
	Bulk
	// Lanes is how many there are.
	Lanes
)

type laneKey struct{}

// WithLane returns a context whose reads are in a lane.
func WithLane(ctx context.Context, l Lane) context.Context {
	return context.WithValue(ctx, laneKey{}, l)
}

// LaneOf returns the lane that a context names.
func LaneOf(ctx context.Context) Lane {
	l, _ := ctx.Value(laneKey{}).(Lane)
	return l
}
