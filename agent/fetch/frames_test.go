package fetch

import "testing"

// TestFrames: buffers have the length asked for, the last one back goes out first, and what waits is bounded.
func TestFrames(t *testing.T) {
	var f frames
	a, b := f.Get(frameSize), f.Get(2000)
	if len(*a) != frameSize || len(*b) != 2000 {
		t.Fatalf("got %d and %d bytes", len(*a), len(*b))
	}
	f.Put(a)
	f.Put(b)
	if got := f.Get(frameSize); got != b || len(*got) != frameSize {
		t.Errorf("not the last buffer back, or %d bytes of it", len(*got))
	}
	large := f.Get(frameSize + 1)
	if len(*large) != frameSize+1 {
		t.Errorf("got %d bytes", len(*large))
	}
	f.Put(large)
	for range 2 * maxIdle {
		fresh := make([]byte, frameSize)
		f.Put(&fresh)
	}
	if len(f.idle) != maxIdle {
		t.Errorf("%d buffers wait, want %d", len(f.idle), maxIdle)
	}
}
