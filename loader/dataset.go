package loader

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// maxOpenBins bounds the data files open at once, whatever the number of bins.
const maxOpenBins = 64

// dataset is where samples are read: the manifest, the look-up of parts, and the bins' files.
type dataset struct {
	dir      string
	store    store.Store
	cacheDir string // of indexes
	manifest *binfmt.Manifest
	id       [32]byte
	index    *binfmt.Dataset
	bins     *store.OpenFiles
}

// openDataset reads the manifest in dir. Index and data files are opened when first needed.
func openDataset(ctx context.Context, st store.Store, dir, cacheDir string) (*dataset, error) {
	d := &dataset{dir: dir, store: st, cacheDir: cacheDir}
	name := d.name(binfmt.ManifestName)
	data, err := store.ReadFile(ctx, st, name, binfmt.MaxManifest)
	if err != nil {
		return nil, fmt.Errorf("open the dataset %s: %w: give the folder that `stepahead pack` wrote", dir, err)
	}
	if d.manifest, err = binfmt.ParseManifest(name, data); err != nil {
		return nil, err
	}
	d.id = d.manifest.Identity()
	d.index = binfmt.NewDataset(d.manifest, d.localIndex)
	d.bins = store.NewOpenFiles(maxOpenBins, d.openBin)
	return d, nil
}

func (d *dataset) name(base string) string { return path.Join(d.dir, base) }

// binName is the path of a bin's data in the store.
func (d *dataset) binName(bin int) string { return d.name(d.manifest.Bins[bin].DataName()) }

// localIndex gives the index of a bin as a local file whose digest is the manifest's.
func (d *dataset) localIndex(ctx context.Context, bin int) (string, error) {
	b := d.manifest.Bins[bin]
	digest, err := b.IndexDigest()
	if err != nil {
		return "", fmt.Errorf("%s: %w", d.name(binfmt.ManifestName), err)
	}
	return store.CacheLocal(ctx, d.store, d.name(b.IndexName()), digest, d.cacheDir)
}

// openBin opens the data file of a bin and holds it against the manifest.
func (d *dataset) openBin(ctx context.Context, bin int) (store.File, error) {
	b := d.manifest.Bins[bin]
	name := d.name(b.DataName())
	f, err := d.store.Open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	if err := checkBin(ctx, f, name, b); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func checkBin(ctx context.Context, f store.File, name string, b binfmt.Bin) error {
	head := make([]byte, min(binfmt.HeaderSize, f.Size()))
	if err := f.ReadRanges(ctx, []store.Range{{Buf: head}}); err != nil {
		return fmt.Errorf("read the header of %s: %w", name, err)
	}
	return binfmt.CheckBin(name, f.Size(), head, b)
}

func (d *dataset) close() error {
	return errors.Join(d.bins.Close(), d.index.Close())
}
