package fetch

import "testing"

// TestFrames: buffers have the length asked for, and only whole frames are kept.
func TestFrames(t *testing.T) {
	var f frames
	for _, n := range []int{1, 2000, frameSize, frameSize + 1} {
		b := f.Get(n)
		if len(*b) != n {
			t.Errorf("asked for %d bytes, got %d", n, len(*b))
		}
		f.Put(b)
	}
	small := make([]byte, 10)
	f.Put(&small)
	for range 10 {
		if b := f.Get(frameSize); len(*b) != frameSize {
			t.Fatalf("got %d bytes", len(*b))
		}
	}
}
