package hdfs

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However often it is asked, at most 5 % of the bytes that were read are doubled, in bounded memory.
func TestHedgesAreCapped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h hedger
		var asked, doubled, memory int64
		var taken []int64
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			n := rapid.Int64Range(1, 2*maxHedge).Draw(t, "n")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				if h.take(n) {
					taken, doubled, memory = append(taken, n), doubled+n, memory+n
				}
			case 1:
				if len(taken) > 0 {
					h.give(taken[0])
					memory -= taken[0]
					taken = taken[1:]
				}
			default:
				h.observe(n, time.Millisecond)
				asked += n
			}
			if doubled*20 > asked || memory > maxHedgeMemory {
				t.Fatalf("%d of %d bytes doubled, %d in memory", doubled, asked, memory)
			}
		}
	})
}

func TestHedgeDelayFollowsTheSlowestTwentieth(t *testing.T) {
	var h hedger
	if got := h.delay(1000); got != hedgeAtFirst {
		t.Errorf("at first %v", got)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		h.observe(1000, time.Duration(50+r.IntN(100))*time.Millisecond) // 95 % below 145 ms
	}
	if got := h.delay(1000); got < 260*time.Millisecond || got > 320*time.Millisecond {
		t.Errorf("after reads of 50 to 150 ms: %v, want about 290ms", got)
	}
	if got := h.delay(1 << 20); got != hedgeAtFirst {
		t.Errorf("another size: %v", got)
	}
	for range 5000 {
		h.observe(1000, time.Microsecond)
	}
	if got := h.delay(1000); got != hedgeEarliest {
		t.Errorf("after fast reads: %v", got)
	}
}
