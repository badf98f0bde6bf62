package loader

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/loader/proof"
	"github.com/stepahead-io/stepahead/sampler"
)

// TestBalancedRanks: ranks get what costs about the same, the records are those of a run without, and every world size
// has the same ones.
func TestBalancedRanks(t *testing.T) {
	sizes := func(i int) (w, h uint32) { // every eighth is a hundred times as large
		if i%8 == 0 {
			return 1000, 1000
		}
		return 100, 100
	}
	k := newKit(t, 48, 20, sizes)
	records := func(world int, balance string) [32]byte {
		var files []string
		for rank := range world {
			o := k.options(t)
			o.World, o.Rank, o.Balance = world, rank, balance
			o.RecordPath = filepath.Join(t.TempDir(), fmt.Sprint(rank))
			files = append(files, o.RecordPath)
			l := mustOpen(t, o)
			for range 12 {
				nextStep(t, l).Release()
			}
			must(t, l.Close())
		}
		digest, _, err := proof.Digest(files...)
		must(t, err)
		return digest
	}
	want := records(1, "")
	for _, world := range []int{1, 2, 4, 8} {
		for _, balance := range []string{sampler.EvenCount, sampler.EvenCost} {
			if records(world, balance) != want {
				t.Errorf("%d ranks, balance %q: other records", world, balance)
			}
		}
	}
}

// TestBalanceEvens: no rank has two of the costly samples while another has none.
func TestBalanceEvens(t *testing.T) {
	k := newKit(t, 16, 20, func(i int) (w, h uint32) { return 100 + 900*uint32(i/12), 1000 })
	for _, balance := range []string{"", sampler.EvenCount, sampler.EvenCost} {
		most, least, fewest := 0, 4, 8
		for rank := range 4 {
			o := k.options(t)
			o.Shuffle, o.GlobalBatch, o.World, o.Rank, o.Balance = sampler.ShuffleNone, 16, 4, rank, balance
			b := nextStep(t, mustOpen(t, o))
			costly := 0
			for _, ref := range b.Samples {
				costly += int(ref.Sample / 12)
			}
			most, least, fewest = max(most, costly), min(least, costly), min(fewest, len(b.Samples))
			b.Release()
		}
		if even := most == 1 && least == 1; even != (balance != "") || fewest < 2 {
			t.Errorf("balance %q: up to %d costly samples on a rank, at least %d; a rank with %d samples", balance, most, least, fewest)
		}
	}
}
