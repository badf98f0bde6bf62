package foreign

import "context"

// Unpacked gives the samples of one shard as Pack reads them: its file, unpacked if it is compressed, in order.
func Unpacked(ctx context.Context, c Container, src Source, s Shard, o Options, each func(File, Row) error, warn func(string, ...any)) error {
	x := &indexer{Options: o.withDefaults(), src: src, container: c, whole: true}
	own := shard{Shard: s}
	if err := x.statOne(ctx, &own); err != nil {
		return err
	}
	return x.samples(ctx, &own, reading{sum: &summary{}, step: func(int64) {}, warn: warn, each: each})
}
