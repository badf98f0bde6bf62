package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkWire moves 32 MiB an iteration.
func BenchmarkWire(b *testing.B) {
	for _, size := range partSizes {
		for _, way := range wires {
			b.Run(fmt.Sprintf("part=%d/%s", size, strings.ReplaceAll(way.name, " ", "-")), func(b *testing.B) {
				w, err := way.open(pattern(size))
				if err != nil {
					b.Fatal(err)
				}
				defer w.stop()
				b.SetBytes(int64(roundBytes / size * size))
				var s []sample
				for b.Loop() {
					x, err := w.measure(roundBytes / size)
					if err != nil {
						b.Fatal(err)
					}
					s = append(s, x)
				}
				b.ReportMetric(quantile(s, 0.5, cost), "cpu-s/GB")
			})
		}
	}
}

// TestAllMoveEverything is the gate before any speed: every wire gives all bytes.
func TestAllMoveEverything(t *testing.T) {
	part := pattern(100_000)
	for _, way := range wires {
		w, err := way.open(part)
		if err != nil {
			t.Fatal(err)
		}
		defer w.stop()
		for _, parts := range []int{7, 1} {
			if n, err := w.move(context.Background(), parts); err != nil || n != int64(parts)*100_000 {
				t.Errorf("%s: %d bytes, %v", way.name, n, err)
			}
		}
	}
}

// TestRace: a wire's process answers each line with one measurement, and ends with its input.
func TestRace(t *testing.T) {
	var out bytes.Buffer
	if err := race("stepahead", 1<<20, strings.NewReader("\n\n"), &out); err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var s sample
		if err := json.Unmarshal([]byte(line), &s); err != nil || s.GBps <= 0 || s.CPUPerGB <= 0 || i > 1 {
			t.Errorf("line %d: %q: %v", i, line, err)
		}
	}
	if err := race("pigeon", 1, strings.NewReader(""), &out); err == nil {
		t.Error("a wire that does not exist runs")
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
