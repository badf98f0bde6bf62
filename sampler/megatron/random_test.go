package megatron

import (
	"slices"
	"testing"
)

func TestTwisterAndShuffleAreNumPys(t *testing.T) {
	r := newTwister(1234)
	for _, want := range []uint32{822569775, 2137449171, 2671936806} {
		if got := r.uint32(); got != want {
			t.Fatalf("MT19937(1234) gave %d, want %d", got, want)
		}
	}
	x := []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	if err := newTwister(1234).shuffle(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if want := []uint32{7, 2, 9, 1, 0, 8, 4, 5, 6, 3}; !slices.Equal(x, want) {
		t.Errorf("RandomState(1234).shuffle(0..9) gave %v, want %v", x, want)
	}
}

// The sums that numpy.sum gives for i -> 0.1*(i%7+1)/3 over so many terms, in hexadecimal.
func TestSumIsNumPys(t *testing.T) {
	for n, want := range numpySums {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(0.1*float64(i%7+1)) / 3
		}
		if got := pairwiseSum(x); got != want {
			t.Errorf("sum of %d terms is %x, want %x", n, got, want)
		}
	}
}

// numpySums are numpy.sum's of NumPy 2.4.6.
var numpySums = map[int]float64{
	0:     0,
	1:     0x1.1111111111111p-5,
	7:     0x1.ddddddddddddfp-1,
	8:     0x1.eeeeeeeeeeef0p-1,
	9:     0x1.0888888888889p+0,
	15:    0x1.e666666666668p+0,
	16:    0x1.f777777777778p+0,
	100:   0x1.a555555555555p+3,
	127:   0x1.0d55555555557p+4,
	128:   0x1.0e66666666668p+4,
	129:   0x1.1000000000000p+4,
	130:   0x1.1222222222222p+4,
	136:   0x1.1eeeeeeeeeef0p+4,
	255:   0x1.0e66666666666p+5,
	257:   0x1.10ccccccccccep+5,
	1000:  0x1.0a77777777778p+7,
	32766: 0x1.110b333333334p+12,
}
