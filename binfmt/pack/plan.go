package pack

import (
	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
)

// item is one sample whose bytes have been seen once.
type item struct {
	Entry
	parts [1]binfmt.Part // Off is set by the layout
}

// layout cuts the items, which are sorted by key, into bins. The rows of the bins share the memory of the items' parts.
func layout(items []item, s draft.Sizes) []*draft.Bin {
	rows := make([]binfmt.Row, len(items))
	for i := range items {
		rows[i] = binfmt.Row{Key: items[i].Key, Parts: items[i].parts[:], Scalars: items[i].Scalars}
	}
	return draft.Layout(rows, s)
}
