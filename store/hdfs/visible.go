package hdfs

import (
	"context"
	"time"
)

// visibleWithin bounds the question how much of a block that is being written can be read.
const visibleWithin = 5 * time.Second

// visibleLength is how many bytes of a block that is being written can be read: what its writer flushed. 0 if no DataNode
// that holds it says so.
func (s *Store) visibleLength(ctx context.Context, b *block) int64 {
	if s.visible == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, visibleWithin)
	defer cancel()
	for _, p := range b.places {
		if n, err := s.visible(ctx, p.node, b); err == nil && n >= 0 {
			return n
		}
	}
	return 0
}
