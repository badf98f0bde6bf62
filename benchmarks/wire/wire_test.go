package main

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkWire moves 64 MiB an iteration over one connection, once on our wire and once on the peer's,
// in turn. benchstat reads the metrics.
func BenchmarkWire(b *testing.B) {
	for _, size := range partSizes {
		b.Run(fmt.Sprintf("part=%d", size), func(b *testing.B) {
			pair, err := newPair(size)
			if err != nil {
				b.Fatal(err)
			}
			defer pair.stop()
			for b.Loop() {
				if err := pair.round(); err != nil {
					b.Fatal(err)
				}
			}
			own, other := median(pair.ours), median(pair.peer)
			b.ReportMetric(own.GBps, "ours-GB/s")
			b.ReportMetric(other.GBps, "protobuf-GB/s")
			b.ReportMetric(own.GBps/other.GBps, "ratio")
			b.ReportMetric(own.CPUPerGB, "ours-cpu-s/GB")
			b.ReportMetric(other.CPUPerGB, "protobuf-cpu-s/GB")
		})
	}
}

// TestBothMoveEverything is the gate before any speed: both ends give the same bytes.
func TestBothMoveEverything(t *testing.T) {
	part := pattern(100_000)
	for name, wire := range map[string]func([]byte) (run, func(), error){"ours": ours, "peer": peer} {
		f, stop, err := wire(part)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if n, err := f(context.Background(), 7); err != nil || n != 700_000 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

func TestMedian(t *testing.T) {
	got := median([]sample{{3, 1}, {1, 9}, {2, 2}})
	if got != (sample{2, 2}) {
		t.Errorf("got %+v", got)
	}
}
