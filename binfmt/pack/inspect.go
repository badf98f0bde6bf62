package pack

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// Summary says what a dataset holds.
type Summary struct {
	Identity string                  `json:"identity"`
	Format   int                     `json:"format"`
	Samples  int64                   `json:"samples"`
	Bytes    int64                   `json:"bytes"` // of the data files
	Fields   []binfmt.Field          `json:"fields"`
	Classes  []ClassCount            `json:"classes"`
	Media    map[string]MediaSummary `json:"media"` // by field
	Sums     SumsSummary             `json:"sums"`
	Bins     []binfmt.Bin            `json:"bins"`
}

// SumsSummary says how many parts have a checksum, and where.
type SumsSummary struct {
	Index  int64 `json:"index"`  // in the index
	Beside int64 `json:"beside"` // added later, in dataset.sums
	None   int64 `json:"none"`
}

// ClassCount says how many samples have a label.
type ClassCount struct {
	Name    string `json:"name"`
	Samples int64  `json:"samples"`
}

// MediaSummary says what the parts of a media field are like. Distributions leave out what is not
// known.
type MediaSummary struct {
	Types  map[string]int64 `json:"types"`
	Bytes  Distribution     `json:"bytes"`
	Width  Distribution     `json:"width"`
	Height Distribution     `json:"height"`
}

// ReadManifest reads the manifest of the dataset in the folder dir.
func ReadManifest(ctx context.Context, st store.Store, dir string) (*binfmt.Manifest, error) {
	name := path.Join(dir, binfmt.ManifestName)
	data, err := manifestBytes(ctx, st, name)
	if err != nil {
		return nil, fmt.Errorf("pack.ReadManifest: %w", err)
	}
	return binfmt.ParseManifest(st.Address(name), data)
}

func manifestBytes(ctx context.Context, st store.Store, name string) ([]byte, error) {
	data, err := store.ReadFile(ctx, st, name, binfmt.MaxManifest)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%w: give the folder that `stepahead pack` or `stepahead index` wrote", err)
	}
	return data, err
}

// Inspect reads manifest and indexes. Indexes of stores that are not local are kept in cacheDir.
func Inspect(ctx context.Context, st store.Store, dir, cacheDir string) (*Summary, error) {
	m, err := ReadManifest(ctx, st, dir)
	if err != nil {
		return nil, err
	}
	id := m.Identity()
	beside, err := hasSums(ctx, st, dir, m)
	if err != nil {
		return nil, fmt.Errorf("pack.Inspect: %w", err)
	}
	s := &tally{m: m, beside: beside, media: make(map[string]*mediaCount), classes: make([]int64, len(m.Classes))}
	for i, b := range m.Bins {
		digest, err := b.IndexDigest()
		if err != nil {
			return nil, fmt.Errorf("pack.Inspect: %w", err)
		}
		local, err := store.CacheLocal(ctx, st, path.Join(dir, b.IndexName()), digest, cacheDir)
		if err != nil {
			return nil, fmt.Errorf("pack.Inspect: %w", err)
		}
		if err := s.bin(ctx, binfmt.LocalIndex(local), i); err != nil {
			return nil, fmt.Errorf("pack.Inspect: %w", err)
		}
	}
	out := s.summary()
	out.Identity = hex.EncodeToString(id[:])
	return out, nil
}

// hasSums says whether sums were added to a dataset. Those of another version of it do not count.
func hasSums(ctx context.Context, st store.Store, dir string, m *binfmt.Manifest) (bool, error) {
	name := path.Join(dir, binfmt.SumsName)
	f, err := store.OpenPieces(ctx, st, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = binfmt.OpenSums(ctx, m, st.Address(name), f)
	if errors.Is(err, binfmt.ErrMismatch) {
		return false, f.Close()
	}
	return err == nil, errors.Join(err, f.Close())
}

type mediaCount struct {
	types                map[string]int64
	bytes, width, height histogram
}

// tally counts.
type tally struct {
	m       *binfmt.Manifest
	beside  bool // sums were added
	sums    SumsSummary
	media   map[string]*mediaCount
	classes []int64
}

func (s *tally) bin(ctx context.Context, local binfmt.LocalIndex, place int) error {
	x, err := binfmt.OpenBin(local, s.m, place)
	if err != nil {
		return err
	}
	defer x.Close()
	for row := range x.Rows() {
		for _, f := range s.m.Fields {
			if err := s.value(x, row, f); err != nil {
				return err
			}
		}
		if row%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (s *tally) value(x binfmt.BinIndex, row int64, f binfmt.Field) error {
	switch {
	case f.Kind.InBin():
		p, err := x.Part(row, f.Name)
		if err != nil {
			return err
		}
		s.part(f.Name, p)
	case f.Name == binfmt.LabelField && len(s.classes) > 0:
		v, err := x.Scalar(row, f.Name)
		if err != nil {
			return err
		}
		if v.Int >= 0 && v.Int < int64(len(s.classes)) {
			s.classes[v.Int]++
		}
	}
	return nil
}

func (s *tally) part(field string, p binfmt.Part) {
	c := s.media[field]
	if c == nil {
		c = &mediaCount{types: make(map[string]int64)}
		s.media[field] = c
	}
	switch {
	case p.HasCRC:
		s.sums.Index++
	case s.beside && s.m.Bins[p.Bin].Foreign != nil:
		s.sums.Beside++
	default:
		s.sums.None++
	}
	c.types[p.Type]++
	c.bytes.add(uint64(p.Len))
	if p.Width > 0 && p.Height > 0 {
		c.width.add(uint64(p.Width))
		c.height.add(uint64(p.Height))
	}
}

func (s *tally) summary() *Summary {
	out := &Summary{Format: s.m.Format, Samples: s.m.Samples(), Fields: s.m.Fields, Sums: s.sums, Bins: s.m.Bins,
		Classes: []ClassCount{}, Media: make(map[string]MediaSummary)}
	for _, b := range s.m.Bins {
		out.Bytes += b.Bytes
	}
	for i, n := range s.classes {
		out.Classes = append(out.Classes, ClassCount{s.m.Classes[i], n})
	}
	for name, c := range s.media {
		out.Media[name] = MediaSummary{c.types, c.bytes.distribution(), c.width.distribution(), c.height.distribution()}
	}
	return out
}
