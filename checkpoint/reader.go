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

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/store"
)

// reader finds out what a listed checkpoint holds and what is wrong with it.
type reader struct {
	c *Checkpoint
	o Options
	// guess is why the number of files is not known: "" if it is.
	guess string
	// marked: the writer's marker of an unfinished save lies beside it.
	marked bool
}

func (r *reader) read(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return r.lookForMarker(ctx) }) // meanwhile: stores may be far away
	err := r.readLayout(ctx)
	if looked := group.Wait(); err == nil {
		err = looked
	}
	if err != nil {
		return err
	}
	r.unfinished()
	if err := r.settle(ctx); err != nil {
		return err
	}
	slices.SortFunc(r.c.Tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.c.Blobs, func(a, b Blob) int { return strings.Compare(a.Name, b.Name) })
	order := func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.File, b.File), strings.Compare(a.Tensor, b.Tensor))
	}
	slices.SortStableFunc(r.c.Problems, order)
	slices.SortStableFunc(r.c.Doubts, order)
	return nil
}

// readLayout reads what the layout's metadata says.
func (r *reader) readLayout(ctx context.Context) (err error) {
	switch r.c.Layout {
	case DCP:
		err = r.readDCP(ctx)
	case TorchDist:
		err = r.readTorchDist(ctx)
	case Safetensors:
		err = r.readSafetensors(ctx)
	case HuggingFace:
		err = r.readTrainer(ctx)
	case DeepSpeed:
		r.readDeepSpeed()
	case DeepSpeedUniversal:
		err = r.readUniversal(ctx)
	case TorchCheckpointing:
		err = r.readTorchCheckpointing(ctx)
	case Torch:
		err = r.readTorch(ctx)
	}
	return err
}

func (r *reader) problem(kind, file, format string, args ...any) {
	r.c.Problems = append(r.c.Problems, Problem{Kind: kind, File: file, Detail: fmt.Sprintf(format, args...)})
}

func (r *reader) doubt(kind, file, format string, args ...any) {
	r.c.Doubts = append(r.c.Doubts, Problem{Kind: kind, File: file, Detail: fmt.Sprintf(format, args...)})
}

// lookForMarker looks for the file by which writers mark what they have not finished, after the checkpoint was listed.
func (r *reader) lookForMarker(ctx context.Context) error {
	_, err := r.c.st.Stat(ctx, r.c.Path+"-unfinished")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r.marked = err == nil
	return err
}

// unfinished says in which ways writers have marked what they have not finished.
func (r *reader) unfinished() {
	base := path.Base(r.c.Path)
	if strings.HasPrefix(base, "tmp_") || strings.HasSuffix(base, ".tmp") {
		r.problem("unfinished-name", "", "the name %q is that of a save that has not been renamed to its own", base)
	}
	if r.marked {
		r.problem("unfinished-marker", "", "beside it is %s-unfinished: the save is under way, or was killed and left its marker", base)
	}
}

// settle decides about a checkpoint of which nothing says how many files it has: it looks again after a while, and what has not
// changed by then is taken for whole.
func (r *reader) settle(ctx context.Context) error {
	if r.guess == "" {
		return nil
	}
	if r.o.Settle <= 0 {
		r.problem("ranks-unknown", "", "%s: give the number of ranks, or a time in which files must not change", r.guess)
		return nil
	}
	if err := store.Sleep(ctx, r.o.Settle); err != nil {
		return err
	}
	changed, err := r.c.Changed(ctx)
	if err != nil {
		return err
	}
	if changed != "" {
		r.problem("still-changing", changed, "it changed within %v: the save is under way", r.o.Settle)
		return nil
	}
	r.doubt("ranks-unknown", "", "%s: taken for whole because no file changed within %v", r.guess, r.o.Settle)
	return nil
}

// Changed lists the checkpoint again and names a file that is not as it was when the checkpoint was opened, or that is new or gone;
// "" if there is none.
func (c *Checkpoint) Changed(ctx context.Context) (string, error) {
	now, err := look(ctx, c.st, c.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNone) {
		return path.Base(c.Path), nil
	}
	if err != nil {
		return "", err
	}
	for i := range max(len(c.Files), len(now.Files)) {
		switch {
		case i >= len(c.Files):
			return now.Files[i].Name, nil
		case i >= len(now.Files):
			return c.Files[i].Name, nil
		}
		before, after := c.Files[i], now.Files[i]
		if before.Name != after.Name {
			return min(before.Name, after.Name), nil
		}
		if before.Identity != after.Identity || before.Size != after.Size {
			return before.Name, nil
		}
	}
	return "", nil
}
