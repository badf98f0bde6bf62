package copies

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// making is one call of Make.
type making struct {
	mk     *Maker
	p      controller.Placement
	t      controller.Tools
	src    *checkpoint.Checkpoint
	home   store.Store
	site   store.Store
	place  string // of the placement
	folder string // of this making, in the place
	gate   *gate
	last   int // the file that is the marker
	// readers is who is to read the copy; nil where that is not known.
	readers *store.Access

	mu      sync.Mutex
	have    []*found // by the numbers of the files
	fresh   int      // how many of them are not in the record
	written time.Duration
	copied  int64
	answers time.Duration // when a store answered last
	writing sync.Mutex    // held while the record is written
	telling sync.Mutex    // held while progress is reported
}

// Make implements controller.Maker.
func (mk *Maker) Make(ctx context.Context, p controller.Placement, t controller.Tools) (controller.Made, error) {
	if p.Make.Of != 0 {
		return mk.share(ctx, p, t)
	}
	ctx = store.WithLane(ctx, store.Bulk)
	site, err := mk.site(ctx, p.Make.Site)
	if err == nil {
		_, err = protector(site)
	}
	if err != nil {
		return controller.Made{}, atSite(ctx, err)
	}
	src, err := mk.source(ctx, p.Make)
	if err != nil {
		return controller.Made{}, err
	}
	m := &making{
		mk: mk, p: p, t: t, src: src, home: mk.o.Stores.Home(), site: site, place: temporary.PlaceOf(mk.o.Controller, p.Make.ID),
		gate: newGate(mk.o.Clock, t.Rate), last: lastOf(src.Layout, src.Files), readers: readersOfCopy(p),
	}
	r, err := m.run(ctx)
	return controller.Made{Digest: r.Digest, Reused: r.reused()}, err
}

func (m *making) run(ctx context.Context) (record, error) {
	if err := m.mk.writeMark(ctx, m.site, m.p, m.t); err != nil {
		return record{}, err
	}
	r, err := m.finished(ctx)
	if err != nil || r.Digest != "" {
		return r, err
	}
	if err := m.begin(ctx); err != nil {
		return record{}, err
	}
	if err := m.send(ctx); err != nil {
		return record{}, err
	}
	if err := unchanged(ctx, m.home, m.src); err != nil {
		return record{}, err
	}
	return m.finish(ctx)
}

// change makes a change of the world at the site.
func (m *making) change(ctx context.Context, do func(ctx context.Context) error) error {
	return atSite(ctx, temporary.Change(ctx, m.t.Fence, do))
}

// finished returns the record of a copy that an earlier making has finished, or had all of and not given its names. Of what is there and is not whole it makes an attempt to go on with.
func (m *making) finished(ctx context.Context) (record, error) {
	folder := path.Join(m.place, whole)
	if _, err := m.site.Stat(ctx, folder); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return record{}, atSite(ctx, err)
	}
	a, r, err := m.attempt(ctx, folder)
	if err != nil {
		return record{}, err
	}
	all := resume(m.src.Files, []attempt{a})
	if r.Identity == m.p.Make.Identity && r.Digest != "" && len(missing(all)) == 0 && len(a.files) == len(all) {
		return m.settle(ctx, r)
	}
	return record{}, m.change(ctx, func(ctx context.Context) error {
		return m.site.Rename(ctx, folder, path.Join(m.place, newPrefix+rand.Text()))
	})
}

// begin makes the folder of this making, in a place that nobody else may enter, and takes over what others left whole.
func (m *making) begin(ctx context.Context) error {
	if err := m.makeFolder(ctx, m.place); err != nil {
		return err
	}
	if err := letIn(ctx, m.site, m.place, []store.Access{{Mode: private}}, m.t.Fence); err != nil {
		return atSite(ctx, err)
	}
	attempts, err := m.attempts(ctx)
	if err != nil {
		return err
	}
	m.folder = path.Join(m.place, newPrefix+rand.Text())
	m.have = resume(m.src.Files, attempts)
	if err := m.makeFolders(ctx); err != nil {
		return err
	}
	if err := m.adopt(ctx); err != nil {
		return err
	}
	for _, a := range attempts {
		if err := m.discard(ctx, a.folder); err != nil {
			return err
		}
	}
	for _, f := range m.have {
		if f != nil {
			m.copied += f.Size
		}
	}
	m.tell()
	m.written = m.mk.o.Clock.Now()
	return nil
}

func (m *making) makeFolder(ctx context.Context, name string) error {
	return m.change(ctx, func(ctx context.Context) error {
		f, ok := m.site.(store.FolderMaker)
		if !ok {
			return fmt.Errorf("%s: the store makes no folder that can be protected before something is in it: %w", m.site.Address(name), errors.ErrUnsupported)
		}
		return f.MakeFolder(ctx, name)
	})
}

// makeFolders makes those that files will be renamed into. Others come with their files.
func (m *making) makeFolders(ctx context.Context) error {
	folders := []string{path.Dir(path.Join(m.base(), m.src.Files[m.last].Name))}
	for i, f := range m.have {
		if f != nil {
			folders = append(folders, path.Dir(m.at(i)))
		}
	}
	slices.Sort(folders)
	for few := range slices.Chunk(slices.Compact(folders), batchFiles) {
		err := m.change(ctx, func(ctx context.Context) error {
			g, ctx := errgroup.WithContext(ctx)
			g.SetLimit(atOnce)
			for _, name := range few {
				g.Go(func() error { return m.site.(store.FolderMaker).MakeFolder(ctx, name) })
			}
			return g.Wait()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// attempts are what makings left.
func (m *making) attempts(ctx context.Context) (all []attempt, err error) {
	infos, err := m.site.List(ctx, m.place)
	if err != nil {
		return nil, atSite(ctx, err)
	}
	for _, info := range infos {
		if !info.Dir || !strings.HasPrefix(path.Base(info.Name), newPrefix) {
			continue
		}
		a, _, err := m.attempt(ctx, info.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// attempt looks at what a making left.
func (m *making) attempt(ctx context.Context, folder string) (attempt, record, error) {
	r, err := readRecord(ctx, m.site, folder)
	if err != nil {
		return attempt{}, r, atSite(ctx, err)
	}
	a := attempt{folder: folder, files: map[string]store.Info{}, sums: r.Files}
	for _, root := range []string{path.Join(folder, lastFolder), path.Join(folder, m.data())} { // the marker may be in either
		if err := list(ctx, m.site, root, a.files); err != nil {
			return attempt{}, r, atSite(ctx, err)
		}
	}
	return a, r, nil
}

// list adds the files below a folder, by their names in it.
func list(ctx context.Context, st store.Store, root string, files map[string]store.Info) error {
	for next := []string{root}; len(next) > 0; {
		folder := next[len(next)-1]
		next = next[:len(next)-1]
		infos, err := st.List(ctx, folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, info := range infos {
			if info.Dir {
				next = append(next, info.Name)
			} else {
				files[strings.TrimPrefix(info.Name, root+"/")] = info
			}
		}
	}
	return nil
}

// adopt gives files that earlier makings left whole their names in this one. Those makings may still be under way, of a process that was thought dead: what
// they write after this is in folders of their own.
func (m *making) adopt(ctx context.Context) error {
	var some []int
	for i, f := range m.have {
		if f != nil {
			some = append(some, i)
		}
	}
	for few := range slices.Chunk(some, batchFiles) {
		err := m.change(ctx, func(ctx context.Context) error {
			g, ctx := errgroup.WithContext(ctx)
			g.SetLimit(atOnce)
			for _, i := range few {
				g.Go(func() error {
					err := m.site.Rename(ctx, m.have[i].at, m.at(i))
					if errors.Is(err, fs.ErrNotExist) { // it is sent again
						m.have[i] = nil
						return nil
					}
					m.have[i].at = m.at(i)
					return err
				})
			}
			return g.Wait()
		})
		if err != nil {
			return err
		}
	}
	m.fresh = len(some)
	return m.write(ctx)
}

// discard removes what an earlier making left that does not count. Whatever keeps it from that, such as a writer that may be alive, goes with the place.
func (m *making) discard(ctx context.Context, folder string) error {
	err := m.change(ctx, func(ctx context.Context) error { return removeAll(ctx, m.site, folder) })
	if isFence(err) {
		return err
	}
	return ctx.Err()
}

// removeAll removes a name, with what is in it.
func removeAll(ctx context.Context, st store.Store, name string) error {
	err := st.Remove(ctx, name)
	if !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	infos, err := st.List(ctx, name)
	if err != nil {
		return err
	}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, info := range infos {
		if !info.Dir {
			g.Go(func() error { return st.Remove(inner, info.Name) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, info := range infos {
		if info.Dir {
			if err := removeAll(ctx, st, info.Name); err != nil {
				return err
			}
		}
	}
	return st.Remove(ctx, name)
}

// data is the folder of the copy in that of a making: it has the original's name, which may tell the layout.
func (m *making) data() string {
	if m.src.Single() {
		return dataFolder
	}
	return path.Join(dataFolder, path.Base(m.src.Path))
}

func (m *making) base() string { return path.Join(m.folder, m.data()) }

// at is where a file is written.
func (m *making) at(i int) string {
	if i == m.last {
		return path.Join(m.folder, lastFolder, m.src.Files[i].Name)
	}
	return path.Join(m.base(), m.src.Files[i].Name)
}

// finish gives what is whole its names: first the folder, then the marker in it.
func (m *making) finish(ctx context.Context) (record, error) {
	r := m.record()
	r.Digest = m.src.DigestOf(m.sums()).Sum
	if err := m.change(ctx, func(ctx context.Context) error { return writeRecord(ctx, m.site, m.folder, r) }); err != nil {
		return record{}, err
	}
	err := m.change(ctx, func(ctx context.Context) error {
		return m.site.Rename(ctx, m.folder, path.Join(m.place, whole))
	})
	if err != nil {
		return record{}, err
	}
	return m.settle(ctx, r)
}

// settle ends a making of which all is in the folder of what is whole: it gives the marker its name, finds out that the copy is what the original is, and lets in whom that lets in.
func (m *making) settle(ctx context.Context, r record) (record, error) {
	m.folder = path.Join(m.place, whole)
	marker := m.src.Files[m.last].Name
	err := m.change(ctx, func(ctx context.Context) error {
		err := m.site.Rename(ctx, path.Join(m.folder, lastFolder, marker), path.Join(m.base(), marker))
		if errors.Is(err, fs.ErrNotExist) { // it was done before
			return nil
		}
		return err
	})
	if err != nil {
		return record{}, err
	}
	if err := m.compare(ctx, r); err != nil {
		return record{}, err
	}
	if err := unchanged(ctx, m.home, m.src); err != nil {
		return record{}, err
	}
	if err := m.mk.admit(ctx, m.site, m.src, m.p.Make, m.t); err != nil {
		return record{}, err
	}
	m.copied = m.src.Bytes()
	m.tell()
	return r, nil
}

// compare finds out whether the copy is the checkpoint that the original is, with the files whose sums are recorded.
func (m *making) compare(ctx context.Context, r record) error {
	name := m.base()
	if m.src.Single() {
		name = path.Join(name, m.src.Files[0].Name)
	}
	c, err := checkpoint.Open(ctx, m.site, name, checkpoint.Options{})
	if err != nil {
		return atSite(ctx, err)
	}
	if len(c.Files) != len(r.Files) {
		return m.differs("it has %d files, the original %d", len(c.Files), len(r.Files))
	}
	sums := make([]uint32, len(c.Files))
	for i, f := range c.Files {
		if s := r.Files[i]; f.Name != s.Name || f.Size != s.Size || f.Identity != s.Here {
			return m.differs("%s, %d bytes, version %s: it was written as %s, %d bytes, version %s", f.Name, f.Size, f.Identity, s.Name, s.Size, s.Here)
		}
		sums[i] = r.Files[i].CRC32C
	}
	if got := c.DigestOf(sums).Sum; got != r.Digest {
		return m.differs("its layout is %s, save id %q and digest %s; the original's %s, %q and %s", c.Layout, c.SaveID, got, m.src.Layout, m.src.SaveID, r.Digest)
	}
	return nil
}

func (m *making) differs(format string, args ...any) error {
	return &controller.Error{Reason: plan.ReasonSite, Err: fmt.Errorf("the copy %s of %s: %w: %s", m.site.Address(m.base()), m.src.URL(), store.ErrCorrupt, fmt.Sprintf(format, args...))}
}

// admit lets in whom the original lets in, or its owner alone: into the data, and through the folders above.
func (mk *Maker) admit(ctx context.Context, site store.Store, c *checkpoint.Checkpoint, p plan.Make, t controller.Tools) error {
	a, ok, err := readersAt(ctx, mk.o.Stores.Home(), c)
	if err != nil {
		return atSource(ctx, err)
	}
	if p.Access != plan.AsOriginal {
		a.Mode, a.ACL = private, nil
	}
	place := temporary.PlaceOf(mk.o.Controller, p.ID)
	folder := path.Join(place, whole)
	if err := letIn(ctx, site, path.Join(folder, dataFolder), offers(a, ok), t.Fence); err != nil {
		return atSite(ctx, err)
	}
	for _, f := range []string{folder, place} {
		if err := letIn(ctx, site, f, []store.Access{{Mode: private | 0o011}}, t.Fence); err != nil {
			return atSite(ctx, err)
		}
	}
	return nil
}

// record is what is whole so far.
func (m *making) record() record {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := record{Path: m.src.URL(), Data: m.data(), Layout: string(m.src.Layout), SaveID: m.src.SaveID, Identity: m.p.Make.Identity, Readers: m.readers}
	for _, f := range m.have {
		if f != nil {
			r.Files = append(r.Files, f.sum)
		}
	}
	return r
}

func (m *making) sums() []uint32 {
	sums := make([]uint32, len(m.have))
	for i, f := range m.have {
		sums[i] = f.CRC32C
	}
	return sums
}

// tell reports progress, one call at a time.
func (m *making) tell() {
	if m.t.Progress == nil {
		return
	}
	m.telling.Lock()
	defer m.telling.Unlock()
	m.mu.Lock()
	n := m.copied
	m.mu.Unlock()
	m.t.Progress(n)
}
