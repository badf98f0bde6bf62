package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// Candidate is a folder below a root that may be a checkpoint.
type Candidate struct {
	Path string
	Step int64 // -1 if the name says none
	// Changed is when something in the folder itself was made, renamed or removed last, by the store's clock.
	Changed time.Time
}

// Candidates lists what may be checkpoints below a root, the newest first by the number at the end of names, those without a number
// last. Files that name the latest one (latest, latest_checkpointed_iteration.txt) are not asked: they are written before or long after
// the checkpoint is whole, or never.
func Candidates(ctx context.Context, st store.Store, root string) ([]Candidate, error) {
	infos, err := st.List(ctx, root)
	if err != nil {
		return nil, err
	}
	return candidates(infos), nil
}

// candidates are those of a folder's list.
func candidates(infos []store.Info) []Candidate {
	var found []Candidate
	for _, i := range infos {
		if i.Dir && !strings.HasPrefix(path.Base(i.Name), ".") {
			found = append(found, Candidate{Path: i.Name, Step: stepOf(i.Name), Changed: i.ModTime})
		}
	}
	slices.SortStableFunc(found, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Step, a.Step), strings.Compare(b.Path, a.Path))
	})
	return found
}

// Latest opens the newest complete checkpoint below a root, by the number at the end of names. Newer ones that are not complete, or
// cannot be read, are passed over; skipped says why. None is ErrNone, with the first reasons.
func Latest(ctx context.Context, st store.Store, root string, o Options) (c *Checkpoint, skipped []error, err error) {
	candidates, err := Candidates(ctx, st, root)
	if err != nil {
		return nil, nil, err
	}
	for _, candidate := range candidates {
		c, err := Open(ctx, st, candidate.Path, o)
		if err == nil {
			err = c.Complete()
		}
		switch {
		case err == nil:
			return c, skipped, nil
		case ctx.Err() != nil:
			return nil, skipped, ctx.Err()
		case passable(err):
			skipped = append(skipped, err)
		default:
			return nil, skipped, err
		}
	}
	reasons := fmt.Sprintf("none of %d folders is one", len(candidates))
	for _, s := range skipped[:min(len(skipped), 3)] {
		reasons += "; " + s.Error()
	}
	if _, err := look(ctx, st, root); err == nil {
		reasons = "it is a checkpoint itself: give the folder above it"
	}
	return nil, skipped, fmt.Errorf("checkpoint.Latest %s: %w: %s", st.Address(root), ErrNone, reasons)
}

// passable tells a checkpoint that is not whole, changes or is none from a store that does not answer, for which an older checkpoint
// would be the wrong one.
func passable(err error) bool {
	for _, target := range []error{ErrNone, ErrIncomplete, ErrFormat, ErrUnsupported, store.ErrIdentity, fs.ErrNotExist} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
