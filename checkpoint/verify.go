package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
)

// Verified is what Verify found.
type Verified struct {
	*Digest
	// Problems are those of the checkpoint, and what reading all of it found.
	Problems []Problem `json:"problems"`
	// Items is how many tensors of torch.save were compared with their metadata and sums.
	Items int `json:"items"`
	// NoSums is how many of those have no sum: their length and shape were compared only.
	NoSums int `json:"no_sums"`
}

// Verify reads all files once, makes the digest of them, and compares every tensor that has a sum and a description of its own (those of
// DCP and torch_dist) with the metadata: dtype, shape, CRC-32. Files of torch.save are looked at for being cut.
func (c *Checkpoint) Verify(ctx context.Context, o ReadOptions) (*Verified, error) {
	v := &verifier{c: c, out: Verified{Problems: slices.Clone(c.Problems)}, items: make([][]itemRef, len(c.Files))}
	v.collect()
	if c.Layout != Torch { // of which Open looked at all
		cut, _, err := c.cutPickles(ctx, c.pickles())
		if err != nil {
			return nil, err
		}
		v.out.Problems = append(v.out.Problems, cut...)
	}
	d, err := c.readAll(ctx, o, v.consumer)
	if err != nil {
		return nil, err
	}
	v.out.Digest = d
	return &v.out, nil
}

// itemRef is an item of a file.
type itemRef struct {
	tensor *Tensor
	chunk  *Chunk
}

type verifier struct {
	c     *Checkpoint
	items [][]itemRef // of each file, by offset

	mu  sync.Mutex
	out Verified
}

// collect finds the items of each file that can be compared: those in one that is long enough.
func (v *verifier) collect() {
	for i := range v.c.Tensors {
		t := &v.c.Tensors[i]
		for k := range t.Chunks {
			c := &t.Chunks[k]
			if c.Item && c.File >= 0 && c.Off+c.Len <= v.c.Files[c.File].Size {
				v.items[c.File] = append(v.items[c.File], itemRef{t, c})
			}
		}
	}
	for file, items := range v.items {
		slices.SortFunc(items, func(a, b itemRef) int { return cmp.Compare(a.chunk.Off, b.chunk.Off) })
		end := int64(0)
		v.items[file] = slices.DeleteFunc(items, func(i itemRef) bool {
			if i.chunk.Off < end {
				v.problem(file, i.tensor, "item-overlap", fmt.Sprintf("it begins at byte %d of the file, and another ends at %d", i.chunk.Off, end))
				return true
			}
			end = i.chunk.Off + i.chunk.Len
			return false
		})
	}
}

func (v *verifier) consumer(file int) consumer {
	items := v.items[file]
	if len(items) == 0 {
		return nil
	}
	s := &itemStream{v: v, file: file, items: items}
	return s.feed
}

func (v *verifier) problem(file int, t *Tensor, kind, detail string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out.Problems = append(v.out.Problems, Problem{Kind: kind, File: v.c.Files[file].Name, Tensor: t.Name, Detail: detail})
}

// checked counts an item.
func (v *verifier) checked(summed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out.Items++
	if !summed {
		v.out.NoSums++
	}
}

// itemStream compares the items of a file as its bytes come by.
type itemStream struct {
	v     *verifier
	file  int
	items []itemRef // those that have not ended
	pos   int64     // of the next byte in the file
	// Of the item that has begun:
	head   []byte
	it     *dcp.Item
	bad    bool
	sum    uint32
	behind []byte
}

// feed takes the next bytes of the file.
func (s *itemStream) feed(b []byte) {
	for len(s.items) > 0 {
		first := s.items[0].chunk
		from, to := max(first.Off, s.pos), min(first.Off+first.Len, s.pos+int64(len(b)))
		if from < to {
			s.item(from-first.Off, b[from-s.pos:to-s.pos])
		}
		if first.Off+first.Len > s.pos+int64(len(b)) {
			break
		}
		s.end()
	}
	s.pos += int64(len(b))
}

// item takes the bytes at p of the item.
func (s *itemStream) item(p int64, b []byte) {
	length := s.items[0].chunk.Len
	want := min(int64(dcp.HeadBytes), length)
	if missing := want - int64(len(s.head)); missing > 0 {
		n := min(missing, int64(len(b)))
		s.head = append(s.head, b[:n]...)
		if p, b = p+n, b[n:]; int64(len(s.head)) < want {
			return
		}
		s.begin(length)
		s.content(0, s.head)
	}
	s.content(p, b)
}

// begin compares what the item says of itself with the metadata.
func (s *itemStream) begin(length int64) {
	t, c := s.items[0].tensor, s.items[0].chunk
	it, err := dcp.ParseHead(s.head, length)
	wrong := ""
	if err == nil {
		wrong = mismatch(it, t.Dtype, c)
	}
	switch {
	case errors.Is(err, dcp.ErrUnsupported):
	case err != nil:
		s.v.problem(s.file, t, "item-format", err.Error())
	case wrong != "":
		s.v.problem(s.file, t, "item-mismatch", wrong)
	}
	s.it, s.bad = it, err != nil || wrong != ""
}

// content takes the bytes at p of the item for the sum.
func (s *itemStream) content(p int64, b []byte) {
	if s.bad {
		return
	}
	start, end := s.it.StorageOff, s.it.StorageOff+s.it.StorageLen
	s.sum = crc32.Update(s.sum, crc32.IEEETable, part(p, b, start, end))
	s.behind = append(s.behind, part(p, b, end, end+dcp.BehindBytes)...)
}

// part is what of b, which begins at p, lies in [start, end).
func part(p int64, b []byte, start, end int64) []byte {
	start, end = max(start, p), min(end, p+int64(len(b)))
	if start >= end {
		return nil
	}
	return b[start-p : end-p]
}

// end compares the sum of the item, and goes to the next.
func (s *itemStream) end() {
	if !s.bad && s.it != nil {
		want, summed, err := s.it.StorageCRC(s.behind)
		switch {
		case err != nil:
			s.v.problem(s.file, s.items[0].tensor, "item-format", err.Error())
		case summed && want != s.sum:
			s.v.problem(s.file, s.items[0].tensor, "crc", crcText(want, s.sum))
		}
		s.v.checked(summed)
	}
	s.items = s.items[1:]
	s.head, s.it, s.bad, s.sum, s.behind = s.head[:0], nil, false, 0, s.behind[:0]
}

func crcText(want, have uint32) string {
	return fmt.Sprintf("its bytes have the CRC-32 %08x, and %08x was written with them", have, want)
}
