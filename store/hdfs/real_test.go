package hdfs_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// blockSize is the clusters' smallest useful one: a file spans many blocks.
const blockSize = 1 << 20

// open opens a store whose root is a folder.
func open(t testing.TB, c *hdfstest.Cluster, root string, o hdfs.Options) *hdfs.Store {
	t.Helper()
	var err error
	if o.Conf == nil {
		if o.Conf, err = conf.Load(c.Getenv); err != nil {
			t.Fatal(err)
		}
	}
	if o.User == "" {
		o.User = hdfstest.User
	}
	o.Root = root
	s, name, err := hdfs.Open(c.URL()+root, o)
	if err != nil || name != "/" {
		t.Fatalf("name %q, %v", name, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// readAt compares a range with what was written.
func readAt(t testing.TB, f store.File, data []byte, off, n int) {
	t.Helper()
	buf := make([]byte, n)
	if err := f.ReadRanges(t.Context(), []store.Range{{Off: int64(off), Buf: buf}}); err != nil {
		t.Errorf("[%d, +%d): %v", off, n, err)
	} else if !bytes.Equal(buf, data[off:off+n]) {
		t.Errorf("[%d, +%d): wrong bytes", off, n)
	}
}

func TestConformance(t *testing.T) {
	c := hdfstest.Shared(t)
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, c, c.Dir(t), hdfs.Options{}) })
}

// Thousands of random ranges, many at a time, are what Hadoop's own client reads; the NameNode is asked when the file is
// opened and not again, and what was not asked for stays a small part of what the DataNodes send.
func TestRealRandomRanges(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	data := hdfstest.Bytes(1, 7*blockSize+777)
	c.Put(root+"/f", data, 3, blockSize)
	if !bytes.Equal(c.Get(root+"/f"), data) {
		t.Fatal("Hadoop's client reads something else")
	}
	s := open(t, c, root, hdfs.Options{})
	f := storetest.Open(t, s, "/f")
	if f.Size() != int64(len(data)) {
		t.Fatalf("size %d, want %d", f.Size(), len(data))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			for range 250 {
				var ranges []store.Range
				for range 1 + r.IntN(4) {
					off := r.IntN(len(data))
					n := min(len(data)-off, 1<<r.IntN(19))
					ranges = append(ranges, store.Range{Off: int64(off), Buf: make([]byte, n)})
				}
				if err := f.ReadRanges(t.Context(), ranges); err != nil {
					t.Error(err)
					return
				}
				for _, x := range ranges {
					if !bytes.Equal(x.Buf, data[x.Off:x.Off+int64(len(x.Buf))]) {
						t.Errorf("[%d, +%d): wrong bytes", x.Off, len(x.Buf))
					}
				}
			}
		})
	}
	wg.Wait()
	st := s.ReadStats()
	if st.Calls["getFileInfo"] != 1 || st.Calls["getBlockLocations"] != 1 || st.Wire > 2*st.Asked || st.Connections > st.Reused/10 {
		t.Errorf("%+v", st)
	}
}

// Every border that a range can meet: of chunks, packets, blocks and the file.
func TestRealBorders(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	data := hdfstest.Bytes(2, 2*blockSize+1)
	c.Put(root+"/f", data, 2, blockSize)
	c.Put(root+"/empty", nil, 3, blockSize)
	s := open(t, c, root, hdfs.Options{})
	f := storetest.Open(t, s, "/f")
	for _, border := range []int{0, 512, 64 << 10, blockSize, 2 * blockSize, len(data)} {
		for _, before := range []int{0, 1, 511, 512, 513} {
			for _, after := range []int{0, 1, 512, 513} {
				if from, to := border-before, border+after; from >= 0 && to <= len(data) {
					readAt(t, f, data, from, to-from)
				}
			}
		}
	}
	readAt(t, f, data, 0, len(data))
	if got := storetest.Get(t, s, "/empty"); len(got) != 0 {
		t.Errorf("an empty file has %d bytes", len(got))
	}
}

func TestRealNames(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	data := []byte("found")
	var want []string
	for _, name := range []string{"spa ce", "%41", "ünï", "a%2Fb", "+&?#=", "日本"} {
		want = append(want, "/"+name)
		c.Put(root+"/"+name, data, 3, blockSize)
	}
	s := open(t, c, root, hdfs.Options{})
	for _, name := range want {
		if got := storetest.Get(t, s, name); !bytes.Equal(got, data) {
			t.Errorf("%s: %q", name, got)
		}
	}
	infos, err := s.List(t.Context(), "/")
	if err != nil || len(infos) != len(want) {
		t.Errorf("%+v, %v", infos, err)
	}
	c.ManyFiles(root+"/many", 2_500)
	infos, err = s.List(t.Context(), "/many")
	if err != nil || len(infos) != 2_500 || infos[2_499].Name != "/many/002499" {
		t.Errorf("%d files, %v", len(infos), err)
	}
	if n := s.ReadStats().Calls["getListing"]; n > 4 {
		t.Errorf("%d listings, want pages of 1,000", n)
	}
}

func TestRealRefusals(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	c.Put(root+"/d/f", []byte("x"), 3, blockSize)
	c.Symlink(root+"/d/f", root+"/link")
	c.Symlink(root+"/d", root+"/folder")
	c.Mkdir(root + "/zone")
	c.EncryptionZone(root + "/zone")
	c.Put(root+"/zone/f", []byte("secret"), 3, blockSize)
	s := open(t, c, root, hdfs.Options{})
	for name, word := range map[string]string{"/link": "link", "/folder/f": "link", "/zone/f": "encryption zone", "/d": "directory", "/d/f/x": ""} {
		_, err := s.Open(t.Context(), name)
		if err == nil || !strings.Contains(err.Error(), word) || store.ClassOf(err) != store.Permanent && name != "/d/f/x" {
			t.Errorf("%s: class %s: %v, want an error about %q", name, store.ClassOf(err), err, word)
		}
	}
	if _, err := s.List(t.Context(), "/d/f"); err == nil {
		t.Error("a file was listed")
	}
	if infos, err := s.List(t.Context(), "/"); err != nil || len(infos) != 4 {
		t.Errorf("%+v, %v", infos, err)
	}
	c.Chmod(root+"/d/f", "", 0o600)
	other := open(t, c, root, hdfs.Options{User: hdfstest.Intruder})
	if _, err := other.Open(t.Context(), "/d/f"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file of somebody else: %v", err)
	}
}

func TestRealSnapshots(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	old := hdfstest.Bytes(4, 2*blockSize)
	c.Put(root+"/f", old, 3, blockSize)
	snapshot := strings.TrimPrefix(c.Snapshot(root, "s1"), root)
	t.Cleanup(func() { c.DeleteSnapshot(root, "s1") })
	s := open(t, c, root, hdfs.Options{})
	f := storetest.Open(t, s, "/f")
	c.Put(root+"/f", hdfstest.Bytes(5, 100), 3, blockSize)
	if got := storetest.Get(t, s, snapshot+"/f"); !bytes.Equal(got, old) {
		t.Error("the snapshot has other bytes")
	}
	readAt(t, f, old, 100, blockSize) // the snapshot keeps its blocks
	if got := storetest.Get(t, s, "/f"); !bytes.Equal(got, hdfstest.Bytes(5, 100)) {
		t.Error("the new file has other bytes")
	}
}

// A file that is being written can be read as far as its writer has flushed, and stays that long for who opened it.
func TestRealFileBeingWritten(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	data := hdfstest.Bytes(6, blockSize+4321)
	c.PutOpen(root+"/f", data, 3, blockSize)
	s := open(t, c, root, hdfs.Options{})
	f := storetest.Open(t, s, "/f")
	if f.Size() != int64(len(data)) {
		t.Errorf("size %d, want %d", f.Size(), len(data))
	}
	if kept := store.StoredOf(f); kept != (store.Stored{Writing: true}) {
		t.Errorf("%+v", kept)
	}
	readAt(t, f, data, 0, int(f.Size()))
	c.CloseFile(root + "/f")
	readAt(t, f, data, 0, int(f.Size()))
	f = storetest.Open(t, s, "/f")
	readAt(t, f, data, 0, len(data))
	if kept := store.StoredOf(f); kept != (store.Stored{}) {
		t.Errorf("when it is written: %+v", kept)
	}
}

// Overwriting, appending and removing under an open file: its own bytes, or an error that names what is there now.
func TestRealChanges(t *testing.T) {
	c := hdfstest.Shared(t)
	old := hdfstest.Bytes(7, 2*blockSize)
	for what, change := range map[string]func(path string){
		"overwritten": func(path string) { c.Put(path, hdfstest.Bytes(8, 2*blockSize), 3, blockSize) },
		"recreated":   func(path string) { c.Delete(path); c.Put(path, hdfstest.Bytes(9, 2*blockSize), 3, blockSize) },
		"removed":     func(path string) { c.Delete(path) },
		"appended":    func(path string) { c.Append(path, []byte("more")) },
		"renamed":     func(path string) { c.Rename(path, path+"2") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // DataNodes take their time
			root := c.Dir(t)
			c.Put(root+"/f", old, 3, blockSize)
			s := open(t, c, root, hdfs.Options{})
			f := storetest.Open(t, s, "/f")
			change(root + "/f")
			deadline := time.Now().Add(20 * time.Second)
			for {
				buf := make([]byte, len(old))
				err := f.ReadRanges(t.Context(), []store.Range{{Buf: buf}})
				if err == nil && !bytes.Equal(buf, old) {
					t.Fatal("a mixture")
				}
				if err != nil {
					wantChange(t, what, f, err)
					return
				}
				if what == "appended" || what == "renamed" || time.Now().After(deadline) {
					return // DataNodes delete old blocks when they come to it
				}
			}
		})
	}
}

func wantChange(t *testing.T, what string, f store.File, err error) {
	t.Helper()
	var changed *store.IdentityError
	switch {
	case what == "removed":
		if store.ClassOf(err) != store.NotFound {
			t.Errorf("class %s: %v", store.ClassOf(err), err)
		}
	case !errors.As(err, &changed) || changed.Pinned != f.Identity() || changed.Now == "" || changed.Now == changed.Pinned:
		t.Errorf("class %s: %v", store.ClassOf(err), err)
	}
}

// Striped files: exact ranges, also when a node is gone and its cells must be decoded.
func TestRealErasureCoded(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	c.ErasureCode(root, "XOR-2-1-1024k")
	data := hdfstest.Bytes(12, 5<<20+12345)
	c.Put(root+"/f", data, 1, 2<<20)
	s := open(t, c, root, hdfs.Options{})
	f := storetest.Open(t, s, "/f")
	if kept := store.StoredOf(f); kept != (store.Stored{ErasureCoded: true}) {
		t.Errorf("%+v", kept)
	}
	r := rand.New(rand.NewPCG(2, 2))
	some := func() {
		readAt(t, f, data, 0, len(data))
		for range 30 {
			off := r.IntN(len(data))
			readAt(t, f, data, off, min(len(data)-off, 1<<r.IntN(22)))
		}
	}
	some()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c.Kill(1)
	t.Cleanup(func() { c.Restart(1, true) })
	buf := make([]byte, len(data))
	if err := f.ReadRanges(ctx, []store.Range{{Buf: buf}}); err != nil || !bytes.Equal(buf, data) {
		t.Fatalf("without a node: %v", err)
	}
	some()
}

// 64 reads in flight need little memory beside the buffers that they fill.
func TestRealMemory(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	data := hdfstest.Bytes(13, 16*blockSize)
	c.Put(root+"/f", data, 3, blockSize)
	s := open(t, c, root, hdfs.Options{MaxNodeReads: 64})
	f := storetest.Open(t, s, "/f")
	var buffers [64][]byte
	for i := range buffers {
		buffers[i] = make([]byte, blockSize)
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	for i, buf := range buffers {
		wg.Go(func() {
			for round := range 4 {
				off := int64((i+round)%16) * blockSize
				if err := f.ReadRanges(t.Context(), []store.Range{{Off: off, Buf: buf}}); err != nil || !bytes.Equal(buf, data[off:off+blockSize]) {
					t.Errorf("reader %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys+after.StackSys) - int64(before.HeapSys+before.StackSys); grown > 64<<20 {
		t.Errorf("%d MiB more for 64 reads in flight, want at most 64", grown>>20)
	} else {
		t.Logf("%d MiB more for 64 reads in flight", grown>>20)
	}
}
