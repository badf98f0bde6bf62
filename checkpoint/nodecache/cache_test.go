package nodecache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/checkpoint/ranges"
	"github.com/stepahead-io/stepahead/store"
)

func open(t testing.TB, o Options) *Cache {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "shared")
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func keyOf(off, n int64) Key {
	return Key{Store: "hdfs://c", Name: "/f", Identity: "7", Off: off, Len: n}
}

// read reads a key in pieces, and returns how many fills that took.
func read(t testing.TB, c *Cache, k Key) (fills int) {
	t.Helper()
	got := make([]byte, k.Len)
	cut := k.Len / 3
	err := c.Read(t.Context(), k, [][]byte{got[:cut], got[cut:cut], got[cut:]}, func(context.Context) error {
		fills++
		copy(got, contentOf(k))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if !bytes.Equal(got, contentOf(k)) {
		t.Errorf("%+v: wrong bytes", k)
	}
	return fills
}

func TestReadOnce(t *testing.T) {
	c := open(t, Options{})
	for _, n := range []int64{1, 2, 1000, 3 * piece} {
		for i := range 3 {
			if fills := read(t, c, keyOf(n, n)); (fills == 1) != (i == 0) {
				t.Errorf("%d bytes, time %d: %d fills", n, i, fills)
			}
		}
	}
	other := open(t, Options{Dir: c.o.Dir})
	if read(t, other, keyOf(1000, 1000)) != 0 {
		t.Error("another Cache of the folder read again")
	}
	if s := c.Stats(); s.Read != 1003+3*piece || s.Shared != 2*s.Read || s.Unshared != 0 {
		t.Errorf("%+v", s)
	}
}

// Whatever differs in a key is another entry.
func TestKeysDiffer(t *testing.T) {
	c := open(t, Options{})
	a := keyOf(5, 100)
	keys := []Key{a}
	for _, change := range []func(*Key){
		func(k *Key) { k.Store = "hdfs://d" }, func(k *Key) { k.Name = "/g" }, func(k *Key) { k.Identity = "8" },
		func(k *Key) { k.Off++ }, func(k *Key) { k.Len++ }, func(k *Key) { k.Store, k.Name = "hdfs://c/", "f" },
	} {
		k := a
		change(&k)
		keys = append(keys, k)
	}
	for _, k := range keys {
		if read(t, c, k) != 1 {
			t.Errorf("%+v is taken for another one", k)
		}
	}
}

// What cannot be shared is read by each.
func TestAlone(t *testing.T) {
	c := open(t, Options{MaxBytes: 1000})
	nameless, large := keyOf(0, 10), keyOf(0, 1000)
	nameless.Identity = ""
	for range 2 {
		if read(t, c, nameless) != 1 || read(t, c, large) != 1 {
			t.Error("shared")
		}
	}
	if s := c.Stats(); s.Alone["identity"] != 20 || s.Alone["size"] != 2000 {
		t.Errorf("%+v", s)
	}
	k := keyOf(0, 10)
	if err := c.Read(t.Context(), k, [][]byte{make([]byte, 9)}, func(context.Context) error { return nil }); err != nil || c.Stats().Alone["size"] != 2010 {
		t.Errorf("memory of another length: %v, %+v", err, c.Stats())
	}
}

// A damaged entry is never given out: it is read again, and replaced.
func TestDamagedEntry(t *testing.T) {
	k := keyOf(0, 100_000)
	for name, harm := range map[string]func(path string, data []byte) error{
		"a wrong byte": func(path string, data []byte) error {
			data[headerSize+777] ^= 1
			return os.WriteFile(path, data, 0o600)
		},
		"a wrong checksum":     func(path string, data []byte) error { data[50] ^= 1; return os.WriteFile(path, data, 0o600) },
		"another key's digest": func(path string, data []byte) error { data[10] ^= 1; return os.WriteFile(path, data, 0o600) },
		"not ours":             func(path string, data []byte) error { data[0] ^= 1; return os.WriteFile(path, data, 0o600) },
		"cut":                  func(path string, data []byte) error { return os.Truncate(path, int64(len(data)-1)) },
		"cut in the header":    func(path string, _ []byte) error { return os.Truncate(path, 40) },
		"empty":                func(path string, _ []byte) error { return os.Truncate(path, 0) },
		"too long":             func(path string, data []byte) error { return os.WriteFile(path, append(data, 0), 0o600) },
	} {
		c := open(t, Options{})
		read(t, c, k)
		path := filepath.Join(c.o.Dir, k.id()+entrySuffix)
		data, err := os.ReadFile(path)
		if err == nil {
			err = harm(path, data)
		}
		if err != nil {
			t.Fatal(err)
		}
		if read(t, c, k) != 1 || read(t, c, k) != 0 {
			t.Errorf("%s: not read again once", name)
		}
	}
}

// What others could have put into the folder is refused, and read around.
func TestHostileFiles(t *testing.T) {
	k := keyOf(0, 1000)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("do not touch"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{entrySuffix, lockSuffix} {
		for name, put := range map[string]func(path string) error{
			"a link out":        func(path string) error { return os.Symlink(outside, path) },
			"a link to nowhere": func(path string) error { return os.Symlink("/nowhere/at/all", path) },
			"a link inside":     func(path string) error { return os.Symlink(usersName, path) },
			"a pipe":            func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"a folder":          func(path string) error { return os.Mkdir(path, 0o700) },
			"a second name":     func(path string) error { return os.Link(outside, path) },
			"readable for all":  func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o644)) },
		} {
			c := open(t, Options{})
			if err := put(filepath.Join(c.o.Dir, k.id()+suffix)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if read(t, c, k) != 1 {
					t.Errorf("%s as %s: not read", name, suffix)
				}
			}
			if s := c.Stats(); s.Alone["error"] != 2000 {
				t.Errorf("%s as %s: %+v", name, suffix, s)
			}
		}
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "do not touch" {
		t.Errorf("a file outside: %q, %v", data, err)
	}
}

func TestHostileFolders(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"open to others": func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o750)) },
		"a link":         func(path string) error { return os.Symlink(t.TempDir(), path) },
		"a file":         func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"another user's": func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 12345, -1)) },
	} {
		path := filepath.Join(t.TempDir(), "shared")
		if err := put(path); errors.Is(err, os.ErrPermission) {
			continue // only root gives files away
		} else if err != nil {
			t.Fatal(err)
		}
		if c, err := Open(Options{Dir: path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
			if c != nil {
				c.Close()
			}
		}
	}
	if _, err := Open(Options{Dir: filepath.Join(t.TempDir(), "not", "there")}); err == nil {
		t.Error("a folder in no folder was made")
	}
}

// The folder never holds more than MaxBytes; what was asked for last stays.
func TestSizeIsBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		c := open(t, Options{Dir: filepath.Join(dir, "shared"), MaxBytes: 10_000})
		for i, n := range rapid.SliceOfN(rapid.Int64Range(1, 6000), 1, 20).Draw(rt, "sizes") {
			k := keyOf(int64(i), n)
			if read(t, c, k) != 1 || read(t, c, k) != 0 {
				rt.Fatalf("%d bytes were not kept", n)
			}
			infos, err := c.folder.list()
			if err != nil {
				rt.Fatal(err)
			}
			var total int64
			for _, info := range infos {
				total += info.Size()
			}
			if total > 10_000 {
				rt.Fatalf("%d bytes in the folder", total)
			}
		}
	})
}

// An entry goes when nobody has asked for it for the time of its lease, and no sooner.
func TestLease(t *testing.T) {
	c := open(t, Options{Lease: time.Minute})
	for off := range int64(3) {
		read(t, c, keyOf(off, 100))
	}
	age := func(off int64, by time.Duration) {
		then := time.Now().Add(-by)
		if err := os.Chtimes(filepath.Join(c.o.Dir, keyOf(off, 100).id()+entrySuffix), then, then); err != nil {
			t.Fatal(err)
		}
	}
	age(0, 50*time.Second)
	age(1, 50*time.Second)
	age(2, 61*time.Second)
	read(t, c, keyOf(0, 100)) // renews it
	if err := c.Sweep(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(c.o.Dir, keyOf(0, 100).id()+entrySuffix))
	if err != nil || time.Since(info.ModTime()) > 10*time.Second {
		t.Errorf("what was asked for was not renewed: %v", err)
	}
	for off, fills := range []int{0, 0, 1} {
		if got := read(t, c, keyOf(int64(off), 100)); got != fills {
			t.Errorf("entry %d: %d fills, want %d", off, got, fills)
		}
	}
}

// Where there is no room nobody waits for what cannot be copied.
func TestNoRoom(t *testing.T) {
	c := open(t, Options{MaxBytes: 2000})
	draft, _, err := c.folder.draft(entry{id: keyOf(9, 1500).id(), size: 1500}, c.o) // another process writes
	if err != nil {
		t.Fatal(err)
	}
	defer draft.Close()
	for range 3 {
		if read(t, c, keyOf(0, 1000)) != 1 {
			t.Error("shared")
		}
	}
	if s := c.Stats(); s.Read != 1000 || s.Unshared != 1000 || s.Alone["room"] != 2000 {
		t.Errorf("%+v", s)
	}
	other := open(t, Options{Dir: c.o.Dir, MaxBytes: 3000})
	if read(t, other, keyOf(0, 1000)) != 1 || read(t, other, keyOf(0, 1000)) != 0 {
		t.Error("with room: not shared")
	}
}

// When reading fails for one it fails for all, and nobody waits for each of the others.
func TestFillFails(t *testing.T) {
	c := open(t, Options{})
	const takes = 100 * time.Millisecond
	broken := errors.New("broken")
	start := time.Now()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			err := c.Read(t.Context(), keyOf(0, 10), [][]byte{make([]byte, 10)}, func(ctx context.Context) error {
				return errors.Join(broken, store.Sleep(ctx, takes))
			})
			if !errors.Is(err, broken) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took := time.Since(start); took > 12*takes {
		t.Errorf("16 readers took %v for a failure of %v", took, takes)
	}
	if read(t, c, keyOf(0, 10)) != 1 || read(t, c, keyOf(0, 10)) != 0 {
		t.Error("a failure was kept, or what followed was not")
	}
}

// A wait ends with its context, and with Options.Wait where the one who reads takes too long.
func TestWaitIsBounded(t *testing.T) {
	c := open(t, Options{Wait: 200 * time.Millisecond})
	release, begun := make(chan struct{}), make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		_ = c.Read(t.Context(), keyOf(0, 10), [][]byte{make([]byte, 10)}, func(context.Context) error {
			close(begun)
			<-release
			return nil
		})
	})
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := c.Read(ctx, keyOf(0, 10), [][]byte{make([]byte, 10)}, func(context.Context) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if read(t, c, keyOf(0, 10)) != 1 || c.Stats().Alone["wait"] != 10 {
		t.Errorf("%+v", c.Stats())
	}
	close(release)
	reader.Wait()
}

func TestOptions(t *testing.T) {
	for _, bad := range []Options{{MaxBytes: -1}, {Lease: -1}, {Stale: -1}, {Wait: -1}} {
		if _, err := Open(bad); err == nil {
			t.Errorf("%+v is valid", bad)
		}
	}
	if err := (Options{}).Validate(); err != nil || !strings.HasPrefix(DefaultDir(), "/dev/shm/stepahead-") {
		t.Error(err)
	}
}

// counting counts what is read of a file.
type counting struct {
	store.File
	data []byte
	read atomic.Int64
}

func (c *counting) Size() int64              { return int64(len(c.data)) }
func (c *counting) Identity() store.Identity { return "1" }

func (c *counting) ReadRanges(ctx context.Context, r []store.Range) error {
	for _, x := range r {
		copy(x.Buf, c.data[x.Off:])
		c.read.Add(int64(len(x.Buf)))
	}
	return store.Sleep(ctx, 5*time.Millisecond)
}

// Thirty-two ranks that load the same tensors by the same plan read about one copy of the bytes together.
func TestRanksShareAPlan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shared")
	k := Key{Len: 4 << 20}
	inner := &counting{data: contentOf(k)}
	var wanted int64
	var all sync.WaitGroup
	for rank := range 32 {
		c := open(t, Options{Dir: dir})
		f := ranges.File{Name: "/f", File: c.File("s", "/f", inner)}
		var wants []ranges.Want
		for off := int64(0); off+20_000 < k.Len; off += 20_000 {
			wants = append(wants, ranges.Want{Off: off, Dst: make([]byte, 15_000)})
		}
		if rank == 0 {
			wanted = wants[len(wants)-1].Off + 15_000
		}
		all.Go(func() {
			limits := ranges.Limits{MinRead: 256 << 10, MaxRead: 1 << 20, Memory: 4 << 20}
			if _, err := ranges.Read(t.Context(), []ranges.File{f}, wants, ranges.Options{Limits: limits}); err != nil {
				t.Error(err)
			}
			for _, w := range wants {
				if !bytes.Equal(w.Dst, inner.data[w.Off:w.Off+15_000]) {
					t.Errorf("rank %d: wrong bytes at %d", rank, w.Off)
					return
				}
			}
		})
	}
	all.Wait()
	if n := inner.read.Load(); n > wanted*11/10 {
		t.Errorf("%d bytes read for one copy of %d", n, wanted)
	}
}

func TestFile(t *testing.T) {
	c := open(t, Options{})
	inner := &counting{data: contentOf(Key{Len: 1000})}
	f := c.File("s", "/f", inner)
	for i := range 2 {
		got := make([]byte, 500)
		r := []store.Range{{Off: 600, Buf: got[400:500]}, {Off: 0, Buf: got[:100]}, {Off: 200, Buf: got[200:300]}, {Off: 50, Buf: nil}, {Off: 100, Buf: got[100:200]}, {Off: 300, Buf: got[300:400]}}
		if err := f.ReadRanges(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got[:400], inner.data[:400]) || !bytes.Equal(got[400:], inner.data[600:700]) || inner.read.Load() != 500 {
			t.Errorf("time %d: wrong bytes, or %d read", i, inner.read.Load())
		}
	}
	for _, r := range []store.Range{{Off: -1, Buf: make([]byte, 1)}, {Off: 1000, Buf: make([]byte, 1)}} {
		if err := f.ReadRanges(t.Context(), []store.Range{r}); !errors.Is(err, store.ErrRange) {
			t.Errorf("%d: %v", r.Off, err)
		}
	}
	if err := f.ReadRanges(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(c.o.Dir, "*"+entrySuffix)); len(left) != 2 {
		t.Errorf("%d entries, want one for each run of ranges: %s", len(left), fmt.Sprint(left))
	}
}
