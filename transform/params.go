package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// params reads the parameters of one operator. The first problem is kept in err and makes every later
// read return its default; finish reports it, or a parameter that nobody read.
type params struct {
	where string // "ops[1] Resize"
	left  map[string]any
	known []string // what was asked for, given or not
	err   error
}

func (p *params) fail(key, format string, args ...any) {
	if p.err == nil {
		p.err = planError(p.where, "%s: %s", key, fmt.Sprintf(format, args...))
	}
}

// take removes and returns a parameter; null and absent are both "not given".
func (p *params) take(key string) (any, bool) {
	p.known = append(p.known, key)
	v, ok := p.left[key]
	delete(p.left, key)
	return v, ok && v != nil
}

// given reports whether a parameter is there to be taken.
func (p *params) given(key string) bool {
	p.known = append(p.known, key)
	if p.left[key] == nil {
		delete(p.left, key)
	}
	_, ok := p.left[key]
	return ok
}

func (p *params) finish() error {
	if len(p.left) == 0 {
		return p.err
	}
	key := slices.Sorted(maps.Keys(p.left))[0]
	slices.Sort(p.known)
	unknown := fmt.Sprintf("unknown parameter %v; known are %s", show(key), strings.Join(slices.Compact(p.known), ", "))
	var first *Error
	if errors.As(p.err, &first) { // the unknown one may be what is missing, misspelt
		unknown = first.Detail + "; and " + unknown
	}
	return planError(p.where, "%s", unknown)
}

// choice reads a string that must be one of allowed; the first is the default.
func (p *params) choice(key string, allowed ...string) string {
	v, given := p.take(key)
	if !given {
		return allowed[0]
	}
	s, ok := v.(string)
	if !ok || !slices.Contains(allowed, s) {
		p.fail(key, "%v is not offered; use %s", show(v), strings.Join(allowed, ", "))
		return allowed[0]
	}
	return s
}

func (p *params) boolean(key string, absent bool) bool {
	v, given := p.take(key)
	if !given {
		return absent
	}
	b, ok := v.(bool)
	if !ok {
		p.fail(key, "%v is not true or false", show(v))
	}
	return b
}

// integer reads a whole number in [lo, hi].
func (p *params) integer(key string, absent, lo, hi int) int {
	v, given := p.take(key)
	if !given {
		return absent
	}
	return p.whole(key, v, lo, hi)
}

func (p *params) whole(key string, v any, lo, hi int) int {
	f, ok := number(v)
	if !ok || f != math.Trunc(f) || f < float64(lo) || f > float64(hi) {
		p.fail(key, "%v is not a whole number from %d to %d", show(v), lo, hi)
		return lo
	}
	return int(f)
}

func (p *params) float(key string, absent, lo, hi float64) float64 {
	v, given := p.take(key)
	if !given {
		return absent
	}
	return p.between(key, v, lo, hi)
}

func (p *params) between(key string, v any, lo, hi float64) float64 {
	f, ok := number(v)
	if !ok || f < lo || f > hi {
		p.fail(key, "%v is not a number from %v to %v", show(v), lo, hi)
		return lo
	}
	return f + 0 // -0 becomes 0, so that both have one spelling
}

// interval reads [low, high] with low <= high, both in [lo, hi].
func (p *params) interval(key string, absent [2]float64, lo, hi float64) [2]float64 {
	v, given := p.take(key)
	if !given {
		return absent
	}
	list, ok := v.([]any)
	if !ok || len(list) != 2 {
		p.fail(key, "%v is not a list of two numbers", show(v))
		return absent
	}
	got := [2]float64{p.between(key, list[0], lo, hi), p.between(key, list[1], lo, hi)}
	if got[0] > got[1] {
		p.fail(key, "%v is above %v; write the smaller number first", got[0], got[1])
	}
	return got
}

// sizes reads a required size: a whole number or a list of one (one entry), or of two, which messages call both.
func (p *params) sizes(key, both string) []int {
	v, given := p.take(key)
	if !given {
		p.fail(key, "is missing; give a number or %s", both)
		return []int{1}
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) != 1 && len(list) != 2 {
		p.fail(key, "has %d entries; give a number or %s", len(list), both)
		return []int{1}
	}
	got := make([]int, len(list))
	for i, e := range list {
		got[i] = p.whole(key, e, 1, maxSize)
	}
	return got
}

// heightWidth reads the required parameter size; one number is a square.
func (p *params) heightWidth() (h, w int) {
	size := p.sizes("size", "[height, width]")
	return size[0], size[len(size)-1]
}

// floats reads a required list of numbers: one that holds for all channels, or one a channel.
func (p *params) floats(key string) []float64 {
	v, given := p.take(key)
	if !given {
		p.fail(key, "is missing; give a list of %d numbers, or of one", colours)
		return nil
	}
	list, ok := v.([]any)
	if !ok || (len(list) != 1 && len(list) != colours) {
		p.fail(key, "%v is not a list of %d numbers, or of one", show(v), colours)
		return nil
	}
	got := make([]float64, len(list))
	for i, e := range list {
		got[i] = p.between(key, e, -math.MaxFloat32, math.MaxFloat32)
	}
	return got
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	return f, err == nil
}

// show renders a JSON value for a message, shortened: it may come from anyone.
func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "the value"
	}
	if len(b) > 60 {
		return strings.ToValidUTF8(string(b[:60]), "") + "..." // the cut may be inside a character
	}
	return string(b)
}
