package loader

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// maxManifest bounds dataset.json: 10,000 bins take about 3 MB.
const maxManifest = 256 << 20

// dataset is where samples are read: the manifest, the look-up of parts, and the bins' files.
type dataset struct {
	dir      string
	store    store.Store
	manifest *binfmt.Manifest
	id       [32]byte
	index    *binfmt.Dataset
	bins     *bins
}

// openDataset reads the manifest in dir. Index and data files are opened when first needed.
func openDataset(ctx context.Context, st store.Store, dir, cacheDir string) (*dataset, error) {
	d := &dataset{dir: dir, store: st}
	data, err := d.readManifest(ctx)
	if err != nil {
		return nil, err
	}
	d.manifest, err = binfmt.ParseManifest(d.name(binfmt.ManifestName), data)
	if err != nil {
		return nil, err
	}
	d.id = d.manifest.Identity()
	d.index = binfmt.NewDataset(d.manifest, func(ctx context.Context, bin int) (string, error) {
		return d.localIndex(ctx, bin, cacheDir)
	}, binfmt.Options{})
	d.bins = newBins(maxOpenBins, d.openBin)
	return d, nil
}

func (d *dataset) name(base string) string { return path.Join(d.dir, base) }

func (d *dataset) readManifest(ctx context.Context) ([]byte, error) {
	name := d.name(binfmt.ManifestName)
	f, err := d.store.Open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open the dataset %s: %w: give the folder that `stepahead pack` wrote", d.dir, err)
	}
	defer f.Close()
	if f.Size() > maxManifest {
		return nil, fmt.Errorf("%s: %d bytes, at most %d are read", name, f.Size(), maxManifest)
	}
	data := make([]byte, f.Size())
	if err := f.ReadRanges(ctx, []store.Range{{Buf: data}}); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// localIndex gives the index of a bin as a local file whose digest is the manifest's.
func (d *dataset) localIndex(ctx context.Context, bin int, cacheDir string) (string, error) {
	b := d.manifest.Bins[bin]
	var digest [32]byte
	if n, err := hex.Decode(digest[:], []byte(b.IndexSHA256)); err != nil || n != len(digest) {
		return "", fmt.Errorf("%s: bin %s: index_sha256 is not 64 hex digits", d.name(binfmt.ManifestName), b.Name)
	}
	return store.CacheLocal(ctx, d.store, d.name(b.IndexName()), digest, cacheDir)
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

// headerBytes is the length of a bin's header.
const headerBytes = 64

func checkBin(ctx context.Context, f store.File, name string, b binfmt.Bin) error {
	if f.Size() != b.Bytes {
		return fmt.Errorf("%s: %d bytes, the manifest says %d: %w: the bin was cut or replaced", name, f.Size(), b.Bytes, binfmt.ErrMismatch)
	}
	head := make([]byte, headerBytes)
	if err := f.ReadRanges(ctx, []store.Range{{Buf: head}}); err != nil {
		return fmt.Errorf("read the header of %s: %w", name, err)
	}
	return binfmt.CheckHeader(name, head, b)
}

func (d *dataset) close() error {
	return errors.Join(d.bins.close(), d.index.Close())
}
