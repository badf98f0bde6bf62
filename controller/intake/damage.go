package intake

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// checkBuffer is how much is read at a time of what may be damaged.
const checkBuffer = 8 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// heed looks again and again at what readers have left word of at a site, "" for home. It does so beside all else: what is named is read whole, over a link that may be
// slow, and a store may hang.
func (f *Facts) heed(ctx context.Context, site string) error {
	for {
		st := f.o.Stores.Home()
		var err error
		if site != "" {
			st, err = f.o.Stores.Site(ctx, site)
		}
		if err == nil { // that a site does not answer is said by who looks at it
			if err := f.damages(ctx, st); err != nil {
				return err
			}
		}
		select {
		case <-f.o.Clock.After(lookEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// damages looks at what readers have left word of in a store: anybody may have, so it is looked at again. What is damaged is told, and the word removed, as
// is word of what no reader finds any more, and what is no such word: nobody can have it that no other is looked at.
func (f *Facts) damages(ctx context.Context, st store.Store) error {
	found, err := catalogue.ReadDamages(ctx, st)
	if err == nil && !f.o.ReadOnly {
		err = catalogue.ClearJunk(ctx, st)
	}
	if err := f.unless(ctx, err); err != nil || len(found) == 0 {
		return err
	}
	rows, unread, err := f.rows(ctx, st)
	if err != nil {
		return f.unless(ctx, err)
	}
	if err := f.unless(ctx, unread); err != nil {
		return err
	}
	for _, d := range found {
		if listed := hasRow(rows, d); listed && d.Controller != f.o.Controller || !listed && unread != nil {
			continue // that controller looks; or its row may be one that cannot be read now
		}
		detail, err := f.check(ctx, st, d, rows)
		if err != nil { // cannot be known now
			if err := f.unless(ctx, err); err != nil {
				return err
			}
			continue
		}
		if detail != "" {
			if err := tell(ctx, f.o.Engine, plan.Damaged{ID: plan.ID(d.Placement), Detail: detail}); err != nil {
				return err
			}
		}
		if f.o.ReadOnly {
			continue
		}
		if err := f.unless(ctx, catalogue.ClearDamage(ctx, st, d)); err != nil {
			return err
		}
	}
	return nil
}

// rows returns the rows of a store that somebody has signed who is trusted: what another wrote says nothing of what was made. unread is why there may be more.
func (f *Facts) rows(ctx context.Context, st store.Store) (rows []catalogue.Entry, unread, err error) {
	keys, _, err := catalogue.TrustedKeys(ctx, st)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(keys, f.o.Keys)
	all, err := catalogue.List(ctx, st, keys)
	for _, e := range all {
		switch {
		case e.Err == nil, errors.Is(e.Err, catalogue.ErrExpired):
			rows = append(rows, e)
		case !errors.Is(e.Err, catalogue.ErrRow) && !errors.Is(e.Err, catalogue.ErrSignature):
			unread = e.Err
		}
	}
	return rows, unread, err
}

// hasRow tells whether readers may still find what a report is of.
func hasRow(rows []catalogue.Entry, d catalogue.Damage) bool {
	return slices.ContainsFunc(rows, func(e catalogue.Entry) bool {
		return e.Row.Controller == d.Controller && e.Row.Placement == d.Placement
	})
}

// unless reports an error, unless ctx has ended, which is the error then.
func (f *Facts) unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		f.o.Report(fmt.Errorf("damage: %w", err))
	}
	return nil
}

// promised is a file that a row promises.
type promised struct {
	name     string
	size     int64
	identity store.Identity
	crc      uint32
}

// check looks for what a report says. It returns what is wrong; "" if nothing is, or if the placement has no row any more.
func (f *Facts) check(ctx context.Context, st store.Store, d catalogue.Damage, rows []catalogue.Entry) (string, error) {
	for _, e := range rows {
		if e.Row.Controller != d.Controller || e.Row.Placement != d.Placement {
			continue
		}
		for _, p := range promisedBy(e.Row) { // of a file that is named the content too, of the others whether they are there
			if wrong, err := p.wrong(ctx, st, st.Address(p.name) == d.File); wrong != "" || err != nil {
				return wrong, err
			}
		}
	}
	return "", nil
}

func promisedBy(r catalogue.Row) (files []promised) {
	if r.Copy != nil {
		for _, c := range r.Copy.Files {
			files = append(files, promised{path.Join(r.Copy.Place, c.Name), c.Size, c.Here, c.CRC32C})
		}
	}
	if r.Sources != nil {
		for _, s := range r.Sources.Siblings {
			files = append(files, promised{s.Name, r.Sources.Size, s.Identity, s.CRC32C})
		}
	}
	return files
}

// wrong says what is wrong with a file; an error, if that cannot be known now.
func (p promised) wrong(ctx context.Context, st store.Store, content bool) (string, error) {
	at := st.Address(p.name)
	f, err := st.Open(ctx, p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return at + " is gone", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if f.Size() != p.size || f.Identity() != p.identity {
		return at + " is another version", nil
	}
	if !content {
		return "", nil
	}
	buf := make([]byte, min(p.size, checkBuffer))
	sum := uint32(0)
	for off := int64(0); off < p.size; off += int64(len(buf)) {
		piece := buf[:min(p.size-off, int64(len(buf)))]
		err := f.ReadRanges(ctx, []store.Range{{Off: off, Buf: piece}})
		switch store.ClassOf(err) {
		case store.Corrupt:
			return at + " has damaged bytes", nil
		case store.IdentityChanged, store.NotFound:
			return at + " is another version", nil
		}
		if err != nil {
			return "", err
		}
		sum = crc32.Update(sum, castagnoli, piece)
	}
	if sum != p.crc {
		return at + " has other bytes than were copied", nil
	}
	return "", nil
}
