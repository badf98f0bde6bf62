package sources

import (
	"context"
	"encoding/json"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
)

// even tells our readers who reads where: a row of the catalogue without siblings. Nothing is made.
type even struct{ hot }

func (even) Fact(context.Context, plan.Make) (json.RawMessage, error) { return nil, nil }

func (even) Make(context.Context, controller.Placement, controller.Tools) (controller.Made, error) {
	return controller.Made{}, nil
}

func (e even) Publish(ctx context.Context, p controller.Placement, t controller.Tools) error {
	s, err := e.subject(p)
	if err != nil {
		return err
	}
	info, err := s.original(ctx)
	if err != nil {
		return err
	}
	m := e.mark(s, p)
	m.Row = e.rowName(s)
	if err := e.writeMark(ctx, s.st, m, t); err != nil {
		return explain(err)
	}
	return explain(e.writeRow(ctx, s, p, t, info.Size, nil))
}

func (e even) Extend(ctx context.Context, p controller.Placement, t controller.Tools) error {
	there, err := e.extend(ctx, p, t)
	if err != nil || !there {
		return err
	}
	return e.Publish(ctx, p, t)
}

func (e even) Withdraw(ctx context.Context, p controller.Placement, t controller.Tools) error {
	return e.Remove(ctx, p, t)
}

func (e even) Remove(ctx context.Context, p controller.Placement, t controller.Tools) error {
	_, err := e.undo(ctx, e.id(p), t)
	return err
}
