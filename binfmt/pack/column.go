package pack

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/binfmt"
)

// listColumn finds out the one kind that all values of a column have. Whole numbers and fractions
// may mix and give float64; nothing else may.
type listColumn struct {
	name   string
	forced binfmt.Kind // by the user, or ""
	kind   binfmt.Kind // so far
	line   int         // where kind was first met
}

func (c *listColumn) add(line int, v binfmt.Value) error {
	if v.Kind == binfmt.UTF8 && (len(v.Str) > binfmt.MaxText || !utf8.ValidString(v.Str)) {
		return fmt.Errorf("text of %d bytes: want UTF-8 of at most %d", len(v.Str), binfmt.MaxText)
	}
	switch {
	case c.forced != "":
		c.kind = c.forced
		if v.Kind != c.forced && (c.forced != binfmt.Float64 || v.Kind != binfmt.Int64) {
			return fmt.Errorf("%q is %s, not the %s asked for", v, v.Kind, c.forced)
		}
	case c.kind == "":
		c.kind, c.line = v.Kind, line
	case c.kind == v.Kind:
	case number(c.kind) && number(v.Kind):
		c.kind = binfmt.Float64
	default:
		return fmt.Errorf("%q is %s, but the column is %s since line %d: a column has one kind; if it is text, say so (--column %s=utf8)",
			v, v.Kind, c.kind, c.line, c.name)
	}
	return nil
}

func number(k binfmt.Kind) bool { return k == binfmt.Int64 || k == binfmt.Float64 }

// settle brings a value to the column's kind, which is now known.
func (c *listColumn) settle(v *binfmt.Value) error {
	if c.kind != binfmt.Float64 || v.Kind != binfmt.Int64 {
		return nil
	}
	f := float64(v.Int)
	if f >= math.MaxInt64 || int64(f) != v.Int {
		return fmt.Errorf("%d has no exact float64, and the column has fractions", v.Int)
	}
	*v = binfmt.Value{Kind: binfmt.Float64, Float: f}
	return nil
}

// parseCell finds out what a piece of text is. A whole number has no plus sign and no leading
// zeros, so that codes such as 007 stay text.
func parseCell(text string, forced binfmt.Kind) (binfmt.Value, error) {
	if forced == binfmt.UTF8 {
		return binfmt.Value{Kind: binfmt.UTF8, Str: text}, nil
	}
	if text == "" {
		return binfmt.Value{}, fmt.Errorf("the value is missing: every sample has every value")
	}
	if v, ok := parseNumber(text); ok {
		return v, nil
	}
	switch text {
	case "true", "True", "TRUE":
		return binfmt.Value{Kind: binfmt.Bool, Bool: true}, nil
	case "false", "False", "FALSE":
		return binfmt.Value{Kind: binfmt.Bool}, nil
	}
	return binfmt.Value{Kind: binfmt.UTF8, Str: text}, nil
}

// parseNumber accepts what JSON accepts as a number.
func parseNumber(text string) (binfmt.Value, bool) {
	digits := text
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if digits == "" || digits[0] < '0' || digits[0] > '9' || len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		return binfmt.Value{}, false
	}
	whole := true
	for i, ch := range digits {
		switch {
		case ch >= '0' && ch <= '9':
		case ch == '.' || ch == 'e' || ch == 'E', (ch == '-' || ch == '+') && i > 0:
			whole = false
		default:
			return binfmt.Value{}, false
		}
	}
	if whole {
		n, err := strconv.ParseInt(text, 10, 64)
		return binfmt.Value{Kind: binfmt.Int64, Int: n}, err == nil
	}
	f, err := strconv.ParseFloat(text, 64)
	return binfmt.Value{Kind: binfmt.Float64, Float: f}, err == nil && !math.IsInf(f, 0)
}
