// Package pack knows how to make a dataset from a folder or a list of files, and how to look at one
// and check all of it.
package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// ErrExists: there is another dataset at the destination.
var ErrExists = errors.New("another dataset is there already")

const (
	defaultBlock   = 128 << 20
	defaultBinSize = 16 << 30
)

// Options configure Pack. The zero value is usable.
type Options struct {
	// Workers is how many files are read at the same time. Default: the number of processors.
	Workers int
	// BlockSize in bytes: a part that is not larger lies in one block. A multiple of 64. Default: the
	// destination's, else 128 MiB.
	BlockSize int64
	// BinSize is the size in bytes at which a bin is full. Default 16 GiB.
	BinSize int64
	// SkipBad leaves out empty files and, in folders, files of no known media type. Default: they are
	// an error.
	SkipBad bool
	// Force replaces another dataset at the destination. Default: that is an error.
	Force bool
	// Progress is called now and then, by one goroutine at a time. Default: nobody is told.
	Progress func(Progress)
	// Report is filled in if it is not nil, also when Pack fails.
	Report *Report

	testing struct{ chunk int }
}

// Progress says how far Pack or Verify is.
type Progress struct {
	Phase       string // "scan", "write" or "verify"
	Done, Total int64  // files while scanning, else bytes
}

// Report says what Pack did besides packing.
type Report struct {
	Hidden  int      `json:"hidden"`  // files and folders left out because their name starts with a dot
	Skipped []string `json:"skipped"` // bad files left out, each with the reason
	Already bool     `json:"already"` // the same dataset was there: nothing was written
}

// Validate returns what is wrong with the options, all at once.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("pack.Options: "+format, args...)) }
	if o.Workers < 0 || o.Workers > 4096 {
		bad("Workers is %d, want 0 (the default) to 4096", o.Workers)
	}
	if o.BlockSize != 0 && (o.BlockSize < 1024 || o.BlockSize%binfmt.Alignment != 0) {
		bad("BlockSize is %d, want a multiple of %d from 1024 on", o.BlockSize, binfmt.Alignment)
	}
	if o.BinSize < 0 {
		bad("BinSize is %d, want 0 (the default) or more", o.BinSize)
	}
	return errors.Join(errs...)
}

// withDefaults fills in what is not given.
func (o Options) withDefaults(dst store.Store) Options {
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if b, ok := dst.(store.BlockSizer); ok && o.BlockSize == 0 {
		o.BlockSize = b.BlockSize()
	}
	if o.BlockSize == 0 {
		o.BlockSize = defaultBlock
	}
	if o.BinSize == 0 {
		o.BinSize = defaultBinSize
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Report == nil {
		o.Report = new(Report)
	}
	if o.testing.chunk == 0 {
		o.testing.chunk = scanChunk
	}
	return o
}

// Pack reads src twice, once to learn everything about it and once to copy it, and makes a dataset
// in the folder dir of dst. The dataset appears at the end, in one step, with its manifest. Until
// then everything is in the folder .stepahead-pack inside dir; after an error or a kill it stays
// there, and the same call goes on from it. Equal input gives equal bytes, whatever the number of
// workers and of interruptions. Only one Pack may work on a destination at a time.
func Pack(ctx context.Context, src Source, dst store.Store, dir string, o Options) (*binfmt.Manifest, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &packer{Options: o.withDefaults(dst), st: dst, dir: dir}
	if err := p.Options.Validate(); err != nil { // the store's block size too
		return nil, err
	}
	if err := apart(src, dst, dir); err != nil {
		return nil, err
	}
	m, err := p.run(ctx, src)
	if err != nil {
		return nil, p.advise(err)
	}
	return m, nil
}

// advise says what to do after errors that have nothing to do with what is packed.
func (p *packer) advise(err error) error {
	name := path.Join(p.dir, workDir)
	work, ok := localPath(p.st, name)
	if !ok {
		work = name + " in the store"
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: make room and run the same command again, which goes on where it stopped; to give up, remove %s", err, work)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("pack: interrupted: run the same command again, which goes on where it stopped; to give up, remove %s: %w", work, err)
	}
	return err
}

// apart refuses to write into what is read.
func apart(src Source, dst store.Store, dir string) error {
	to, ok := localPath(dst, dir)
	if !ok {
		return nil
	}
	for _, from := range src.Local() {
		abs, err := filepath.Abs(from)
		if err != nil {
			return fmt.Errorf("pack: %w", err)
		}
		if within(filepath.ToSlash(abs), filepath.ToSlash(to)) {
			return fmt.Errorf("pack: the destination %s lies inside the source %s: choose another place: %w", to, abs, ErrSource)
		}
	}
	return nil
}

// localPath returns where a folder, which need not exist yet, is or will be on this machine.
func localPath(st store.Store, dir string) (string, bool) {
	l, ok := st.(store.Localizer)
	if !ok {
		return "", false
	}
	rest := ""
	for {
		if p, ok := l.LocalPath(dir); ok {
			return filepath.Join(p, filepath.FromSlash(rest)), true
		}
		if dir == path.Dir(dir) {
			return "", false
		}
		dir, rest = path.Dir(dir), path.Join(path.Base(dir), rest)
	}
}

type packer struct {
	Options
	st  store.Store
	dir string
	mu  sync.Mutex
}

func (p *packer) run(ctx context.Context, src Source) (*binfmt.Manifest, error) {
	list, err := src.List(ctx)
	if err != nil {
		return nil, err
	}
	p.Report.Hidden = list.Hidden
	j, err := openJournal(ctx, p.st, p.dir)
	if err != nil {
		return nil, err
	}
	bins, err := p.learn(ctx, list, j)
	if err != nil {
		return nil, err
	}
	m := manifestOf(list, bins)
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	old, err := p.existing(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := p.sweep(ctx, m); err != nil {
		return nil, err
	}
	if err := p.write(ctx, list, bins); err != nil {
		if errors.Is(err, ErrChanged) {
			err = errors.Join(err, j.forget(ctx))
		}
		return nil, err
	}
	return m, p.publish(ctx, m, old)
}

// learn is the first pass and the plan made from it.
func (p *packer) learn(ctx context.Context, list *Listing, j *journal) ([]*binPlan, error) {
	progress := Progress{Phase: "scan", Total: int64(len(list.Entries))}
	s := &scanner{files: filesIn(list.Store), journal: j, workers: p.Workers, chunk: p.testing.chunk, step: func(files int, _ int64) {
		progress.Done += int64(files)
		p.Progress(progress)
	}}
	items, err := s.scan(ctx, list.Entries)
	if err != nil {
		return nil, err
	}
	items, p.Report.Skipped, err = sift(items, list.Explicit, p.SkipBad)
	if err != nil {
		return nil, err
	}
	bins := layout(items, p.BlockSize, p.BinSize)
	var g errgroup.Group
	g.SetLimit(p.Workers)
	for i, b := range bins {
		g.Go(func() error { return b.seal(i, list.Fields) })
	}
	return bins, errors.Join(g.Wait(), ctx.Err())
}

// existing looks at what is at the destination: nil, or the manifest that will be replaced.
func (p *packer) existing(ctx context.Context, m *binfmt.Manifest) (*binfmt.Manifest, error) {
	name := path.Join(p.dir, binfmt.ManifestName)
	data, err := store.ReadFile(ctx, p.st, name, binfmt.MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	old, err := binfmt.ParseManifest(name, data)
	switch {
	case err == nil && old.Identity() == m.Identity():
		p.Report.Already = true
		return old, nil
	case !p.Force && err != nil:
		return nil, fmt.Errorf("pack: there is a manifest that cannot be read; replace it with --force: %w: %w", err, ErrExists)
	case !p.Force:
		return nil, fmt.Errorf("pack: %s: %x, the new one would be %x: pack to another place, or replace it with --force: %w", name, old.Identity(), m.Identity(), ErrExists)
	}
	return old, nil
}

// write is the second pass.
func (p *packer) write(ctx context.Context, list *Listing, bins []*binPlan) error {
	progress := Progress{Phase: "write"}
	for _, b := range bins {
		progress.Total += b.Bytes
	}
	together := min(p.Workers, len(bins))
	w := &binWriter{files: filesIn(list.Store), st: p.st, dir: p.dir, fields: list.Fields, ahead: 2*p.Workers/together + 2, step: func(n int64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		progress.Done += n
		p.Progress(progress)
	}}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(together)
	for _, b := range bins {
		g.Go(func() error { return w.write(ctx, b) })
	}
	return g.Wait()
}

// publish moves the bins to their names and then the manifest, which makes the dataset exist.
func (p *packer) publish(ctx context.Context, m, old *binfmt.Manifest) error {
	for _, name := range filesOf(m) {
		err := p.st.Rename(ctx, path.Join(p.dir, dataDir, name), path.Join(p.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // not there: moved by an earlier run
			return fmt.Errorf("pack: %w", err)
		}
	}
	if !p.Report.Already {
		if err := p.putManifest(ctx, m); err != nil {
			return fmt.Errorf("pack: %w", err)
		}
	}
	return p.clean(ctx, m, old)
}

// filesOf lists the files of all bins.
func filesOf(m *binfmt.Manifest) []string {
	var names []string
	for _, b := range m.Bins {
		names = append(names, b.DataName(), b.IndexName())
	}
	return names
}

func (p *packer) putManifest(ctx context.Context, m *binfmt.Manifest) error {
	tmp := path.Join(p.dir, workDir, binfmt.ManifestName)
	if err := replaceFile(ctx, p.st, tmp, m.Canonical()); err != nil {
		return err
	}
	return p.st.Rename(ctx, tmp, path.Join(p.dir, binfmt.ManifestName))
}

// clean removes the working folder, and the bins of a dataset that was replaced.
func (p *packer) clean(ctx context.Context, m, old *binfmt.Manifest) error {
	errs := []error{
		removeAll(ctx, p.st, path.Join(p.dir, workDir)),
	}
	if old != nil {
		errs = append(errs, p.removeOthers(ctx, p.dir, filesOf(old), filesOf(m)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("pack: the dataset is complete, but what is not needed any more is not all removed: %w", err)
	}
	return nil
}

// removeOthers removes those of the named files in dir that are not to be kept.
func (p *packer) removeOthers(ctx context.Context, dir string, names, keep []string) error {
	kept := make(map[string]bool, len(keep))
	for _, name := range keep {
		kept[name] = true
	}
	var errs []error
	for _, name := range names {
		if kept[name] {
			continue
		}
		if err := p.st.Remove(ctx, path.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweep removes finished files of an earlier run that was to make another dataset.
func (p *packer) sweep(ctx context.Context, m *binfmt.Manifest) error {
	infos, err := p.st.List(ctx, path.Join(p.dir, dataDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pack: %w", err)
	}
	var names []string
	for _, info := range infos {
		names = append(names, path.Base(info.Name))
	}
	if err := p.removeOthers(ctx, path.Join(p.dir, dataDir), names, filesOf(m)); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	return nil
}
