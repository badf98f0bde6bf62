package sources

import (
	"context"
	"errors"
	"io/fs"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// Ready says how many nodes serve some of a hot file now, by rack: those of the original, and those of what a placement of a controller has made beside it.
func Ready(ctx context.Context, st store.Store, name, controller string, id plan.ID) (map[string]int, error) {
	info, err := st.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	names := []string{name}
	switch found, size, err := find(ctx, st, temporary.PlaceOf(controller, id)); {
	case err == nil && size == info.Size:
		names = append(names, found.Name)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	racks := make(map[string]int)
	seen := make(map[string]bool)
	for _, name := range names {
		rows, err := st.Locate(ctx, name, 0, info.Size)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if !seen[r.Node] {
				seen[r.Node] = true
				racks[r.Rack]++
			}
		}
	}
	return racks, nil
}
