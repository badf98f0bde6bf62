package store

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// maxAvoided bounds how many nodes CacheLocal leaves out, one after the other, in search of the bad one.
const maxAvoided = 16

// fillFromOthers reads a file whose content was wrong again, each time without one of its nodes. An outage
// must not look like bad content: if a node did not answer, the error is of class Retryable.
func (c caching) fillFromOthers(ctx context.Context, partial *os.File, f File, wrong *DigestError) error {
	replicas, ok := f.(ReplicaReader)
	if !ok {
		return wrong
	}
	rows, err := c.s.Locate(ctx, c.name, 0, f.Size())
	var outage error
	if ClassOf(err) == Retryable {
		outage = err
	}
	for _, node := range nodesOf(rows) {
		err := c.fill(ctx, partial, &avoiding{File: f, replicas: replicas, rows: rows, node: node})
		if err == nil || ctx.Err() != nil {
			return err
		}
		if ClassOf(err) == Retryable {
			outage = err
		}
	}
	if outage != nil {
		return fmt.Errorf("%w: %v; other replicas could not be read: %v", ErrUnavailable, wrong, outage)
	}
	return wrong
}

func nodesOf(rows []Replica) []string {
	var nodes []string
	for _, r := range rows {
		if !slices.Contains(nodes, r.Node) && len(nodes) < maxAvoided {
			nodes = append(nodes, r.Node)
		}
	}
	return nodes
}

// avoiding reads a file without the help of one node.
type avoiding struct {
	File
	replicas ReplicaReader
	rows     []Replica // as Locate sorts them
	node     string
}

func (a *avoiding) ReadRanges(ctx context.Context, ranges []Range) error {
	for _, r := range ranges {
		for len(r.Buf) > 0 {
			from, err := a.holder(r.Off)
			if err != nil {
				return err
			}
			n := min(int64(len(r.Buf)), from.Off+from.Len-r.Off)
			if err := a.replicas.ReadReplica(ctx, from.Node, []Range{{Off: r.Off, Buf: r.Buf[:n]}}); err != nil {
				return err
			}
			r = Range{Off: r.Off + n, Buf: r.Buf[n:]}
		}
	}
	return nil
}

// holder is the nearest other node that holds a byte.
func (a *avoiding) holder(off int64) (Replica, error) {
	for _, r := range a.rows {
		if r.Node != a.node && r.Off <= off && off < r.Off+r.Len {
			return r, nil
		}
	}
	return Replica{}, fmt.Errorf("offset %d: no replica but that of node %s: %w", off, a.node, fs.ErrNotExist)
}
