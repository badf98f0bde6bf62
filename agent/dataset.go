package agent

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

const (
	// maxBins bounds the data files that a dataset keeps open while nobody reads them.
	maxBins = 64
)

// errIdentity says that what lies under a path is not what was asked for.
var errIdentity = errors.New("another version of the dataset lies there")

// dataset is one version of a dataset as this node sees it. It is safe for concurrent use.
type dataset struct {
	*binfmt.Dataset
	dir      string
	identity [32]byte
	store    store.Store
	places   places
	bins     bins
}

// openDataset opens the dataset in dir and makes sure that it is the version with this identity.
func openDataset(ctx context.Context, st store.Store, dir string, identity [32]byte, cacheDir string) (*dataset, error) {
	name := path.Join(dir, binfmt.ManifestName)
	data, err := store.ReadFile(ctx, st, name, binfmt.MaxManifest)
	if err != nil {
		return nil, fmt.Errorf("agent.openDataset: %w", err)
	}
	m, err := binfmt.ParseManifest(name, data)
	if err != nil {
		return nil, fmt.Errorf("agent.openDataset: %w", err)
	}
	if got := m.Identity(); got != identity {
		return nil, fmt.Errorf("agent.openDataset %s: %w: identity %x, asked for %x", name, errIdentity, got[:8], identity[:8])
	}
	d := &dataset{dir: dir, identity: identity, store: st, bins: bins{all: make(map[int]*binFile)}}
	index := func(ctx context.Context, bin int) (string, error) {
		digest, err := m.Bins[bin].IndexDigest()
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return store.CacheLocal(ctx, st, path.Join(dir, m.Bins[bin].IndexName()), digest, cacheDir)
	}
	d.Dataset = binfmt.NewDataset(m, index, binfmt.Options{})
	d.places.locate = func(ctx context.Context, bin int) ([]store.Replica, error) {
		data := path.Join(dir, m.Bins[bin].DataName())
		info, err := st.Stat(ctx, data)
		if err != nil {
			return nil, err
		}
		return st.Locate(ctx, data, 0, info.Size)
	}
	d.bins.open = func(ctx context.Context, bin int) (store.File, error) { return d.openBin(ctx, bin) }
	return d, nil
}

func (d *dataset) close() error { return errors.Join(d.bins.close(), d.Dataset.Close()) }

// openBin opens a bin's data file and makes sure that its header belongs to the manifest.
func (d *dataset) openBin(ctx context.Context, bin int) (store.File, error) {
	b := d.Manifest().Bins[bin]
	name := path.Join(d.dir, b.DataName())
	f, err := d.store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	head := make([]byte, min(binfmt.HeaderSize, f.Size()))
	if err := f.ReadRanges(ctx, []store.Range{{Off: 0, Buf: head}}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := binfmt.CheckHeader(name, head, b); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errIdentity, err), f.Close())
	}
	return f, nil
}

// read fills buf with a part and checks it. Where the nearest replica has wrong bytes the others are
// tried. An error that matches errIdentity means that the bytes which the index promises are not there.
func (d *dataset) read(ctx context.Context, p binfmt.Extent, buf []byte) error {
	b, err := d.bins.acquire(ctx, p.Bin)
	if err != nil {
		return fmt.Errorf("agent.read: %w", missing(err))
	}
	defer d.bins.release(b)
	err = b.file.ReadRanges(ctx, []store.Range{{Off: p.Off, Buf: buf}})
	if err == nil {
		err = p.Check(buf)
	}
	if err == nil || damaged(err) && d.reread(ctx, b.file, p, buf) {
		return nil
	}
	if missing(err) != err {
		d.bins.forget(b)
	}
	return fmt.Errorf("agent.read: %w", missing(err))
}

// reread reads a part from one replica after the other until its checksum is right.
func (d *dataset) reread(ctx context.Context, f store.File, p binfmt.Extent, buf []byte) bool {
	r, ok := f.(store.ReplicaReader)
	if !ok {
		return false
	}
	rows, err := d.places.of(ctx, p.Bin)
	if err != nil {
		return false
	}
	for _, node := range rows.holders(p.Off) {
		err := r.ReadReplica(ctx, node, []store.Range{{Off: p.Off, Buf: buf}})
		if err == nil && p.Check(buf) == nil {
			return true
		}
	}
	return false
}

func damaged(err error) bool {
	var sum *binfmt.ChecksumError
	return errors.As(err, &sum) || store.ClassOf(err) == store.Corrupt
}

// missing marks an error that means that the promised bytes are not there.
func missing(err error) error {
	switch store.ClassOf(err) {
	case store.IdentityChanged, store.NotFound, store.Corrupt:
		return fmt.Errorf("%w: %w", errIdentity, err)
	}
	if damaged(err) || errors.Is(err, store.ErrRange) {
		return fmt.Errorf("%w: %w", errIdentity, err)
	}
	return err
}
