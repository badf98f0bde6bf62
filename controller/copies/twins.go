package copies

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// lookFor bounds the search for what lies at the site already. What is not found by then is sent.
const lookFor = 30 * time.Second

// reuse copies, within the site, the files that other copies there have already. Nothing of them passes the link, nor its gate. What goes wrong with one has it sent.
func (m *making) reuse(ctx context.Context) error {
	twins := m.twins(ctx, missing(m.have))
	if len(twins) == 0 {
		return ctx.Err()
	}
	_, err := m.round(ctx, slices.Sorted(maps.Keys(twins)), twins)
	return err
}

// twins finds the files that other copies at the site have: of the same name, length and sum, where the original's store makes one without sending the bytes. It is asked for those files only
// of which there may be one. Whatever fails finds less.
func (m *making) twins(ctx context.Context, missing []int) map[int]twin {
	missing = slices.DeleteFunc(missing, func(i int) bool { return m.src.Files[i].Size < m.mk.sizes.asked })
	if m.readers == nil || m.readers.Owner == "" || len(missing) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	infos, err := m.site.List(ctx, temporary.DataFolder)
	if err != nil {
		return nil
	}
	var mu sync.Mutex
	alike := map[int][]twin{}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, info := range infos {
		of, ok := temporary.Orphan(info.Name)
		if !ok || of.Controller != m.mk.o.Controller || of.Placement == m.p.Make.ID {
			continue
		}
		g.Go(func() error {
			folder := path.Join(info.Name, whole)
			r, err := readRecord(ctx, m.site, folder)
			if err != nil || r.Digest == "" || !m.forTheSame(r) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			for i, t := range twinsIn(r, folder, m.src.Files, missing) {
				alike[i] = append(alike[i], t)
			}
			return nil
		})
	}
	_ = g.Wait() // none fails
	return m.compareSums(ctx, alike)
}

// forTheSame tells whether another copy's original has the same owner and readers. Nothing else is taken: a file can be made that has the sum of another one, and rows of the catalogue tell
// sums to many.
func (m *making) forTheSame(r record) bool {
	return r.Readers != nil && sameAccess(*r.Readers, *m.readers)
}

// compareSums asks the original's store for the sums of files, and keeps the twins that have them.
func (m *making) compareSums(ctx context.Context, alike map[int][]twin) map[int]twin {
	var mu sync.Mutex
	same := map[int]twin{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(asksAtOnce)
	numbers := slices.Sorted(maps.Keys(alike))
	for k, i := range numbers {
		if k%window == 0 {
			m.expect(ctx, numbers[k:min(k+window, len(numbers))])
		}
		g.Go(func() error {
			sum, err := m.sumOf(ctx, i)
			if errors.Is(err, errors.ErrUnsupported) {
				return err // it is in vain to ask for the others
			}
			at := slices.IndexFunc(alike[i], func(t twin) bool { return t.crc == sum })
			if err != nil || at < 0 {
				return nil // it is sent
			}
			mu.Lock()
			defer mu.Unlock()
			same[i] = alike[i][at]
			return nil
		})
	}
	_ = g.Wait()
	return same
}

// sumOf asks the original's store for the sum of a file, of the version that is copied.
func (m *making) sumOf(ctx context.Context, i int) (sum uint32, err error) {
	f, err := m.src.OpenFile(ctx, i)
	if err != nil {
		return 0, err
	}
	defer f.Close() // nothing was written
	c, ok := f.(store.Checksummer)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return c.CRC32C(ctx)
}

// open opens the twin, if it still is the version that the row names.
func (t twin) open(ctx context.Context, st store.Store) (store.File, error) {
	f, err := st.Open(ctx, t.name)
	if err != nil {
		return nil, err
	}
	if f.Identity() != t.here {
		return nil, errors.Join(&store.IdentityError{Name: st.Address(t.name), Pinned: t.here, Now: f.Identity()}, f.Close())
	}
	return f, nil
}

// readersOfCopy is who is to read a copy: whom Fact said that the original lets in, or its owner alone; nil where its store cannot tell.
func readersOfCopy(p controller.Placement) *store.Access {
	var f Fact
	if json.Unmarshal(p.Fact, &f) != nil || f.Readers == nil { // none: it was not asked
		return nil
	}
	if p.Make.Access != plan.AsOriginal {
		f.Readers.Mode, f.Readers.ACL = private, nil
	}
	return f.Readers
}
