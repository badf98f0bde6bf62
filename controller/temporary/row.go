package temporary

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/store"
)

// maxRow bounds a row, in bytes.
const maxRow = 64 << 20

// rowIsOf tells whether the row of a mark is there and is the placement's: rows are named for paths, so that another placement of the path may have replaced it.
func rowIsOf(ctx context.Context, st store.Store, m Mark) (bool, error) {
	data, err := store.Files{Store: st}.ReadFile(ctx, m.Row, maxRow)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var r catalogue.Row
	if err := json.Unmarshal(data, &r); err != nil {
		return false, err
	}
	return r.Controller == m.Controller && r.Placement == uint64(m.Placement), nil
}
