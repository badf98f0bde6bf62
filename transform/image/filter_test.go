package image

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
)

// Thousands of random scalings, whole and of fractional boxes, against an independent computation with the C library's
// sine: not one weight differs once it is rounded.
func TestWeightsEqualPillows(t *testing.T) {
	data, err := os.ReadFile("testdata/weights.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden map[transform.Filter]struct {
		Scalings int
		SHA256   string
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden) != 4 {
		t.Fatal(golden, err)
	}
	for filter, want := range golden {
		k, ok := kernelOf(filter)
		if !ok {
			t.Fatalf("no kernel %q", filter)
		}
		h, next := sha256.New(), scalings()
		for range want.Scalings {
			in, m := next()
			h.Write(weightBytes(k.scaling(in, m), m))
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != want.SHA256 {
			t.Errorf("%s: weights %s, want %s", filter, got, want.SHA256)
		}
	}
}

// scalings draws what testdata/weights.py does.
func scalings() func() (span, int) {
	state := uint32(1)
	draw := func(n int) int {
		state = state*1664525 + 1013904223
		return int(state>>8) % n
	}
	return func() (span, int) {
		n, m := 1+draw(500), 1+draw(300)
		start := draw(4 * n)
		end := start + 1 + draw(8*n-start)
		if draw(2) == 1 {
			return whole(n), m
		}
		return span{n, float32(start) / 8, float32(end) / 8}, m
	}
}

func weightBytes(s weighing, m int) []byte {
	var b []byte
	scratch := make([]float64, s.mostTaps())
	for o := range m {
		first, w := s.weights(o, scratch)
		b = binary.LittleEndian.AppendUint32(b, uint32(first))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(w)))
		for _, v := range w {
			b = binary.LittleEndian.AppendUint32(b, uint32(fixed(v)))
		}
	}
	return b
}
