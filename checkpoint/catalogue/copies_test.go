package catalogue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// world is a checkpoint and its copy at a site.
type world struct {
	home, site         store.Store
	homeRoot, siteRoot string
	files              map[string][]byte
	row                Row
	key                Key
}

const (
	checkpointName = "/runs/step-1"
	placeName      = "/.stepahead/data/c1-7"
)

func newWorld(t *testing.T) *world {
	w := &world{homeRoot: t.TempDir(), siteRoot: t.TempDir(), key: testKey("k1", 1)}
	w.home, w.site = openDir(t, w.homeRoot), openDir(t, w.siteRoot)
	w.files = map[string][]byte{"meta": noise(100, 1), "a/shard0": noise(30_000, 2), "a/shard1": noise(20_000, 3)}
	must(t, PublishKey(t.Context(), w.site, w.key))
	var files []CopyFile
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		storetest.Put(t, w.home, checkpointName+"/"+name, w.files[name])
		storetest.Put(t, w.site, placeName+"/"+name, w.files[name])
		original, err := w.home.Stat(t.Context(), checkpointName+"/"+name)
		must(t, err)
		here, err := w.site.Stat(t.Context(), placeName+"/"+name)
		must(t, err)
		files = append(files, CopyFile{Name: name, Size: original.Size, Original: original.Identity, Here: here.Identity, CRC32C: crcOf(w.files[name])})
	}
	w.row = copyRow(w.home.Address(checkpointName), 7, files...)
	w.row.Copy.Place = placeName
	w.write(t)
	return w
}

func (w *world) write(t *testing.T) {
	t.Helper()
	must(t, Write(t.Context(), w.site, w.key, w.row))
}

// change writes other bytes of the same length into a file in place. The store cannot tell if unnoticed.
func change(t *testing.T, file string, at int, unnoticed bool) {
	t.Helper()
	info, err := os.Stat(file)
	must(t, err)
	data, err := os.ReadFile(file)
	must(t, err)
	data[at] ^= 0xff
	must(t, os.WriteFile(file, data, 0o644))
	changed := info.ModTime().Add(time.Second)
	if unnoticed {
		changed = info.ModTime()
	}
	must(t, os.Chtimes(file, changed, changed))
}

// readAll reads a file in pieces of at most n bytes.
func readAll(ctx context.Context, st store.Store, name string, n int) ([]byte, error) {
	f, err := st.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, f.Size())
	for off := 0; off < len(data); off += n {
		if err := f.ReadRanges(ctx, []store.Range{{Off: int64(off), Buf: data[off:min(off+n, len(data))]}}); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func TestCopy(t *testing.T) {
	w := newWorld(t)
	s := Wrap(w.home, Options{Site: w.site})
	total := int64(0)
	for name, want := range w.files {
		f, err := s.Open(t.Context(), checkpointName+"/"+name)
		must(t, err)
		info, err := s.Stat(t.Context(), checkpointName+"/"+name)
		must(t, err)
		if f.Identity() != info.Identity || f.Size() != info.Size {
			t.Errorf("%s: it is %s of %d bytes, and not the original %+v", name, f.Identity(), f.Size(), info)
		}
		must(t, f.Close())
		wantIs(t, f.Close(), fs.ErrClosed, name)
		for _, piece := range []int{7000, 1 << 20} {
			got, err := readAll(t.Context(), s, checkpointName+"/"+name, piece)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: other bytes, %v", name, err)
			}
			total += int64(len(want))
		}
	}
	if got := s.Stats(); got.CopyBytes != total || got.OriginalBytes != 0 || len(got.Fallbacks) != 0 {
		t.Errorf("%+v, want %d bytes of the copy", got, total)
	}
	// What is no part of a copy costs nothing, and is no fallback.
	storetest.Put(t, w.home, "/runs/step-10/meta", []byte("other"))
	if got := storetest.Get(t, s, "/runs/step-10/meta"); string(got) != "other" || len(s.Stats().Fallbacks) != 0 {
		t.Errorf("%q, %+v", got, s.Stats())
	}
}

// TestCopyOfOneFile: of a checkpoint that is one file, too.
func TestCopyOfOneFile(t *testing.T) {
	w := newWorld(t)
	original, err := w.home.Stat(t.Context(), checkpointName+"/meta")
	must(t, err)
	here, err := w.site.Stat(t.Context(), placeName+"/meta")
	must(t, err)
	must(t, Withdraw(t.Context(), w.site, NameOf(w.row.Path), "c1", 7))
	w.row = copyRow(w.home.Address(original.Name), 8, CopyFile{Name: "meta", Size: 100, Original: original.Identity, Here: here.Identity, CRC32C: crcOf(w.files["meta"])})
	w.row.Copy.Place = placeName
	w.write(t)
	s := Wrap(w.home, Options{Site: w.site})
	if got := storetest.Get(t, s, original.Name); !bytes.Equal(got, w.files["meta"]) || s.Stats().CopyBytes != 100 {
		t.Errorf("%+v", s.Stats())
	}
}

// doubts are what can be wrong with a copy of a/shard0. After each the original's bytes are read, whatever they are by then.
var doubts = []struct {
	name    string
	do      func(t *testing.T, w *world)
	reason  string
	damaged bool
}{
	{"the original was overwritten", func(t *testing.T, w *world) {
		w.files["a/shard0"] = noise(30_000, 99)
		must(t, store.ReplaceFile(t.Context(), w.home, checkpointName+"/a/shard0", w.files["a/shard0"]))
	}, ReasonChanged, false},
	{"the original grew", func(t *testing.T, w *world) {
		w.files["a/shard0"] = noise(30_001, 99)
		must(t, store.ReplaceFile(t.Context(), w.home, checkpointName+"/a/shard0", w.files["a/shard0"]))
	}, ReasonChanged, false},
	{"the copy was written to", func(t *testing.T, w *world) { change(t, w.siteRoot+placeName+"/a/shard0", 5, false) }, ReasonOther, true},
	{"a disk of the copy rots", func(t *testing.T, w *world) { change(t, w.siteRoot+placeName+"/a/shard0", 5, true) }, ReasonCorrupt, true},
	{"the last byte of the copy is wrong", func(t *testing.T, w *world) { change(t, w.siteRoot+placeName+"/a/shard0", 29_999, true) }, ReasonCorrupt, true},
	{"the copy is shorter", func(t *testing.T, w *world) { must(t, os.Truncate(w.siteRoot+placeName+"/a/shard0", 100)) }, ReasonOther, true},
	{"the copy is gone", func(t *testing.T, w *world) { must(t, w.site.Remove(t.Context(), placeName+"/a/shard0")) }, ReasonMissing, true},
	{"a read of the copy fails", func(_ *testing.T, w *world) {
		w.site = faulty(w.site, store.Fault{Kind: "fail", Op: "read", Path: "shard0", Nth: 1})
	}, ReasonRead, false},
	{"a read of the copy breaks off", func(_ *testing.T, w *world) {
		w.site = faulty(w.site, store.Fault{Kind: "short", Op: "read", Path: "shard0", Nth: 1})
	}, ReasonRead, false},
	{"the copy is deleted while it is read", func(_ *testing.T, w *world) {
		w.site = faulty(w.site, store.Fault{Kind: "fail", Op: "read", Path: "shard0", Nth: 1, Err: "not-found"})
	}, ReasonMissing, true},
	{"all replicas of the copy are corrupt", func(_ *testing.T, w *world) {
		w.site = faulty(w.site, store.Fault{Kind: "fail", Op: "read", Path: "shard0", Nth: 1, Err: "corrupt"})
	}, ReasonCorrupt, true},
	{"nobody may read the copy", func(_ *testing.T, w *world) {
		w.site = faulty(w.site, store.Fault{Kind: "fail", Op: "open", Path: "shard0", Err: "permission"})
	}, ReasonRead, false},
	{"the site is dead", func(_ *testing.T, w *world) { w.site = faulty(w.site, store.Fault{Kind: "fail"}) }, ReasonSite, false},
	{"the row cannot be read", func(_ *testing.T, w *world) {
		w.site = faulty(w.site, store.Fault{Kind: "fail", Op: "open", Path: "*.json"})
	}, ReasonSite, false},
	{"the row has expired", func(t *testing.T, w *world) { written(t, w.siteRoot, w.site, w.row.Path, 2*time.Hour) }, ReasonExpired, false},
	{"the row is forged", func(t *testing.T, w *world) { w.key = testKey("k1", 2); w.write(t) }, ReasonSignature, false},
	{"the key is unknown", func(t *testing.T, w *world) { w.key = testKey("k2", 2); w.write(t) }, ReasonSignature, false},
	{"the key belongs to somebody", func(_ *testing.T, w *world) {
		w.site = owned{w.site, map[string]string{"/": "root", "/.stepahead": "root", Folder: "root", KeyFolder: "root", KeyFolder + "/k1.pub": "eve"}}
	}, ReasonSignature, false},
	{"the row is torn", func(t *testing.T, w *world) {
		must(t, os.Truncate(filepath.Join(w.siteRoot, Folder, NameOf(w.row.Path)), 100))
	}, ReasonRow, false},
	{"the copy does not have the file", func(t *testing.T, w *world) {
		w.row.Copy.Files = slices.DeleteFunc(w.row.Copy.Files, func(f CopyFile) bool { return f.Name == "a/shard0" })
		w.write(t)
	}, ReasonUnknown, false},
}

func faulty(st store.Store, f store.Fault) store.Store { return store.Faults(st, []store.Fault{f}) }

func TestDoubts(t *testing.T) {
	for _, d := range doubts {
		t.Run(d.name, func(t *testing.T) {
			w := newWorld(t)
			site := w.site
			d.do(t, w)
			logs, lines := observer.New(zap.InfoLevel)
			var told []Damage
			s := Wrap(w.home, Options{Site: w.site, Log: zap.New(logs), Report: func(d Damage) { told = append(told, d) }})
			for range 3 {
				got, err := readAll(t.Context(), s, checkpointName+"/a/shard0", 1<<20)
				if err != nil || !bytes.Equal(got, w.files["a/shard0"]) {
					t.Fatalf("other bytes than the original's: %v", err)
				}
			}
			stats := s.Stats()
			if stats.Fallbacks[d.reason] == 0 || stats.CopyBytes > 30_000 { // read once, and found to be wrong
				t.Errorf("%+v", stats)
			}
			if n := lines.FilterField(zap.String("reason", d.reason)).Len(); n != 1 {
				t.Errorf("it is said %d times", n)
			}
			found, err := ReadDamages(t.Context(), site)
			must(t, err)
			if (len(found) == 1) != d.damaged || (len(told) == 1) != d.damaged {
				t.Errorf("reported: %v, told: %v", found, told)
			}
			if d.damaged && (found[0].Placement != 7 || found[0].Controller != "c1" || !strings.HasSuffix(found[0].File, "shard0") || found[0].Detail == "") {
				t.Errorf("%+v", found[0])
			}
		})
	}
}

// TestOriginalGone: a copy never outlives its original.
func TestOriginalGone(t *testing.T) {
	w := newWorld(t)
	must(t, w.home.Remove(t.Context(), checkpointName+"/meta"))
	_, err := Wrap(w.home, Options{Site: w.site}).Open(t.Context(), checkpointName+"/meta")
	wantIs(t, err, fs.ErrNotExist, checkpointName+"/meta")
}

// TestWrongBytesInPieces: of a file that is read in pieces and has a wrong byte, no reader is left with it unknowing.
func TestWrongBytesInPieces(t *testing.T) {
	const piece = 10_000
	for _, c := range []struct {
		name  string
		at    int
		order []int
		want  bool // the reader cannot be spared
	}{
		{"in the last piece", 29_000, []int{0, 1, 2}, false},
		{"in the last piece that is read", 5, []int{2, 1, 0}, false},
		{"in the first piece", 5, []int{0, 1, 2}, true},
		{"in the second piece", 15_000, []int{2, 1, 0}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			change(t, w.siteRoot+placeName+"/a/shard0", c.at, true)
			s := Wrap(w.home, Options{Site: w.site})
			f, err := s.Open(t.Context(), checkpointName+"/a/shard0")
			must(t, err)
			defer f.Close()
			got := make([]byte, f.Size())
			read := func(i int) error {
				return f.ReadRanges(t.Context(), []store.Range{{Off: int64(i * piece), Buf: got[i*piece : (i+1)*piece]}})
			}
			for k, i := range c.order {
				err = read(i)
				if k < 2 {
					must(t, err)
				}
			}
			if c.want {
				wantIs(t, err, store.ErrCorrupt, "open the file again")
				for i := range 3 {
					must(t, read(i)) // the original by now
				}
			} else {
				must(t, err)
			}
			if !bytes.Equal(got, w.files["a/shard0"]) {
				t.Error("wrong bytes")
			}
			if found, err := ReadDamages(t.Context(), w.site); err != nil || len(found) != 1 {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}

// TestRowWithWrongSum: the sum is wrong and the copy is right: nobody fails.
func TestRowWithWrongSum(t *testing.T) {
	w := newWorld(t)
	for i := range w.row.Copy.Files {
		w.row.Copy.Files[i].CRC32C++
	}
	w.write(t)
	got, err := readAll(t.Context(), Wrap(w.home, Options{Site: w.site}), checkpointName+"/a/shard0", 1000)
	if err != nil || !bytes.Equal(got, w.files["a/shard0"]) {
		t.Errorf("%v", err)
	}
}

// TestSuspended: a copy that failed is tried again after a while.
func TestSuspended(t *testing.T) {
	w := newWorld(t)
	now := &clock{}
	s := Wrap(w.home, Options{Site: faulty(w.site, store.Fault{Kind: "fail", Op: "read", Path: "meta", Nth: 1}), Now: now.read})
	for _, want := range []int64{0, 0, 100} {
		storetest.Get(t, s, checkpointName+"/meta")
		if got := s.Stats().CopyBytes; got != want {
			t.Errorf("%d bytes of the copy, want %d", got, want)
		}
		if want == 0 && s.Stats().Fallbacks[ReasonSuspended] == 1 {
			now.now += suspendedFor
		}
	}
}

// TestPastExpiry: a file that is open when the row expires is read to its end, and one that is opened later is the original.
func TestPastExpiry(t *testing.T) {
	w := newWorld(t)
	now := &clock{}
	w.row.TTL = 10 * time.Second
	w.write(t)
	s := Wrap(w.home, Options{Site: w.site, Now: now.read})
	f, err := s.Open(t.Context(), checkpointName+"/meta")
	must(t, err)
	defer f.Close()
	now.now += 11 * time.Second
	buf := make([]byte, 100)
	must(t, f.ReadRanges(t.Context(), []store.Range{{Buf: buf}}))
	storetest.Get(t, s, checkpointName+"/a/shard1")
	if got := s.Stats(); got.CopyBytes != 100 || got.Fallbacks[ReasonExpired] != 1 {
		t.Errorf("%+v", got)
	}
}

// asleep is a store whose calls of some kinds do not come back before their context ends.
type asleep struct {
	store.Store
	list, open, read bool
}

func wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (a asleep) List(ctx context.Context, name string) ([]store.Info, error) {
	if a.list {
		return nil, wait(ctx)
	}
	return a.Store.List(ctx, name)
}

func (a asleep) Open(ctx context.Context, name string) (store.File, error) {
	data := strings.HasPrefix(name, placeName)
	if a.open && data {
		return nil, wait(ctx)
	}
	f, err := a.Store.Open(ctx, name)
	if err == nil && a.read && data {
		return sleeping{f}, nil
	}
	return f, err
}

type sleeping struct{ store.File }

func (sleeping) ReadRanges(ctx context.Context, _ []store.Range) error { return wait(ctx) }

// TestSiteAsleep: a site that takes a call and never answers costs a bounded time, once.
func TestSiteAsleep(t *testing.T) {
	for name, a := range map[string]asleep{"list": {list: true}, "open": {open: true}, "read": {read: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			synctest.Test(t, func(t *testing.T) {
				a.Store = w.site
				s, start := Wrap(w.home, Options{Site: a}), time.Now()
				for range 5 {
					for file, want := range w.files {
						if got := storetest.Get(t, s, checkpointName+"/"+file); !bytes.Equal(got, want) {
							t.Error("other bytes")
						}
					}
				}
				if took := time.Since(start); took > patience+time.Second {
					t.Errorf("it took %v", took)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_, err := Wrap(w.home, Options{Site: a}).Open(ctx, checkpointName+"/meta")
				wantIs(t, err, context.Canceled, "")
			})
		})
	}
}

// TestGivenUp: a reader who gives up says nothing about the copy.
func TestGivenUp(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		s := Wrap(w.home, Options{Site: asleep{Store: w.site, read: true}})
		f := storetest.Open(t, s, checkpointName+"/meta")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantIs(t, f.ReadRanges(ctx, []store.Range{{Buf: make([]byte, 5)}}), context.DeadlineExceeded, "")
		if got := s.Stats(); len(got.Fallbacks) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestManyFiles: reads of many files at once, with some of a copy, some not, and some that fail.
func TestManyFiles(t *testing.T) {
	w := newWorld(t)
	storetest.Put(t, w.home, "/other", []byte("0123456789"))
	s := Wrap(w.home, Options{Site: w.site})
	names := []string{"/other", checkpointName + "/meta", checkpointName + "/a/shard0", "/other"}
	must(t, s.Prefetch(t.Context(), names))
	var files []store.FileRanges
	for _, name := range names {
		f := storetest.Open(t, s, name)
		files = append(files, store.FileRanges{File: f, Ranges: []store.Range{{Off: 4, Buf: make([]byte, 3)}}})
	}
	files[3].Ranges[0].Off = 9
	must(t, store.ReadMany(t.Context(), s, files))
	s.Forget(names)
	for i, want := range []string{"456", string(w.files["meta"][4:7]), string(w.files["a/shard0"][4:7])} {
		if files[i].Err != nil || string(files[i].Ranges[0].Buf) != want {
			t.Errorf("%s: %q, %v", names[i], files[i].Ranges[0].Buf, files[i].Err)
		}
	}
	wantIs(t, files[3].Err, store.ErrRange, "/other")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantIs(t, store.ReadMany(ctx, s, files), context.Canceled, "")
}

// TestIsAStore: whatever is asked of a store is answered as the store below answers it.
func TestIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return Wrap(openDir(t, t.TempDir()), Options{Site: newWorld(t).site, Of: 1})
	})
}

// TestNothingIsAsked: without a catalogue a reader costs a store one look a minute.
func TestNothingIsAsked(t *testing.T) {
	st := &switched{Store: openDir(t, t.TempDir())}
	st.inner = st.Store
	for i := range 10 {
		storetest.Put(t, st, fmt.Sprint("/f", i), []byte("x"))
	}
	s := Wrap(st, Options{Of: 2, Index: 1})
	for i := range 10 {
		storetest.Get(t, s, fmt.Sprint("/f", i))
	}
	if st.lists != 1 {
		t.Errorf("the store was asked %d times", st.lists)
	}
	off := Wrap(st, Options{})
	storetest.Get(t, off, "/f1")
	if st.lists != 1 {
		t.Error("a reader that shall look nowhere looked")
	}
}

// bare is a store that can do nothing beyond store.Store.
type bare struct{ store.Store }

func TestOptional(t *testing.T) {
	s := Wrap(bare{openDir(t, t.TempDir())}, Options{})
	_, claim := s.Claim(t.Context(), "/x")
	_, parts := s.CreateParts(t.Context(), "/x")
	_, _, attribute := s.Attribute(t.Context(), "/x", "stepahead.a")
	_, policy := s.StoragePolicy(t.Context(), "/x")
	_, placed := s.CreatePlaced(t.Context(), "/x", store.Placement{})
	_, access := s.Access(t.Context(), "/x")
	_, nodes := s.Nodes(t.Context())
	for i, err := range []error{
		claim, parts, attribute, policy, placed, access, nodes, s.MakeFolder(t.Context(), "/x"), s.SetReplication(t.Context(), "/x", 2), s.SetAttribute(t.Context(), "/x", "stepahead.a", nil),
		s.SetStoragePolicy(t.Context(), "/x", "COLD"), s.Protect(t.Context(), "/x", store.Access{}),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%d: %v", i, err)
		}
	}
	must(t, s.Replace(t.Context(), "/x", []byte("1")))
	must(t, s.Replace(t.Context(), "/x", []byte("2")))
	if got := storetest.Get(t, s, "/x"); string(got) != "2" {
		t.Errorf("%q", got)
	}
	if s.BlockSize() != 0 || s.ReadStats().Asked != 0 || path.Base(s.Address("/x")) != "x" {
		t.Error("other answers")
	}
}
