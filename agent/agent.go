// Package agent turns schedules into ready tensors within its budgets, and answers each fetch with a
// tensor, or with raw bytes and the reason.
package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Agent prepares what training jobs will fetch. [New] makes one, [Agent.Run] runs it.
type Agent struct{ o Options }

// New returns an agent. It does no I/O and starts nothing.
func New(o Options) (*Agent, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("agent.New: %w", err)
	}
	return &Agent{o: o.withDefaults()}, nil
}

// Run serves hints and fetches on lis, which it closes, until ctx ends.
func (a *Agent) Run(ctx context.Context, lis net.Listener) error { return errors.ErrUnsupported }
