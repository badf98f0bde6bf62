package loader

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// The bounds of the data files open at once, whatever the number of bins: a local file is a descriptor of this
// process, a remote one a few kilobytes, and opening it again asks a service that all ranks share.
const (
	maxOpenBins       = 64
	maxOpenRemoteBins = 4096
)

// dataset is where samples are read: the manifest, the look-up of parts, and the bins' files.
type dataset struct {
	dir      string
	store    store.Store
	cacheDir string // of indexes
	manifest *binfmt.Manifest
	index    *binfmt.Dataset
	bins     *store.OpenFiles

	mu     sync.Mutex
	pinned map[int]store.Identity // of every bin that was ever open
}

// openDataset reads the manifest in dir. Index and data files are opened when first needed.
func openDataset(ctx context.Context, st store.Store, dir, cacheDir string) (*dataset, error) {
	d := &dataset{dir: dir, store: st, cacheDir: cacheDir, pinned: map[int]store.Identity{}}
	name := d.name(binfmt.ManifestName)
	data, err := store.ReadFile(ctx, st, name, binfmt.MaxManifest)
	if err != nil {
		return nil, fmt.Errorf("open the dataset %s: %w: give the folder that `stepahead pack` or `stepahead index` wrote", st.Address(dir), err)
	}
	if d.manifest, err = binfmt.ParseManifest(st.Address(name), data); err != nil {
		return nil, err
	}
	d.index = binfmt.NewDataset(d.manifest, d.localIndex)
	sums := d.name(binfmt.SumsName)
	err = d.index.UseSums(ctx, st.Address(sums), func(ctx context.Context) (binfmt.SumsFile, error) { return store.OpenPieces(ctx, st, sums) })
	if err != nil {
		return nil, fmt.Errorf("open the dataset %s: %w", st.Address(dir), err)
	}
	most := maxOpenRemoteBins
	if _, local := st.(store.Localizer); local {
		most = maxOpenBins
	}
	d.bins = store.NewOpenFiles(most, d.openBin)
	return d, nil
}

func (d *dataset) name(base string) string { return path.Join(d.dir, base) }

// binName is the path of a bin's data in the store.
func (d *dataset) binName(bin int) string { return d.name(d.manifest.Bins[bin].DataName()) }

// address is what the data of a bin, or a file of one that is a folder, is called in messages.
func (d *dataset) address(bin int, file string) string {
	return d.store.Address(path.Join(d.binName(bin), file))
}

// localIndex gives the index of a bin as a local file whose digest is the manifest's.
func (d *dataset) localIndex(ctx context.Context, bin int) (binfmt.LocalIndex, error) {
	b := d.manifest.Bins[bin]
	digest, err := b.IndexDigest()
	if err != nil {
		return binfmt.LocalIndex{}, fmt.Errorf("%s: %w", d.store.Address(d.name(binfmt.ManifestName)), err)
	}
	local, err := store.CacheLocal(ctx, d.store, d.name(b.IndexName()), digest, d.cacheDir)
	return binfmt.LocalIndex(local), err
}

// openBin opens the data file of a bin and holds it against the manifest.
func (d *dataset) openBin(ctx context.Context, bin int) (store.File, error) {
	b := d.manifest.Bins[bin]
	name := d.name(b.DataName())
	f, err := d.store.Open(ctx, name)
	at := d.store.Address(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", at, err)
	}
	if err := d.pin(bin, at, f.Identity()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := checkBin(ctx, f, at, b); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// pin remembers the version of a bin's file that was opened first. Another one is an error: a bin may be
// closed and opened again in between, and a run reads one version.
func (d *dataset) pin(bin int, at string, now store.Identity) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if was, ok := d.pinned[bin]; ok && was != now {
		return &store.IdentityError{Name: at, Pinned: was, Now: now}
	}
	d.pinned[bin] = now
	return nil
}

// prefetch tells the store which bins will be read, so that it learns of all at once what opening and
// locating them needs. What it cannot learn, the bins' own calls report.
func (d *dataset) prefetch(ctx context.Context, bins []int) {
	p, ok := d.store.(store.Prefetcher)
	if !ok {
		return
	}
	var names []string
	for _, bin := range d.bins.Absent(bins) {
		if !d.manifest.Bins[bin].IsFolder() { // whose files are expected when they are read
			names = append(names, d.binName(bin))
		}
	}
	if len(names) > 0 {
		_ = p.Prefetch(ctx, names)
	}
}

// checkBin holds a data file, named as messages name it, against the manifest.
func checkBin(ctx context.Context, f store.File, at string, b binfmt.Bin) error {
	head := make([]byte, min(b.HeadSize(), f.Size()))
	if err := f.ReadRanges(ctx, []store.Range{{Buf: head}}); err != nil {
		return fmt.Errorf("read the header of %s: %w", at, err)
	}
	return binfmt.CheckBin(at, f.Size(), string(f.Identity()), head, b)
}

// locate says where a bin's bytes are. A bin that is a folder of small files is at no one place.
func (d *dataset) locate(ctx context.Context, bin int) ([]store.Replica, error) {
	b := d.manifest.Bins[bin]
	if b.IsFolder() {
		return nil, nil
	}
	return d.store.Locate(ctx, d.binName(bin), 0, b.Bytes)
}

func (d *dataset) close() error {
	return errors.Join(d.bins.Close(), d.index.Close())
}
