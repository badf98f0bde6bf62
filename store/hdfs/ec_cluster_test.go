package hdfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
)

// codedFile is an erasure-coded file that Hadoop wrote.
type codedFile struct {
	name   string
	data   []byte
	parity int
	groups []hdfstest.Block
}

// putCoded writes files of the lengths at which cells, stripes and groups begin and end.
func putCoded(c *hdfstest.Cluster, dir, policy string, data, parity int) (files []codedFile) {
	const cell, block = 1 << 20, 2 << 20
	folder := dir + "/" + policy
	c.Mkdir(folder)
	c.ErasureCode(folder, policy)
	for _, n := range []int{0, 1, cell - 1, cell, cell + 1, data*cell - 1, data*cell + 1, data*block + 1} {
		f := codedFile{name: fmt.Sprintf("%s/%d", folder, n), data: random(n, uint64(n)), parity: parity}
		c.Put(f.name, f.data, 1, block)
		f.groups = groupsOf(c, f, data)
		files = append(files, f)
	}
	return files
}

// groupsOf waits until the NameNode knows of every unit that has bytes, and returns the groups: a file is whole before that.
func groupsOf(c *hdfstest.Cluster, f codedFile, data int) []hdfstest.Block {
	const cell = 1 << 20
	for {
		groups := c.Locations(f.name)
		if !slices.ContainsFunc(groups, func(g hdfstest.Block) bool {
			return len(g.Nodes) < min(data, int((g.Length+cell-1)/cell))+f.parity
		}) {
			return groups
		}
	}
}

// lost says whether a group has lost more units than its code replaces. Units without bytes are nowhere, and known.
func (f codedFile) lost(dead []int) bool {
	return slices.ContainsFunc(f.groups, func(g hdfstest.Block) bool {
		n := 0
		for _, node := range g.Nodes {
			if slices.Contains(dead, node) {
				n++
			}
		}
		return n > f.parity
	})
}

// wantCoded reads a file whole and in pieces.
func wantCoded(t *testing.T, s *Store, f codedFile, dead []int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	file, err := s.Open(ctx, f.name)
	if err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	defer file.Close()
	if _, err := sum(ctx, file); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%s: its sum: %v", f.name, err)
	}
	got := make([]byte, len(f.data))
	err = file.ReadRanges(ctx, []store.Range{{Buf: got}})
	if f.lost(dead) {
		if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), "units that the block group needs") {
			t.Errorf("%s with nodes %v dead: %v, want an error that names the units", f.name, dead, err)
		}
		return
	}
	if err != nil || !bytes.Equal(got, f.data) {
		t.Errorf("%s with nodes %v dead: %v, or wrong bytes", f.name, dead, err)
		return
	}
	r := rand.New(rand.NewPCG(uint64(len(f.data)), uint64(len(dead))))
	var ranges []store.Range
	for range 6 {
		a, b := r.IntN(len(f.data)+1), r.IntN(len(f.data)+1)
		ranges = append(ranges, store.Range{Off: int64(min(a, b)), Buf: make([]byte, min(max(a, b)-min(a, b), 300_000))})
	}
	if err := file.ReadRanges(ctx, ranges); err != nil {
		t.Errorf("%s with nodes %v dead: %v", f.name, dead, err)
	}
	for _, x := range ranges {
		if !bytes.Equal(x.Buf, f.data[x.Off:x.Off+int64(len(x.Buf))]) {
			t.Errorf("%s with nodes %v dead: wrong bytes in [%d, +%d)", f.name, dead, x.Off, len(x.Buf))
		}
	}
}

// TestErasureCoded: what cannot be decoded is said at once; files that Hadoop wrote are read, with 0 to 3 of 9 DataNodes dead.
func TestErasureCoded(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 9})
	s, dir := writeOn(t, c)
	t.Run("policy", func(t *testing.T) { refusePolicy(t, c, s, dir) })
	t.Run("too few units", func(t *testing.T) { refuseTooFew(t, c, s, dir) })
	files := slices.Concat(putCoded(c, dir, "RS-6-3-1024k", 6, 3), putCoded(c, dir, "XOR-2-1-1024k", 2, 1))
	killAndRead(t, c, s, files, 3)
}

// TestErasureCodedFilesOfAllPolicies: the same for every policy that Hadoop has and that can be read, with up to 5 of 14 dead.
func TestErasureCodedFilesOfAllPolicies(t *testing.T) {
	testdata.Soak(t)
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 14})
	s, dir := writeOn(t, c)
	files := slices.Concat(
		putCoded(c, dir, "RS-10-4-1024k", 10, 4), putCoded(c, dir, "RS-3-2-1024k", 3, 2),
		putCoded(c, dir, "RS-6-3-1024k", 6, 3), putCoded(c, dir, "XOR-2-1-1024k", 2, 1),
	)
	killAndRead(t, c, s, files, 5)
}

// killAndRead reads all files, and again after each death of a DataNode that holds a unit of a file with all units.
func killAndRead(t *testing.T, c *hdfstest.Cluster, s *Store, files []codedFile, deaths int) {
	t.Helper()
	var dead []int
	for n := range deaths + 1 {
		lost := 0
		for _, f := range files {
			wantCoded(t, s, f, dead)
			if f.lost(dead) {
				lost++
			}
		}
		t.Logf("%d nodes dead: %d of %d files cannot be read", len(dead), lost, len(files))
		if n < deaths {
			victim := files[6].groups[0].Nodes[n]
			c.Kill(victim)
			dead = append(dead, victim)
		}
	}
}

func refusePolicy(t *testing.T, c *hdfstest.Cluster, s *Store, dir string) {
	for _, f := range putCoded(c, dir, "RS-LEGACY-6-3-1024k", 6, 3)[1:2] {
		file, err := s.Open(t.Context(), f.name)
		if err == nil {
			err = file.ReadRanges(t.Context(), []store.Range{{Buf: make([]byte, len(f.data))}})
			file.Close()
		}
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "rs-legacy") {
			t.Errorf("%v, want a refusal that names rs-legacy", err)
		}
	}
}

func refuseTooFew(t *testing.T, c *hdfstest.Cluster, s *Store, dir string) {
	c.Mkdir(dir + "/coded")
	c.ErasureCode(dir+"/coded", "RS-6-3-1024k")
	f := codedFile{name: dir + "/coded/f", data: random(6<<20, 1), parity: 3}
	c.Put(f.name, f.data, 1, 2<<20)
	f.groups = groupsOf(c, f, 6)
	for _, node := range f.groups[0].Nodes[:3] {
		c.Corrupt(f.name, 0, node, hdfstest.FlipData)
		wantCoded(t, s, f, nil)
	}
	c.Corrupt(f.name, 0, f.groups[0].Nodes[3], hdfstest.FlipData)
	file, err := s.Open(t.Context(), f.name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got := make([]byte, len(f.data))
	err = file.ReadRanges(t.Context(), []store.Range{{Buf: got}})
	if class := store.ClassOf(err); class != store.Corrupt && class != store.Retryable {
		t.Errorf("four of nine units are wrong: %v (equal: %v)", err, bytes.Equal(got, f.data))
	}
}
