package main

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/address"
)

// stepOrder gives the samples of steps: a *sampler.Sampler, or a *sampler.Grouped those of its window.
type stepOrder interface {
	Step(step int64, dst []sampler.SampleRef) []sampler.SampleRef
	Rank(step int64, rank, world int, dst []sampler.SampleRef) []sampler.SampleRef
}

// lengths are the datasets of an order that groups samples by length.
type lengths struct {
	s       *sampler.Sampler
	sources []lengthSource
	window  *sampler.Grouped // that of the last step that was asked for
	end     int64            // the step after it
}

// lengthSource is one of them.
type lengthSource struct {
	place  *address.Place
	data   *binfmt.Dataset
	length binfmt.Length
}

// openLengths opens the datasets of the sources of s, in their order; nil where s does not group samples.
func openLengths(ctx context.Context, s *sampler.Sampler, urls []string) (_ *lengths, err error) {
	spec := s.Spec()
	switch by := spec.GroupByLength; {
	case by == nil && len(urls) > 0:
		return nil, exit.Usage(errors.New("--spec says all of the order: give no DATASET with it"))
	case by == nil:
		return nil, nil
	case len(urls) != len(spec.Sources):
		return nil, exit.Usage(fmt.Errorf("the spec groups samples by the column %q: give the dataset of each source, in their order, %d in all: stepahead order --spec FILE DATASET", by.Column, len(spec.Sources)))
	}
	l := &lengths{s: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	for i, url := range urls {
		src, err := openLengthSource(ctx, url, spec.GroupByLength.Column)
		if err != nil {
			return nil, err
		}
		l.sources = append(l.sources, src)
		if has, want := uint64(src.data.Manifest().Samples()), spec.Sources[i].Samples; has != want {
			return nil, exit.Usage(fmt.Errorf("sources[%d] of the spec has %s, %s %d: give the datasets in the order of the sources", i, counted(want, "sample"), url, has))
		}
	}
	return l, nil
}

func openLengthSource(ctx context.Context, url, column string) (src lengthSource, err error) {
	m, place, err := readManifest(ctx, url)
	if err != nil {
		return src, err
	}
	cache, err := indexCache("")
	if err == nil {
		src.length, err = m.Length(column)
	}
	if err != nil {
		return src, errors.Join(fmt.Errorf("%s: %w", url, err), place.Close())
	}
	src.place = place
	src.data = binfmt.NewDataset(m, func(ctx context.Context, bin int) (binfmt.LocalIndex, error) {
		digest, err := m.Bins[bin].IndexDigest()
		if err != nil {
			return binfmt.LocalIndex{}, err
		}
		local, err := store.CacheLocal(ctx, place.Store, path.Join(place.Name, m.Bins[bin].IndexName()), digest, cache)
		return binfmt.LocalIndex(local), err
	})
	return src, nil
}

// readManifest opens the store of a dataset and reads its manifest.
func readManifest(ctx context.Context, url string) (*binfmt.Manifest, *address.Place, error) {
	p, err := openPlace(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	m, err := pack.ReadManifest(ctx, p.Store, p.Name)
	switch {
	case errors.Is(err, binfmt.ErrManifest):
		err = exit.Finding(err)
	case err != nil:
		err = fmt.Errorf("%s: no packed dataset there: %w", url, err)
	}
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	return m, p, nil
}

// at returns the order at a step.
func (l *lengths) at(ctx context.Context, step int64) (stepOrder, error) {
	first, steps := l.s.Window(step)
	if l.window != nil && first+steps == l.end {
		return l.window, nil
	}
	window, err := l.s.Group(step, func(ref sampler.SampleRef) (uint64, error) {
		src := &l.sources[ref.Source]
		return src.length.Of(ctx, src.data, ref.Sample)
	})
	if err != nil {
		return nil, codeOfDataset(err)
	}
	l.window, l.end = window, first+steps
	return window, nil
}

func (l *lengths) close() error {
	var errs []error
	for _, src := range l.sources {
		errs = append(errs, src.data.Close(), src.place.Close())
	}
	return errors.Join(errs...)
}
