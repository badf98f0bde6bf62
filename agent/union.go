package agent

import (
	"context"
	"errors"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// union is the datasets of a schedule as one. Numbers of samples and bins are those of binfmt.Union. It is
// safe for concurrent use.
type union struct {
	*binfmt.Union
	members []*dataset
}

// newUnion joins open datasets, named as in the schedule.
func newUnion(names []string, datasets []*dataset) *union {
	members := make([]binfmt.Member, len(names))
	for i, d := range datasets {
		members[i] = binfmt.Member{Name: names[i], Data: d.Dataset}
	}
	return &union{Union: binfmt.NewUnion(members), members: datasets}
}

// String names the datasets by their folders.
func (u *union) String() string {
	dirs := make([]string, len(u.members))
	for i, d := range u.members {
		dirs[i] = d.dir
	}
	return strings.Join(dirs, " ")
}

// of returns the dataset of a bin, and the bin's number in it.
func (u *union) of(bin int) (*dataset, int) {
	m, own := u.Bin(bin)
	return u.members[m], own
}

// bin is dataset.bin.
func (u *union) bin(n int) (binfmt.Bin, string) {
	d, own := u.of(n)
	return d.bin(own)
}

// blocks says where the blocks of a bin are.
func (u *union) blocks(ctx context.Context, bin int) (store.Blocks, error) {
	d, own := u.of(bin)
	return d.places.Of(ctx, own)
}

// read is dataset.read.
func (u *union) read(ctx context.Context, p binfmt.Extent, buf []byte) error {
	d, own := u.of(p.Bin)
	p.Bin = own
	return d.read(ctx, p, buf)
}

// openAll returns the datasets with these keys, each opened once for all its users. The caller releases them.
func (s *tasks) openAll(ctx context.Context, l lake, keys []datasetKey) (open []*dataset, err error) {
	for _, k := range keys {
		d, err := s.open(ctx, l, k)
		if err != nil {
			return nil, errors.Join(err, s.releaseAll(open))
		}
		open = append(open, d)
	}
	return open, nil
}

// holdAll counts one more user of all datasets of a union that was open; false if one was closed since.
func (s *tasks) holdAll(u *union) bool {
	for i, d := range u.members {
		if !s.hold(d) {
			_ = s.releaseAll(u.members[:i]) // others use them still, or they were closed by us just now
			return false
		}
	}
	return true
}

// releaseAll counts one user less of each.
func (s *tasks) releaseAll(datasets []*dataset) error {
	var errs []error
	for _, d := range datasets {
		errs = append(errs, s.release(d))
	}
	return errors.Join(errs...)
}
