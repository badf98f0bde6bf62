package megatron

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Split names one of the three datasets that Megatron builds.
type Split int

// The splits, in Megatron's order.
const (
	Train Split = iota
	Valid
	Test
	splits
)

// String returns Megatron's name of the split.
func (s Split) String() string { return [...]string{"train", "valid", "test"}[s] }

// A share is the part [from, to) of a dataset's sequences, as fractions.
type share struct{ from, to float64 }

var whole = share{0, 1}

// parseSplit reads Megatron's --split: up to three numbers, whose ratio is that of the splits. A
// split without a share is nil.
func parseSplit(text string) ([splits]*share, error) {
	var shares [splits]*share
	ratio := make([]float64, splits)
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	if len(fields) == 0 || len(fields) > int(splits) {
		return shares, fmt.Errorf("split %q: must be up to three numbers, for training, validation and test: for example 969,30,1", text)
	}
	for i, f := range fields {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || strings.Trim(f, ".0123456789") != "" || math.IsInf(v, 1) {
			return shares, fmt.Errorf("split %q: %q: must be digits with at most one point", text, f)
		}
		ratio[i] = v
	}
	if sum := pairwiseSum(ratio); sum == 0 || math.IsInf(sum, 1) {
		return shares, fmt.Errorf("split %q: the numbers add up to %v", text, sum)
	}
	var at float64
	for i, part := range normalise(ratio) {
		if next := at + part; next > at {
			shares[i] = &share{at, next}
			at = next
		}
	}
	return shares, nil
}

// of returns the first sequence of the share and their number, of sequences in all. The ends are
// rounded as Python's round does, half to even.
func (s share) of(sequences int64) (first, count int64) {
	first = int64(math.RoundToEven(float64(s.from * float64(sequences))))
	end := int64(math.RoundToEven(float64(s.to * float64(sequences))))
	return first, end - first
}
