package copies

import (
	"context"
	"fmt"
	"path"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// share makes a name for the data of another placement, which is of the same version under another name: nothing is sent.
func (mk *Maker) share(ctx context.Context, p controller.Placement, t controller.Tools) (controller.Made, error) {
	site, err := mk.site(ctx, p.Make.Site)
	if err != nil {
		return controller.Made{}, err
	}
	src, err := mk.source(ctx, p.Make)
	if err != nil {
		return controller.Made{}, err
	}
	if err := mk.writeMark(ctx, site, p, t); err != nil {
		return controller.Made{}, err
	}
	row, err := mk.rowOf(ctx, site, src, p)
	if err != nil {
		return controller.Made{}, err
	}
	if t.Progress != nil {
		t.Progress(src.Bytes())
	}
	return controller.Made{Digest: row.Copy.Digest, Reused: src.Bytes()}, nil
}

// Publish implements controller.Maker. It finds out that original and copy are what they were.
func (mk *Maker) Publish(ctx context.Context, p controller.Placement, t controller.Tools) error {
	site, err := mk.site(ctx, p.Make.Site)
	if err != nil {
		return err
	}
	src, err := mk.source(ctx, p.Make)
	if err != nil {
		return err
	}
	row, err := mk.rowOf(ctx, site, src, p)
	if err != nil {
		return err
	}
	if p.Make.Of == 0 { // who may read the original may be others by now
		if err := mk.admit(ctx, site, src, p.Make, t); err != nil {
			return err
		}
	}
	if err := mk.writeMark(ctx, site, p, t); err != nil { // before the row, which must not outlast it
		return err
	}
	return mk.writeRow(ctx, site, row, t)
}

func (mk *Maker) writeRow(ctx context.Context, site store.Store, row catalogue.Row, t controller.Tools) error {
	return atSite(ctx, temporary.Change(ctx, t.Fence, func(ctx context.Context) error { return catalogue.Write(ctx, site, mk.o.Key, row) }))
}

// Extend implements controller.Maker. Of an original that is another one by now, or gone, the row runs out.
func (mk *Maker) Extend(ctx context.Context, p controller.Placement, t controller.Tools) error {
	site, err := mk.site(ctx, p.Make.Site)
	if err != nil {
		return err
	}
	if err := mk.writeMark(ctx, site, p, t); err != nil || p.Publish == nil {
		return err
	}
	src, err := mk.source(ctx, p.Make)
	if err != nil {
		return err
	}
	row, err := mk.rowOf(ctx, site, src, p)
	if err != nil {
		return err
	}
	return mk.writeRow(ctx, site, row, t)
}

// Withdraw implements controller.Maker.
func (mk *Maker) Withdraw(ctx context.Context, p controller.Placement, t controller.Tools) error {
	site, err := mk.site(ctx, p.Make.Site)
	if err != nil {
		return err
	}
	base := catalogue.NameOf(mk.o.Stores.Home().Address(p.Make.Path))
	return atSite(ctx, temporary.Change(ctx, t.Fence, func(ctx context.Context) error {
		return catalogue.Withdraw(ctx, site, base, mk.o.Controller, uint64(p.Make.ID))
	}))
}

// rowOf is the row of a copy that is whole: of what the record says, and as its files are now.
func (mk *Maker) rowOf(ctx context.Context, site store.Store, src *checkpoint.Checkpoint, p controller.Placement) (catalogue.Row, error) {
	owner := p.Make.ID
	if p.Make.Of != 0 {
		owner = p.Make.Of
	}
	folder := path.Join(temporary.PlaceOf(mk.o.Controller, owner), whole)
	r, err := readRecord(ctx, site, folder)
	if err != nil {
		return catalogue.Row{}, atSite(ctx, err)
	}
	not := func(format string, args ...any) (catalogue.Row, error) {
		return catalogue.Row{}, &controller.Error{Reason: plan.ReasonFailed, Err: fmt.Errorf("placement %d has no copy of %s in %s: %s", owner, src.URL(), site.Address(folder), fmt.Sprintf(format, args...))}
	}
	switch {
	case r.Digest == "":
		return not("no record says that it is whole")
	case r.Identity != p.Make.Identity: // also of what shares it: what is signed below says that both have the same bytes
		return not("the record is of version %s", r.Identity)
	case r.Layout != string(src.Layout) || r.SaveID != src.SaveID || len(r.Files) != len(src.Files):
		return not("it is a save %s %q of %d files", r.Layout, r.SaveID, len(r.Files))
	}
	place := path.Join(folder, r.Data)
	there := map[string]store.Info{}
	if err := list(ctx, site, place, there); err != nil {
		return catalogue.Row{}, atSite(ctx, err)
	}
	row := catalogue.Row{
		Version: catalogue.Version, Placement: uint64(p.Make.ID), Controller: mk.o.Controller, Path: src.URL(), Identity: p.Make.Identity, TTL: p.Lease,
		Copy: &catalogue.Copy{Place: place, Digest: r.Digest},
	}
	for i, f := range src.Files {
		s := r.Files[i]
		if f.Name != s.Name || f.Size != s.Size {
			return not("it has %s of %d bytes, the original %s of %d", s.Name, s.Size, f.Name, f.Size)
		}
		if now := there[s.Name]; now.Identity != s.Here || now.Size != s.Size {
			return not("%s is version %q, not %s", s.Name, now.Identity, s.Here)
		}
		row.Copy.Files = append(row.Copy.Files, catalogue.CopyFile{Name: s.Name, Size: s.Size, Original: f.Identity, Here: s.Here, CRC32C: s.CRC32C})
	}
	if mk.o.Labels != nil {
		if row.Copy.Labels, err = mk.o.Labels(ctx, p.Make.Path); err != nil {
			return catalogue.Row{}, atSource(ctx, err)
		}
	}
	return row, nil
}
