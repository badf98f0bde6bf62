package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkWire moves 32 MiB an iteration over each wire, in turn. benchstat reads the metrics.
func BenchmarkWire(b *testing.B) {
	for _, size := range partSizes {
		b.Run(fmt.Sprintf("part=%d", size), func(b *testing.B) {
			c, err := newContest(size)
			if err != nil {
				b.Fatal(err)
			}
			defer c.stop()
			for b.Loop() {
				if err := c.round(true); err != nil {
					b.Fatal(err)
				}
			}
			for i, w := range c.wires {
				name := strings.ReplaceAll(strings.ReplaceAll(w.name, ",", ""), " ", "-")
				b.ReportMetric(quantile(c.samples[i], 0.5, speed), name+"-GB/s")
				b.ReportMetric(quantile(c.samples[i], 0.5, cost), name+"-cpu-s/GB")
			}
		})
	}
}

// TestAllMoveEverything is the gate before any speed: every wire gives all bytes.
func TestAllMoveEverything(t *testing.T) {
	part := pattern(100_000)
	for _, open := range wires {
		w, err := open(part)
		if err != nil {
			t.Fatal(err)
		}
		defer w.stop()
		for _, parts := range []int{7, 1} {
			if n, err := w.move(context.Background(), parts); err != nil || n != int64(parts)*100_000 {
				t.Errorf("%s: %d bytes, %v", w.name, n, err)
			}
		}
	}
}

// TestBatch: parts lie side by side and begin again where they no longer fit.
func TestBatch(t *testing.T) {
	b := &batch{memory: make([]byte, 10)}
	copy(b.take(4), "aaaa")
	copy(b.take(4), "bbbb")
	copy(b.take(4), "cccc")
	if want := []byte("ccccbbbb\x00\x00"); !bytes.Equal(b.memory, want) {
		t.Errorf("got %q", b.memory)
	}
}

func TestClaim(t *testing.T) {
	at := func(own, other float64) []result {
		return []result{{GBps: [3]float64{0, own, 9}}, {GBps: [3]float64{9, other, 0}}}
	}
	for _, c := range []struct {
		own, other float64
		want       bool
	}{{2.5, 1.25, true}, {2.4, 1, false}, {2.5, 1.3, false}} {
		if claim(at(c.own, c.other)) != c.want {
			t.Errorf("%v against %v: not %v", c.own, c.other, c.want)
		}
	}
}

func TestQuartiles(t *testing.T) {
	s := []sample{{3, 1}, {1, 9}, {2, 2}, {5, 5}, {4, 4}}
	if got := quartiles(s, speed); got != [3]float64{2, 3, 4} {
		t.Errorf("speed: %v", got)
	}
	if got := quartiles(s, cost); got != [3]float64{2, 4, 5} {
		t.Errorf("cost: %v", got)
	}
}
