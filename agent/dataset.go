package agent

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/store"
)

// maxOpenBins bounds the data files of a dataset that are open at once.
const maxOpenBins = 64

// errIdentity says that what lies under a path is not what was asked for.
var errIdentity = errors.New("another version of the dataset lies there")

// dataset is one version of a dataset as this node sees it. It is safe for concurrent use.
type dataset struct {
	*binfmt.Dataset
	datasetKey
	lake
	places *store.Locations // of bins
	bins   *store.OpenFiles
}

type datasetKey struct {
	dir      string
	identity [32]byte
}

// lake is where datasets are found.
type lake struct {
	store    store.Store
	cacheDir string // of their indexes
	now      func() time.Duration
}

// open opens the dataset in k's folder and makes sure that it is the version with k's identity.
func (l lake) open(ctx context.Context, k datasetKey) (*dataset, error) {
	name := path.Join(k.dir, binfmt.ManifestName)
	data, err := store.ReadFile(ctx, l.store, name, binfmt.MaxManifest)
	if err != nil {
		return nil, fmt.Errorf("agent.open: %w", err)
	}
	m, err := binfmt.ParseManifest(l.store.Address(name), data)
	if err != nil {
		return nil, fmt.Errorf("agent.open: %w", err)
	}
	if got := m.Identity(); got != k.identity {
		return nil, fmt.Errorf("agent.open %s: %w: identity %x, asked for %x", l.store.Address(name), errIdentity, got[:8], k.identity[:8])
	}
	d := &dataset{datasetKey: k, lake: l}
	d.Dataset = binfmt.NewDataset(m, d.localIndex)
	sums := path.Join(k.dir, binfmt.SumsName)
	err = d.UseSums(ctx, l.store.Address(sums), func(ctx context.Context) (binfmt.SumsFile, error) { return store.OpenPieces(ctx, l.store, sums) })
	if err != nil {
		return nil, fmt.Errorf("agent.open: %w", err)
	}
	d.places = store.NewLocations(l.now, d.locate)
	d.bins = store.NewOpenFiles(maxOpenBins, d.openBin)
	return d, nil
}

// address is what the dataset is called in messages.
func (d *dataset) address() string { return d.store.Address(d.dir) }

func (d *dataset) close() error { return errors.Join(d.bins.Close(), d.Dataset.Close()) }

// bin returns a bin's entry of the manifest and the name of its data file.
func (d *dataset) bin(n int) (binfmt.Bin, string) {
	b := d.Manifest().Bins[n]
	return b, path.Join(d.dir, b.DataName())
}

// allowed returns nil if the holder of a token may use a right on every bin that lies outside the dataset's
// folder, which he was allowed.
func (d *dataset) allowed(c auth.Claims, right string) error {
	for n, b := range d.Manifest().Bins {
		if b.Foreign == nil {
			continue
		}
		_, name := d.bin(n)
		if err := c.Allows(right, name); err != nil {
			return err
		}
	}
	return nil
}

// localIndex gives the index of a bin as a local file.
func (d *dataset) localIndex(ctx context.Context, n int) (binfmt.LocalIndex, error) {
	b, _ := d.bin(n)
	digest, err := b.IndexDigest()
	if err != nil {
		return binfmt.LocalIndex{}, err
	}
	local, err := store.CacheLocal(ctx, d.store, path.Join(d.dir, b.IndexName()), digest, d.cacheDir)
	return binfmt.LocalIndex(local), err
}

func (d *dataset) locate(ctx context.Context, n int) ([]store.Replica, error) {
	b, name := d.bin(n)
	if b.IsFolder() {
		return nil, nil // its files are at no one place: readers read them themselves
	}
	return d.store.Locate(ctx, name, 0, b.Bytes)
}

// openBin opens a bin's data file and makes sure that it is the manifest's.
func (d *dataset) openBin(ctx context.Context, n int) (store.File, error) {
	b, name := d.bin(n)
	if b.IsFolder() {
		return nil, fmt.Errorf("agent.open %s: a folder of small files, which agents do not read: %w", d.store.Address(name), errIdentity)
	}
	f, err := d.store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	head := make([]byte, min(b.HeadSize(), f.Size()))
	if err := f.ReadRanges(ctx, []store.Range{{Buf: head}}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := binfmt.CheckBin(d.store.Address(name), f.Size(), string(f.Identity()), head, b); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errIdentity, err), f.Close())
	}
	return f, nil
}

// read fills buf with a part and checks it. Where the nearest replica has wrong bytes the others are
// tried. An error that matches errIdentity means that the bytes which the index promises are not there.
func (d *dataset) read(ctx context.Context, p binfmt.Extent, buf []byte) error {
	b, err := d.bins.Acquire(ctx, p.Bin)
	if err != nil {
		return fmt.Errorf("agent.read: %w", missing(err))
	}
	defer d.bins.Release(b)
	err = b.ReadRanges(ctx, []store.Range{{Off: p.Off, Buf: buf}})
	if err == nil {
		err = p.Check(buf)
	}
	if err == nil || damaged(err) && d.reread(ctx, b.File, p, buf) {
		return nil
	}
	if missing(err) != err {
		d.bins.Forget(b)
	}
	return fmt.Errorf("agent.read: %w", missing(err))
}

// reread reads a part from one replica after the other until its checksum is right.
func (d *dataset) reread(ctx context.Context, f store.File, p binfmt.Extent, buf []byte) bool {
	r, ok := f.(store.ReplicaReader)
	if !ok {
		return false
	}
	blocks, err := d.places.Of(ctx, p.Bin)
	if err != nil {
		return false
	}
	for _, node := range blocks.Holders(p.Off) {
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
	if damaged(err) || errors.Is(err, store.ErrRange) || errors.Is(err, binfmt.ErrChanged) {
		return fmt.Errorf("%w: %w", errIdentity, err)
	}
	return err
}
