package loader

import (
	"context"
	"errors"
	"slices"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
)

// union is the datasets that a run draws from, in the order of its sources, as one. Numbers of samples
// and bins are those of binfmt.Union.
type union struct {
	*binfmt.Union
	members []*dataset
	hinted  []hints.Member // the members as agents are told of them
}

// openUnion opens the datasets of sources.
func openUnion(ctx context.Context, sources []Source, cacheDir string) (_ *union, err error) {
	u := &union{}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.close())
		}
	}()
	var members []binfmt.Member
	for _, s := range sources {
		d, err := openDataset(ctx, s.Store, s.Dir, cacheDir)
		if err != nil {
			return nil, err
		}
		u.members = append(u.members, d)
		u.hinted = append(u.hinted, hints.Member{Name: s.Name, DatasetURL: s.URL, Dataset: d.manifest.Identity()})
		members = append(members, binfmt.Member{Name: s.Name, Data: d.index})
	}
	u.Union = binfmt.NewUnion(members)
	return u, nil
}

// samples is how many samples a member has.
func (u *union) samples(member int) uint64 { return uint64(u.members[member].manifest.Samples()) }

// number is the union's number of the sample that an order names.
func (u *union) number(ref sampler.SampleRef) uint64 { return u.Number(int(ref.Source), ref.Sample) }

// of returns the dataset of a bin, and the bin's number in it.
func (u *union) of(bin int) (*dataset, int) {
	m, own := u.Bin(bin)
	return u.members[m], own
}

// address is what the file that a part lies in is called in messages.
func (u *union) address(p binfmt.Extent) string {
	d, own := u.of(p.Bin)
	return d.address(own, p.File)
}

// read is dataset.read.
func (u *union) read(ctx context.Context, bin int, pieces []*piece) (failures int, err error) {
	d, own := u.of(bin)
	return d.read(ctx, own, pieces)
}

// locate says where the blocks of a bin's data are.
func (u *union) locate(ctx context.Context, bin int) ([]store.Replica, error) {
	d, own := u.of(bin)
	return d.locate(ctx, own)
}

// prefetch tells the stores which bins will be read.
func (u *union) prefetch(ctx context.Context, bins []int) {
	byMember := make(map[*dataset][]int, 1)
	for _, bin := range bins {
		d, own := u.of(bin)
		byMember[d] = append(byMember[d], own)
	}
	for d, own := range byMember {
		d.prefetch(ctx, own)
	}
}

func (u *union) close() error {
	var errs []error
	for _, d := range u.members {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}

// reads is what reading cost, over all stores that count it; nil if none does.
func (u *union) reads() *store.ReadStats {
	var sum *store.ReadStats
	var seen []store.Store
	for _, d := range u.members {
		c, ok := d.store.(store.ReadCounter)
		if !ok || slices.Contains(seen, d.store) {
			continue
		}
		seen = append(seen, d.store)
		reads := c.ReadStats()
		if sum != nil {
			reads = sum.Plus(reads)
		}
		sum = &reads
	}
	return sum
}
