package copies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// tb is what tests and properties have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lake is a store over a folder. It knows who may do what, and everything that is changed passes through before.
type lake struct {
	store.Store
	root string

	mu     sync.Mutex
	access map[string]store.Access
	before func(op, name string) error // of changes
	reads  func(op, name string) error // of all else
	refuse func(a store.Access) error  // of Protect
	sent   int64                       // bytes that were written
	got    int64                       // bytes that were read
	noPart bool
	sums   bool // files have them
}

var (
	_ store.Protector    = (*lake)(nil)
	_ store.PartsCreator = (*lake)(nil)
	_ store.FolderMaker  = (*lake)(nil)
)

func newLake(t testing.TB) *lake {
	t.Helper()
	l, err := openLake(t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, closeLake(l)) })
	return l
}

func openLake(root string) (*lake, error) {
	s, _, err := dir.Open(root, dir.Options{Whole: false})
	if err != nil {
		return nil, err
	}
	return &lake{Store: s, root: s.Root(), access: map[string]store.Access{}}, nil
}

func closeLake(l *lake) error { return l.Store.(*dir.Store).Close() }

func (l *lake) change(op, name string) error {
	l.mu.Lock()
	f := l.before
	l.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(op, name)
}

func (l *lake) look(op, name string) error {
	l.mu.Lock()
	f := l.reads
	l.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(op, name)
}

// watch sets what is called before changes and before all else.
func (l *lake) watch(before, reads func(op, name string) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.reads = before, reads
}

func (l *lake) written(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent += int64(n)
}

// read returns the bytes read since it was called last.
func (l *lake) read() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.got
	l.got = 0
	return n
}

// took returns the bytes written since it was called last.
func (l *lake) took() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.sent
	l.sent = 0
	return n
}

func (l *lake) Open(ctx context.Context, name string) (store.File, error) {
	if err := l.look("open", name); err != nil {
		return nil, err
	}
	f, err := l.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &lakeFile{f, l, name}, nil
}

type lakeFile struct {
	store.File
	l    *lake
	name string
}

func (f *lakeFile) ReadRanges(ctx context.Context, r []store.Range) error {
	if err := f.l.look("read", f.name); err != nil {
		return err
	}
	f.l.mu.Lock()
	for _, x := range r {
		f.l.got += int64(len(x.Buf))
	}
	f.l.mu.Unlock()
	return f.File.ReadRanges(ctx, r)
}

// CRC32C implements store.Checksummer.
func (f *lakeFile) CRC32C(ctx context.Context) (uint32, error) {
	if err := f.l.look("sum", f.name); err != nil {
		return 0, err
	}
	if !f.l.sums {
		return 0, errors.ErrUnsupported
	}
	b := make([]byte, f.Size())
	err := f.File.ReadRanges(ctx, []store.Range{{Buf: b}})
	return crc32.Checksum(b, castagnoli), err
}

func (l *lake) Stat(ctx context.Context, name string) (store.Info, error) {
	if err := l.look("stat", name); err != nil {
		return store.Info{}, err
	}
	return l.Store.Stat(ctx, name)
}

func (l *lake) List(ctx context.Context, name string) ([]store.Info, error) {
	if err := l.look("list", name); err != nil {
		return nil, err
	}
	return l.Store.List(ctx, name)
}

func (l *lake) Create(ctx context.Context, name string) (store.Writer, error) {
	if err := l.change("create", name); err != nil {
		return nil, err
	}
	w, err := l.Store.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	return &lakeWriter{w, l, name}, nil
}

type lakeWriter struct {
	store.Writer
	l    *lake
	name string
}

func (w *lakeWriter) Write(p []byte) (int, error) {
	if err := w.l.change("write", w.name); err != nil {
		return 0, err
	}
	w.l.written(len(p))
	return w.Writer.Write(p)
}

func (w *lakeWriter) Close() error {
	if err := w.l.change("close", w.name); err != nil {
		w.Writer.Abort()
		return err
	}
	return w.Writer.Close()
}

func (l *lake) CreateParts(ctx context.Context, name string) (store.PartsWriter, error) {
	if l.noPart {
		return nil, errors.ErrUnsupported
	}
	if err := l.change("create", name); err != nil {
		return nil, err
	}
	w, err := store.CreateParts(ctx, l.Store, name)
	if err != nil {
		return nil, err
	}
	return &lakeParts{w, l, name}, nil
}

type lakeParts struct {
	store.PartsWriter
	l    *lake
	name string
}

func (w *lakeParts) WritePart(ctx context.Context, off int64, data [][]byte) error {
	if err := w.l.change("write", w.name); err != nil {
		return err
	}
	w.l.written(len(bytes.Join(data, nil)))
	return w.PartsWriter.WritePart(ctx, off, data)
}

func (w *lakeParts) Close() error {
	if err := w.l.change("close", w.name); err != nil {
		w.PartsWriter.Abort()
		return err
	}
	return w.PartsWriter.Close()
}

func (l *lake) MakeFolder(ctx context.Context, name string) error {
	if err := l.change("folder", name); err != nil {
		return err
	}
	return l.Store.(store.FolderMaker).MakeFolder(ctx, name)
}

func (l *lake) Rename(ctx context.Context, from, to string) error {
	if err := l.change("rename", from); err != nil {
		return err
	}
	return l.Store.Rename(ctx, from, to)
}

func (l *lake) Remove(ctx context.Context, name string) error {
	if err := l.change("remove", name); err != nil {
		return err
	}
	err := l.Store.Remove(ctx, name)
	if err == nil {
		l.mu.Lock()
		delete(l.access, name)
		l.mu.Unlock()
	}
	return err
}

// Access of what was given none is that of what this user makes.
func (l *lake) Access(ctx context.Context, name string) (store.Access, error) {
	info, err := l.Store.Stat(ctx, name)
	if err != nil {
		return store.Access{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a, ok := l.access[name]; ok {
		return a, nil
	}
	a := store.Access{Owner: "me", Group: "us", Mode: 0o644}
	if info.Dir {
		a.Mode = 0o755
	}
	return a, nil
}

func (l *lake) Protect(ctx context.Context, name string, a store.Access) error {
	if err := l.change("protect", name); err != nil {
		return err
	}
	now, err := l.Access(ctx, name)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		if err := l.refuse(a); err != nil {
			return err
		}
	}
	if a.Owner == "" {
		a.Owner = now.Owner
	}
	if a.Group == "" {
		a.Group = now.Group
	}
	l.access[name] = a
	return nil
}

// put writes files as another program would.
func (l *lake) put(t tb, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		file := filepath.Join(l.root, filepath.FromSlash(dir), filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, data, 0o644))
	}
}

// left are all files below the store's own folder, and folders in which something was.
func (l *lake) left(t tb) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(filepath.Join(l.root, ".stepahead"), func(file string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		rel, _ := filepath.Rel(l.root, file)
		if err == nil && (!d.IsDir() || strings.Count(rel, "/") > 1) {
			names = append(names, rel)
		}
		return err
	}))
	return names
}

// wantNothing wants no trace of any placement.
func (l *lake) wantNothing(t tb) {
	t.Helper()
	if names := l.left(t); len(names) > 0 {
		t.Fatalf("left: %q", names)
	}
}

// lakes are the home and one site, named "b".
type lakes struct {
	home, site store.Store
	gone       error
}

func (s *lakes) Home() store.Store { return s.home }

func (s *lakes) Site(_ context.Context, name string) (store.Store, error) {
	if name != "b" || s.gone != nil {
		return nil, &controller.Error{Reason: plan.ReasonSite, Err: fmt.Errorf("site %s: %w", name, errors.Join(s.gone, store.ErrUnavailable))}
	}
	return s.site, nil
}

// world is a checkpoint at home and a site to copy it to.
type world struct {
	tb
	ctx        context.Context
	home, site *lake
	stores     *lakes
	key        catalogue.Key
	mk         *Maker
	clock      *leap
	next       plan.ID
}

// tiny sizes have files of a kilobyte sent in pieces.
var tiny = sizes{small: 1 << 10, batch: 4 << 10, least: 1 << 9, most: 1 << 11, asked: 1}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{tb: t, ctx: t.Context(), home: newLake(t), site: newLake(t), clock: &leap{}, next: 1}
	w.key = newKey(t, t.TempDir())
	w.restart()
	return w
}

func newKey(t tb, folder string) catalogue.Key {
	t.Helper()
	file := filepath.Join(folder, "catalogue.key")
	must(t, catalogue.GenerateKeyFile(file, "test"))
	key, err := catalogue.LoadKey(file)
	must(t, err)
	return key
}

// restart makes a new Maker over the same stores.
func (w *world) restart() {
	w.Helper()
	w.stores = &lakes{home: w.home, site: w.site}
	mk, err := New(Options{Controller: "ctl", Stores: w.stores, Key: w.key, Clock: w.clock})
	must(w, err)
	mk.sizes = tiny
	w.mk = mk
}

// placement is one of a checkpoint as it is now.
func (w *world) placement(name string) controller.Placement {
	w.Helper()
	c, err := checkpoint.Open(w.ctx, w.home.Store, name, checkpoint.Options{})
	must(w, err)
	id := w.next
	w.next++
	return controller.Placement{
		Make:  plan.Make{ID: id, Means: plan.Copy, Path: name, Identity: c.Identity(), Site: "b", Job: "job", Why: "a test", Lease: time.Hour, Content: c.Bytes(), Bytes: c.Bytes()},
		Lease: time.Hour,
	}
}

// wantCopy wants the row of a placement, and the checkpoint that it names to be what the original is.
func (w *world) wantCopy(p controller.Placement, made controller.Made) catalogue.Row {
	w.Helper()
	p.Publish = &plan.Publish{ID: p.Make.ID, Means: plan.Copy, Path: p.Make.Path, Site: "b", Lease: time.Hour, Identity: p.Make.Identity}
	must(w, w.mk.Publish(w.ctx, p, controller.Tools{}))
	row, err := catalogue.Resolve(w.ctx, w.site.Store, w.home.Address(p.Make.Path), catalogue.ResolverOptions{Keys: w.key.Keys()})
	must(w, err)
	c, err := checkpoint.Open(w.ctx, w.home.Store, p.Make.Path, checkpoint.Options{})
	must(w, err)
	want, err := c.Digest(w.ctx, checkpoint.ReadOptions{})
	must(w, err)
	at := row.Copy.Place
	if c.Single() {
		at = path.Join(at, c.Files[0].Name)
	}
	d, err := checkpoint.Open(w.ctx, w.site.Store, at, checkpoint.Options{})
	must(w, err)
	got, err := d.Digest(w.ctx, checkpoint.ReadOptions{})
	must(w, err)
	if want.Sum != got.Sum || made.Digest != want.Sum || row.Copy.Digest != want.Sum || row.Identity != p.Make.Identity || len(row.Copy.Files) != len(c.Files) {
		w.Fatalf("%s: digest %s, the copy has %s, Make said %s, the row is %+v", p.Make.Path, want.Sum, got.Sum, made.Digest, row)
	}
	for i, f := range row.Copy.Files {
		if f.Name != c.Files[i].Name || f.Original != c.Files[i].Identity || f.Here != d.Files[i].Identity || f.CRC32C != want.Files[i].CRC32C || f.Size != c.Files[i].Size {
			w.Fatalf("the row says %+v of %+v", f, c.Files[i])
		}
	}
	return row
}

// remove wants a removal to leave nothing.
func (w *world) remove(p controller.Placement) {
	w.Helper()
	must(w, w.mk.Withdraw(w.ctx, p, controller.Tools{}))
	must(w, w.mk.Remove(w.ctx, p, controller.Tools{}))
	must(w, w.mk.Remove(w.ctx, p, controller.Tools{}))
	w.site.wantNothing(w)
}

// reason is that of an error; "" for none.
func reason(err error) plan.Reason {
	var known *controller.Error
	if errors.As(err, &known) {
		return known.Reason
	}
	return ""
}

// leap is a clock that passes in leaps: whoever waits need not.
type leap struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *leap) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *leap) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	fired := make(chan time.Time, 1)
	fired <- time.Time{}
	return fired
}

// noise is n bytes that do not repeat.
func noise(n int, seed uint64) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}

// deepSpeed is a tag's folder, with files small, large and empty.
func deepSpeed() map[string][]byte {
	return map[string][]byte{
		"mp_rank_00_model_states.pt":                  noise(3000, 1),
		"zero_pp_rank_0_mp_rank_00_optim_states.pt":   noise(7777, 2),
		"zero_pp_rank_1_mp_rank_00_optim_states.pt":   noise(700, 3),
		"offloaded_tensors/rank0/a b\n\"c\".tensor":   noise(10, 4),
		"offloaded_tensors/rank1/deeper/empty.tensor": nil,
	}
}
