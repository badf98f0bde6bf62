package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteSize is a flag: a number of bytes, or of KiB, MiB, GiB or TiB.
type byteSize int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// Set implements pflag.Value.
func (b *byteSize) Set(text string) error {
	n, err := parseSize(text)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no size: write 1048576, 1024KiB or 1MiB", text)
	}
	*b = byteSize(n)
	return nil
}

// String implements pflag.Value.
func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*b), 10)
}

// Type implements pflag.Value.
func (b *byteSize) Type() string { return "size" }

// parseSize reads bytes, or a number of KiB, MiB, GiB or TiB; 0 is one.
func parseSize(text string) (int64, error) {
	unit, number := int64(1), text
	for _, u := range sizeUnits {
		if n, ok := strings.CutSuffix(text, u.suffix); ok {
			number, unit = n, u.bytes
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is no size: write 1048576, 1024KiB or 1MiB", text)
	}
	return int64(n) * unit, nil
}

// counted writes how many there are of something, given in the singular.
func counted[N int | int64 | uint64](n N, one string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(one, "ss"):
		one += "es"
	default:
		one += "s"
	}
	return fmt.Sprintf("%d %s", n, one)
}

// formatBytes writes a size with three digits.
func formatBytes(n int64) string {
	text := fmt.Sprintf("%d B", n)
	for _, u := range sizeUnits {
		if n >= u.bytes {
			v := float64(n) / float64(u.bytes)
			if text = fmt.Sprintf("%.3g %s", v, u.suffix); v >= 999.5 { // %g would write 1e+03
				text = fmt.Sprintf("%.0f %s", v, u.suffix)
			}
		}
	}
	return text
}
