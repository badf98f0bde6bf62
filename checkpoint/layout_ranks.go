package checkpoint

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

// itemOfRank is a file of torch_checkpointing: the item's name and the rank.
var itemOfRank = regexp.MustCompile(`^(.+)_(\d{1,9})\.(?:pt|safetensors)$`)

// readTorchCheckpointing wants the metadata whole and, of each item, a file of every rank up to the last that is seen. Rank 0 writes the
// metadata with its own files, so it says nothing of the others'; the folder gets its name when all are done, unless the job has switched that off.
func (r *reader) readTorchCheckpointing(ctx context.Context) error {
	ranks := map[string]map[int]bool{}
	most := 0
	for _, f := range r.c.Files {
		m := itemOfRank.FindStringSubmatch(f.Name)
		if m == nil {
			continue
		}
		rank, _ := strconv.Atoi(m[2]) // the expression has digits only
		if ranks[m[1]] == nil {
			ranks[m[1]] = map[int]bool{}
		}
		ranks[m[1]][rank] = true
		most = max(most, rank+1)
		if f.Size < leastPickle && strings.HasSuffix(f.Name, ".pt") {
			r.problem("file-short", f.Name, "it is too short for a file of torch.save")
		}
	}
	r.wantItems(ranks, most)
	whole, err := r.c.endsAsPickle(ctx, r.c.file(rankMetadataPickle))
	if err == nil && !whole {
		r.problem("file-short", rankMetadataPickle, "it does not end as a pickle does: it is cut, or something was appended")
	}
	return err
}

// wantItems wants each item's ranks without a gap, and as many of one item as were announced: others may be written by some ranks only.
func (r *reader) wantItems(ranks map[string]map[int]bool, most int) {
	items := slices.Sorted(maps.Keys(ranks))
	if len(items) == 0 {
		r.problem("weights-missing", "", "there are no files of ranks beside the metadata")
	}
	lacks := 0
	for _, item := range items {
		last := slices.Max(slices.Collect(maps.Keys(ranks[item])))
		for rank := 0; rank < last && lacks < mostNamed; rank++ {
			if !ranks[item][rank] {
				r.problem("rank-missing", "", "nothing of item %s of rank %d, and there is of rank %d", item, rank, last)
				lacks++
			}
		}
	}
	switch want := r.o.WorldSize; {
	case want == 0:
		r.guess = "nothing says how many ranks saved; there are files of " + strconv.Itoa(most)
	case most != want:
		r.problem("rank-missing", "", "files of %d ranks, and %d saved", most, want)
	}
}

// endsAsPickle tells whether a file begins and ends as a pickle of protocol 2 or later does. It is not run.
func (c *Checkpoint) endsAsPickle(ctx context.Context, i int) (bool, error) {
	const proto, stop = 0x80, '.'
	if c.Files[i].Size < 2 {
		return false, nil
	}
	first, last := make([]byte, 1), make([]byte, 1)
	err := c.withFiles(ctx, []int{i}, func(_ int, files []store.File) error {
		return files[0].ReadRanges(ctx, []store.Range{{Buf: first}, {Off: files[0].Size() - 1, Buf: last}})
	})
	return first[0] == proto && last[0] == stop, err
}
