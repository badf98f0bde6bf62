package main

import (
	"context"

	"github.com/stepahead-io/stepahead/cmd/sites"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/execute"
)

// world is what the stores say is there.
func (p *program) world() execute.Stores {
	return execute.Stores{Stores: p.stores, Sites: p.stores.Names, Log: p.log}
}

// sweeper undoes what lies in the stores and is not this controller's: the engine undoes that.
func (p *program) sweeper(name string, held func(context.Context) error) func(ctx context.Context, all, dryRun bool) control.SweepResult {
	return func(ctx context.Context, all, dryRun bool) control.SweepResult {
		return sites.Sweep(ctx, p.stores, sites.SweepOptions{All: all, DryRun: dryRun, Fence: held, Spare: name, Log: p.log})
	}
}
