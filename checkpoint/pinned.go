package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/stepahead-io/stepahead/store"
)

const (
	// mostOpen files are open at once.
	mostOpen = 256
	// maxMetadata bounds files that are read whole.
	maxMetadata = 1 << 30
)

// OpenFile opens file i. Its content is that of the moment when the checkpoint was opened, else the error matches store.ErrIdentity.
func (c *Checkpoint) OpenFile(ctx context.Context, i int) (store.File, error) {
	pinned := c.Files[i]
	f, err := c.st.Open(ctx, c.full(pinned))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &store.IdentityError{Name: c.at(pinned), Pinned: pinned.Identity}
	}
	if err != nil {
		return nil, err
	}
	if f.Identity() != pinned.Identity {
		err := &store.IdentityError{Name: c.at(pinned), Pinned: pinned.Identity, Now: f.Identity()}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// withFiles opens files and calls use with them, a bounded number at a time; first is the place of the first of them in numbers.
func (c *Checkpoint) withFiles(ctx context.Context, numbers []int, use func(first int, files []store.File) error) error {
	for first := 0; first < len(numbers); first += mostOpen {
		some := numbers[first:min(first+mostOpen, len(numbers))]
		c.expect(ctx, some)
		files := make([]store.File, 0, len(some))
		err := func() error {
			for _, i := range some {
				f, err := c.OpenFile(ctx, i)
				if err != nil {
					return err
				}
				files = append(files, f)
			}
			return use(first, files)
		}()
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// expect has the store learn in few calls where files lie. What it remembers from before is dropped: others may have written since.
func (c *Checkpoint) expect(ctx context.Context, numbers []int) {
	p, ok := c.st.(store.Prefetcher)
	if !ok || len(numbers) < 2 {
		return
	}
	names := make([]string, len(numbers))
	for k, i := range numbers {
		names[k] = c.full(c.Files[i])
	}
	p.Forget(names)
	_ = p.Prefetch(ctx, names) // opening says what is wrong
}

// readFile returns the content of a file.
func (c *Checkpoint) readFile(ctx context.Context, i int) ([]byte, error) {
	var data []byte
	err := c.withFiles(ctx, []int{i}, func(_ int, files []store.File) error {
		if files[0].Size() > maxMetadata {
			return fmt.Errorf("checkpoint: %s has %d bytes, metadata of at most %d is read: %w", c.at(c.Files[i]), files[0].Size(), maxMetadata, ErrFormat)
		}
		data = make([]byte, files[0].Size())
		return files[0].ReadRanges(ctx, []store.Range{{Buf: data}})
	})
	return data, err
}
