package daemon

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes with an optional unit.
type Size int64

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// Set implements pflag.Value.
func (s *Size) Set(text string) error {
	number, unit := text, int64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(text, u.suffix); ok {
			number, unit = n, u.bytes
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return fmt.Errorf("%q is not a size: write bytes, or a number with KiB, MiB, GiB or TiB", text)
	}
	*s = Size(n * unit)
	return nil
}

// String implements pflag.Value.
func (s *Size) String() string {
	for i := len(units) - 1; i >= 0; i-- {
		if u := units[i]; *s != 0 && int64(*s)%u.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(*s)/u.bytes, u.suffix)
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type implements pflag.Value.
func (s *Size) Type() string { return "size" }
