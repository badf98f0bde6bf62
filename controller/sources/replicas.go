package sources

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// spread says where the blocks of a file lie, small enough for the journal. A place is a node and the storage on it.
type spread struct {
	Places []place  `json:"places"`
	Blocks []placed `json:"blocks"`
}

type place struct {
	Node    string `json:"node"`
	Storage string `json:"storage,omitempty"`
}

// placed is one block, and the numbers of the places that it is at, sorted.
type placed struct {
	Off int64 `json:"off"`
	Len int64 `json:"len"`
	At  []int `json:"at"`
}

func spreadOf(rows []store.Replica) spread {
	var s spread
	numbers := map[place]int{}
	for _, r := range rows {
		at := place{r.Node, r.Storage}
		n, ok := numbers[at]
		if !ok {
			n = len(s.Places)
			numbers[at] = n
			s.Places = append(s.Places, at)
		}
		if last := len(s.Blocks) - 1; last < 0 || s.Blocks[last].Off != r.Off {
			s.Blocks = append(s.Blocks, placed{Off: r.Off, Len: r.Len})
		}
		b := &s.Blocks[len(s.Blocks)-1]
		b.At = append(b.At, n)
	}
	for i := range s.Blocks {
		slices.Sort(s.Blocks[i].At)
	}
	return s
}

// check says what is wrong with a spread that was read from somewhere.
func (s spread) check() error {
	for i, b := range s.Blocks {
		for _, n := range b.At {
			if n < 0 || n >= len(s.Places) {
				return fmt.Errorf("blocks[%d]: place %d of %d", i, n, len(s.Places))
			}
		}
	}
	return nil
}

// nodes returns the nodes of the blocks that [off, off+n) touches, each once.
func (s spread) nodes(off, n int64) []string {
	var nodes []string
	for _, b := range s.Blocks {
		if b.Off >= off+max(n, 1) || b.Off+b.Len <= off {
			continue
		}
		for _, at := range b.At {
			if node := s.Places[at].Node; !slices.Contains(nodes, node) {
				nodes = append(nodes, node)
			}
		}
	}
	return nodes
}

// counts returns the smallest and the largest number of replicas of a block, and how many there are in all.
func (s spread) counts() (least, most, all int) {
	for i, b := range s.Blocks {
		n := len(b.At)
		if i == 0 || n < least {
			least = n
		}
		most = max(most, n)
		all += n
	}
	return least, most, all
}

// fullest is how many blocks the node has that has most.
func (s spread) fullest() (most int) {
	blocks := map[string]int{}
	for _, b := range s.Blocks {
		for _, at := range b.At {
			node := s.Places[at].Node
			blocks[node]++
			most = max(most, blocks[node])
		}
	}
	return most
}

// keeps counts the replicas of s that are where they were in now too.
func (s spread) keeps(now spread) (kept int) {
	there := map[string]bool{}
	key := func(off int64, p place) string { return fmt.Sprintf("%d\x00%s\x00%s", off, p.Node, p.Storage) }
	for _, b := range now.Blocks {
		for _, at := range b.At {
			there[key(b.Off, now.Places[at])] = true
		}
	}
	for _, b := range s.Blocks {
		for _, at := range b.At {
			if there[key(b.Off, s.Places[at])] {
				kept++
			}
		}
	}
	return kept
}

// move is one replica that is to lie on another node.
type move struct {
	off      int64
	from, to string
}

// moves returns what has to be moved so that a file that lies as now says lies as s says: each node that lost a block gets it from one that did not have it.
func (s spread) moves(now spread) (moves []move) {
	for _, b := range now.Blocks {
		had, has := s.nodes(b.Off, b.Len), now.nodes(b.Off, b.Len)
		extra := slices.DeleteFunc(slices.Clone(has), func(n string) bool { return slices.Contains(had, n) })
		for _, to := range had {
			if len(extra) > 0 && !slices.Contains(has, to) {
				moves = append(moves, move{b.Off, extra[0], to})
				extra = extra[1:]
			}
		}
	}
	return moves
}

// Restoration says how the replicas of a file that was raised lie after it was lowered, against before it was raised.
type Restoration struct {
	Placement plan.ID
	Means     plan.Means
	Path      string
	// Blocks the file has. Of the Before replicas that it had Kept are where they were, and there are After.
	Blocks, Before, Kept, After int
	// FullestBefore and FullestAfter are how many of the blocks lay, and lie, on the node with most of them.
	FullestBefore, FullestAfter int
	// Excess says that replicas which were made are still there: the store removes them later.
	Excess bool
	// Refused is why those that a plain raise had moved were not all moved back; nil for no reason.
	Refused error
}

// Exact tells whether all is as it was.
func (r Restoration) Exact() bool { return r.Kept == r.Before && r.After == r.Before }

func (r Restoration) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d replicas are where they were; the node with most blocks has %d of %d, it had %d",
		r.Kept, r.Before, r.FullestAfter, r.Blocks, r.FullestBefore)
	if r.Excess {
		fmt.Fprintf(&b, "; there are %d replicas yet", r.After)
	}
	if r.Refused != nil {
		fmt.Fprintf(&b, "; the others were not all moved back: %v", r.Refused)
	}
	return b.String()
}
