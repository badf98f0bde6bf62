package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// units of bytes: decimal ones and binary ones.
var units = map[string]float64{
	"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50,
}

// most bounds every number of bytes, so that sums do not overflow.
const most = float64(1 << 60)

// decimal reads a number of digits with at most one point. No sign, exponent or name.
func decimal(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// quantity reads a number of bytes with its unit, such as 1.5 TiB; 0 needs none. After the unit there must be the suffix, such as /s.
func quantity(s, suffix string) (float64, error) {
	if s == "0" {
		return 0, nil
	}
	i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i < 0 {
		return 0, fmt.Errorf("%q has no unit: write it as 100 GiB%s, or 0", s, suffix)
	}
	n, ok := decimal(s[:i])
	unit, suffixed := strings.CutSuffix(strings.TrimLeft(s[i:], " "), suffix)
	factor, known := units[unit]
	switch {
	case strings.Contains(s, "bit"):
		return 0, fmt.Errorf("%q: bytes are counted here, not bits: 10 Gbit/s are 1.25 GB/s", s)
	case !ok || !suffixed || !known:
		return 0, fmt.Errorf("%q: write a number and a unit, as 100 GiB%s; units are B, KB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB", s, suffix)
	case n*factor > most:
		return 0, fmt.Errorf("%q is more than 1024 PiB", s)
	}
	return n * factor, nil
}

// bytes reads a number of bytes, with a suffix such as /s.
func (v value) bytes(suffix string) int64 { return int64(math.Round(v.amount(suffix))) }

// amount is bytes as a number with a fraction.
func (v value) amount(suffix string) float64 {
	s := v.scalar()
	n, err := quantity(s, suffix)
	if err != nil && s != "" {
		v.wrong("%v", err)
	}
	return n
}

// number reads a number from 0 to a limit.
func (v value) number(limit float64) float64 {
	s := v.scalar()
	n, ok := decimal(s)
	if s != "" && (!ok || n > limit) {
		v.wrong("%q: write a number from 0 to %g", s, limit)
		return 0
	}
	return n
}

// count reads a whole number from 1 to a limit.
func (v value) count(limit int) int {
	s := v.scalar()
	n, err := strconv.Atoi(s)
	if s != "" && (err != nil || n < 1 || n > limit) {
		v.wrong("%q: write a whole number from 1 to %d", s, limit)
		return 0
	}
	return n
}

// part reads a part of a whole, such as 25%.
func (v value) part() float64 {
	s := v.scalar()
	number, percent := strings.CutSuffix(s, "%")
	n, ok := decimal(strings.TrimRight(number, " "))
	if s != "" && (!percent || !ok || n > 100) {
		v.wrong("%q: write a part from 0%% to 100%%", s)
		return 0
	}
	return n / 100
}

// flag reads true or false.
func (v value) flag() bool {
	switch s := v.scalar(); s {
	case "true":
		return true
	case "false", "":
	default:
		v.wrong("%q: write true or false", s)
	}
	return false
}

// span reads a length of time above 0, such as 12h, 90m or 7d.
func (v value) span() time.Duration {
	s := v.scalar()
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok && err != nil {
		var n int
		if n, err = strconv.Atoi(days); err == nil && n <= 36500 {
			d = time.Duration(n) * 24 * time.Hour
		}
	}
	if s != "" && (err != nil || d <= 0) {
		v.wrong("%q: write a length of time above 0, such as 12h, 90m or 7d", s)
		return 0
	}
	return d
}
