package worker

import (
	"testing"
)

// A worker's peak is its own, however large the process is that started it.
func TestPeakIsTheWorkersOwn(t *testing.T) {
	ballast := make([]byte, 300<<20)
	for i := range ballast {
		ballast[i] = 1
	}
	p := realPool(t, Options{Workers: 1})
	res, err := p.Run(t.Context(), Job{Plan: decodePlan(t, "")}, Part{Name: "small", Data: pngOf(8, 8, 0, make([]byte, 8*25))}, make([]byte, 8*8*3))
	if err != nil || res.PeakRSS > 100<<20 || res.PeakRSS < 1<<20 {
		t.Errorf("%d MiB, %v", res.PeakRSS>>20, err)
	}
	_ = ballast[len(ballast)-1]
}
