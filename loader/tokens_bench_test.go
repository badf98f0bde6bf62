package loader

import (
	"errors"
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkTokens reports the CPU time of all threads for a sample of 4,096 tokens, in batches of 64 from a file in
// memory, shuffled.
func BenchmarkTokens(b *testing.B) {
	lengths := make([]int64, 16<<10)
	for i := range lengths {
		lengths[i] = 1024
	}
	k := newTokenKit(b, "uint16", lengths)
	for name, fields := range map[string][]string{"all": nil, "tokens,labels": {"tokens", "labels"}, "text": {"text"}} {
		b.Run(name, func(b *testing.B) {
			o := k.options(TokenOptions{SequenceLength: 4096}, 64)
			o.Fields = fields
			l := mustOpen(b, o)
			defer l.Close()
			start := cpuTime(b)
			b.ReportAllocs()
			for b.Loop() {
				batch, err := l.Next(b.Context())
				if errors.Is(err, io.EOF) {
					continue
				}
				must(b, err)
				batch.Release()
			}
			b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N)/64, "cpu-ns/sample")
		})
	}
}

// cpuTime is the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var ts unix.Timespec
	must(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts))
	return time.Duration(ts.Nano())
}
