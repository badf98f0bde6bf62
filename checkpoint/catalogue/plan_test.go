package catalogue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

// TestAssign: of any number of readers, each node gets as many as another, or one more, of every block; and each reader as many blocks of each.
func TestAssign(t *testing.T) {
	for n := 1; n <= 12; n++ {
		for _, readers := range []int{1, 2, 5, 8, 24, 64, 65} {
			for block := range 15 {
				counts := make([]int, n)
				for index := range readers {
					counts[assign(index, block, n)]++
				}
				if slices.Min(counts) != readers/n || slices.Max(counts) != (readers+n-1)/n {
					t.Fatalf("%d readers, %d nodes, block %d: %v", readers, n, block, counts)
				}
			}
		}
		for index := range 20 {
			counts := make([]int, n)
			for block := range 17 {
				counts[assign(index, block, n)]++
			}
			if slices.Max(counts)-slices.Min(counts) > 1 {
				t.Fatalf("%d nodes, reader %d: %v", n, index, counts)
			}
		}
	}
}

// rowsOf makes locations of a file.
func rowsOf(size, block int64, nodes func(i int64) []string) (rows []store.Replica) {
	for i := int64(0); i*block < size; i++ {
		for _, node := range nodes(i) {
			rows = append(rows, store.Replica{Node: node, Off: i * block, Len: min(block, size-i*block)})
		}
	}
	return rows
}

// TestPlanSources compares with the question asked for each byte: a node is read from for a block if it holds all its bytes in one file.
func TestPlanSources(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		size := int64(1 + r.IntN(60))
		var rows [][]store.Replica
		for range 1 + r.IntN(3) {
			rows = append(rows, rowsOf(size, int64(1+r.IntN(25)), func(int64) (nodes []string) {
				for _, n := range r.Perm(7)[:r.IntN(4)] {
					nodes = append(nodes, fmt.Sprint("dn", n))
				}
				return nodes
			}))
		}
		holds := func(file int, node string, at int64) bool {
			return slices.ContainsFunc(rows[file], func(x store.Replica) bool { return x.Node == node && x.Off <= at && at < x.Off+x.Len })
		}
		for _, b := range planSources(rows) {
			var want []spot
			for n := range 7 {
				node := fmt.Sprint("dn", n)
				for file := range rows {
					all := true
					for at := b.off; at < b.end; at++ {
						all = all && holds(file, node, at)
					}
					if all {
						want = append(want, spot{file, node})
						break
					}
				}
			}
			if !slices.Equal(b.spots, want) {
				t.Fatalf("%v: block %d to %d: %v, want %v", rows, b.off, b.end, b.spots, want)
			}
		}
	}
	if planSources(nil) != nil {
		t.Error("a plan of nothing")
	}
}

// TestDivide: every byte is in one share, that of its block's turn.
func TestDivide(t *testing.T) {
	plan := planSources([][]store.Replica{rowsOf(100, 30, func(i int64) []string { return []string{"a", "b", "c"}[:1+i%3] })})
	r := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		buf, index := make([]byte, 100), r.IntN(10)
		off := r.IntN(100)
		ranges := []store.Range{{Off: int64(off), Buf: buf[off:]}, {Off: 0, Buf: buf[:r.IntN(off+1)]}, {Off: 100}}
		want := len(ranges[0].Buf) + len(ranges[1].Buf)
		for _, s := range divide(ranges, plan, index) {
			for _, x := range s.ranges {
				want -= len(x.Buf)
				block := int(x.Off / 30)
				if int((x.Off+int64(len(x.Buf))-1)/30) != block || &x.Buf[0] != &buf[x.Off] {
					t.Fatalf("%d+%d is not inside of a block", x.Off, len(x.Buf))
				}
				if spots := plan[block].spots; s.spot != spots[assign(index, block, len(spots))] {
					t.Fatalf("block %d of reader %d is read from %v", block, index, s.spot)
				}
			}
		}
		if want != 0 {
			t.Fatalf("%d bytes are left", want)
		}
	}
	if shares := divide([]store.Range{{Off: 0, Buf: make([]byte, 5)}}, nil, 3); len(shares) != 1 || shares[0].node != "" {
		t.Errorf("what nobody is known to hold: %v", shares)
	}
}
