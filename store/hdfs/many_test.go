package hdfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

func TestNameNodeIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		for range 10 {
			c.wantAll(t, f)
		}
		if a, b := c.called("getFileInfo"), c.called("getBlockLocations"); a != 1 || b != 1 {
			t.Errorf("%d getFileInfo and %d getBlockLocations for one file, want 1 and 1", a, b)
		}
		c.wantAll(t, c.open(t))
		if a, b := c.called("getFileInfo"), c.called("getBlockLocations"); a != 2 || b != 1 {
			t.Errorf("opened again: %d getFileInfo and %d getBlockLocations, want 2 and 1", a, b)
		}
	})
}

func TestPrefetch(t *testing.T) {
	for _, tokens := range []int{0, 1} {
		bubble(t, fmt.Sprint("tokens ", tokens), func(t *testing.T) {
			c := newScene(t, Options{})
			c.tokens = tokens
			c.s.tokens.Store(tokens > 0)
			var names []string
			for i := range 30 {
				names = append(names, fmt.Sprintf("/d/f%02d", i))
				c.put(names[i], c.data, testBlock, 3)
				c.put(names[i]+"-other", c.data, testBlock, 3)
			}
			names = append(names, "/d/missing", "/d/f99", "/nowhere/x")
			if err := c.s.Prefetch(t.Context(), names); err != nil {
				t.Fatal(err)
			}
			if n := c.called("getListing"); tokens == 0 && n > 8 {
				t.Errorf("%d listings for 60 files, 10 a page", n)
			}
			clear(c.calls)
			for _, name := range names[:30] {
				f, err := c.s.Open(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				c.wantAll(t, f)
				if _, err := c.s.Locate(t.Context(), name, 0, testSize); err != nil {
					t.Fatal(err)
				}
			}
			if len(c.calls) > 0 {
				t.Errorf("asked after Prefetch: %v", c.calls)
			}
			if _, err := c.s.Open(t.Context(), "/d/missing"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a missing file: %v", err)
			}
			c.s.layouts.forget("/d")
			if l, _ := c.s.layouts.get("/d/f03"); l != nil || c.s.layouts.blocks != 0 {
				t.Error("a folder was forgotten, and not its files")
			}
			c.s.Prefetch(t.Context(), names[:3])
			clear(c.calls)
			time.Sleep(6 * time.Minute)
			c.s.Open(t.Context(), names[0])
			if c.called("getFileInfo") == 0 {
				t.Error("what was prefetched is believed for ever")
			}
		})
	}
}

func TestReadMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{})
		var files []store.FileRanges
		for i := range 40 {
			name := fmt.Sprintf("/many/%d", i)
			file := c.put(name, c.data, testBlock, 3)
			f, err := c.s.Open(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if i == 7 {
				for _, b := range file.blocks {
					for n := range 5 {
						c.wrong[[2]int64{b.id, int64(n)}] = true
					}
				}
			}
			off := int64(i * 1000)
			files = append(files, store.FileRanges{File: f, Ranges: []store.Range{{Off: off, Buf: make([]byte, 30_000)}, {Off: 5, Buf: make([]byte, 10)}}})
		}
		if err := c.s.ReadMany(t.Context(), files); err != nil {
			t.Fatal(err)
		}
		for i, f := range files {
			if i == 7 {
				if store.ClassOf(f.Err) != store.Corrupt {
					t.Errorf("the corrupt file: %v", f.Err)
				}
				continue
			}
			if f.Err != nil || !bytes.Equal(f.Ranges[0].Buf, c.data[i*1000:i*1000+30_000]) || !bytes.Equal(f.Ranges[1].Buf, c.data[5:15]) {
				t.Errorf("file %d: %v", i, f.Err)
			}
		}
	})
}

func TestReadReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t).(store.ReplicaReader)
		b := c.file.blocks[0]
		uuid := func(i int) string { return fmt.Sprintf("uuid-%02d", i) }
		one := func(node string) error {
			buf := make([]byte, 1000)
			err := f.ReadReplica(t.Context(), node, []store.Range{{Off: 10, Buf: buf}})
			if err == nil && !bytes.Equal(buf, c.data[10:1010]) {
				t.Error("wrong bytes")
			}
			return err
		}
		for _, n := range b.on {
			c.reads = nil
			if err := one(uuid(n)); err != nil || len(c.reads) != 1 || c.reads[0].node != n {
				t.Errorf("node %d: %v, reads %v", n, err, c.reads)
			}
		}
		c.wrong[[2]int64{b.id, int64(b.on[0])}] = true
		c.missing[[2]int64{b.id, int64(b.on[1])}] = true
		c.down[b.on[2]] = true
		for i, want := range []store.Class{store.Corrupt, store.NotFound, store.Retryable} {
			if err := one(uuid(b.on[i])); store.ClassOf(err) != want {
				t.Errorf("node %d: %v, want class %s", b.on[i], err, want)
			}
		}
		if err := one("nobody"); store.ClassOf(err) != store.NotFound {
			t.Errorf("an unknown node: %v", err)
		}
		b.on = append(b.on, (b.on[2]+1)%5) // since the file was opened
		if err := one(uuid(b.on[3])); err != nil {
			t.Errorf("a new replica: %v", err)
		}
	})
}

func TestList(t *testing.T) {
	c := newScene(t, Options{})
	var want []string
	for i := range 57 {
		want = append(want, fmt.Sprintf("/d/f %02d%%é", i))
		c.put(want[i], nil, testBlock, 3)
	}
	c.put("/d/"+tempPrefix+"1", nil, testBlock, 3)
	infos, err := c.s.List(t.Context(), "/d")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range infos {
		got = append(got, i.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestParseURL(t *testing.T) {
	for url, want := range map[string]string{
		"hdfs://ns/a/b":     "ns /a/b",
		"hdfs://h:8020/a%2": "h:8020 /a%2",
		"hdfs:///a":         " /a",
		"hdfs://ns":         "ns /",
		"hdfs://ns/":        "ns /",
		"hdfs://ns/a/":      "ns /a",
		"/a/b":              " /a/b",
	} {
		authority, name, err := ParseURL(url)
		if got := authority + " " + name; err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", url, got, err, want)
		}
	}
	for _, url := range []string{"", "a/b", "s3://x/y", "hdfs://ns//a", "hdfs://ns/a/../b"} {
		if _, _, err := ParseURL(url); !errors.Is(err, store.ErrName) {
			t.Errorf("%q: %v", url, err)
		}
	}
}
