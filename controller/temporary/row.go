package temporary

import (
	"context"
	"errors"
	"io/fs"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/store"
)

// rowIsOf tells whether the row of a mark is there and is the placement's: rows are named for paths, so that another placement of the path may have replaced it.
func rowIsOf(ctx context.Context, st store.Store, m Mark) (bool, error) {
	of, err := catalogue.Of(ctx, st, m.Row, m.Controller, uint64(m.Placement))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return of, err
}
