package foreign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

// Limits of braces and globs: of one pattern in bytes, as of a path, and of all that patterns expand to.
const (
	maxPattern   = 4096
	maxNames     = 1 << 20
	maxNameBytes = 128 << 20
)

// ErrPattern: a list of names with braces and globs is written wrongly, or means too many.
var ErrPattern = errors.New("wrong pattern")

// Expander expands the braces of patterns, all within one limit. The zero value is ready.
type Expander struct{ names, bytes int }

// Expand returns the names in a store that a pattern means: braces first, as shells and WebDataset expand them
// ({000..099}, {a,b}, nested), in their order; then globs (*, ?, [a-z]) in every part of the path, sorted. A name
// that exists as it is written is taken as it is. A glob that matches nothing matches fs.ErrNotExist; a pattern that cannot be
// expanded, ErrPattern.
func Expand(ctx context.Context, st store.Store, pattern string) ([]string, error) {
	if strings.ContainsAny(pattern, "{*?[") {
		if _, err := st.Stat(ctx, pattern); err == nil {
			return []string{pattern}, nil
		}
	}
	words, err := Braces(pattern)
	if err == nil {
		_, err = path.Match(pattern, "") // only to see whether it is one
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", st.Address(pattern), ErrPattern, err)
	}
	var names []string
	for _, w := range words {
		if !strings.ContainsAny(w, "*?[") {
			names = append(names, w)
			continue
		}
		found, err := glob(ctx, st, w)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s matches nothing: %w", st.Address(w), fs.ErrNotExist)
		}
		if names = append(names, found...); len(names) > maxNames {
			return nil, fmt.Errorf("%s: %w: more than %d names", st.Address(pattern), ErrPattern, maxNames)
		}
	}
	return names, nil
}

// glob matches part by part, so that only folders on the way are listed.
func glob(ctx context.Context, st store.Store, pattern string) ([]string, error) {
	found, chosen := []string{"/"}, false
	all := parts(pattern)
	for n, part := range all {
		var next []string
		for _, dir := range found {
			names, err := step(ctx, st, dir, part, n == len(all)-1, chosen)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", st.Address(pattern), err)
			}
			next = append(next, names...)
		}
		found, chosen = next, chosen || strings.ContainsAny(part, "*?[")
	}
	return found, nil
}

// step returns what one part of a pattern means in a folder. check says that a plain name need not be there.
func step(ctx context.Context, st store.Store, dir, part string, last, check bool) ([]string, error) {
	if !strings.ContainsAny(part, "*?[") {
		name := path.Join(dir, part)
		if !check {
			return []string{name}, nil
		}
		if _, err := st.Stat(ctx, name); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		return []string{name}, nil
	}
	infos, err := st.List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range infos {
		base := path.Base(i.Name)
		ok, err := path.Match(part, base)
		if err != nil {
			return nil, err
		}
		if ok && (i.Dir || last) && (part[0] == '.' || base[0] != '.') {
			names = append(names, i.Name)
		}
	}
	return names, nil
}

// Braces expands {a,b} and {1..9}, nested and several of them, as braceexpand does, which WebDataset uses. Braces
// with neither a comma nor two dots stay as they are.
func Braces(pattern string) ([]string, error) { return new(Expander).Braces(pattern) }

// Braces expands a pattern as the function does, and counts what it gives.
func (e *Expander) Braces(pattern string) ([]string, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("a pattern of %d bytes, want at most %d", len(pattern), maxPattern)
	}
	words, rest, err := sequence(pattern, false)
	if err == nil && rest != "" {
		err = fmt.Errorf("the brace before %.20q was never opened", rest)
	}
	if err != nil {
		return nil, err
	}
	e.names += len(words)
	e.bytes += sizeOfAll(words)
	return words, within(e.names, e.bytes)
}

// within says whether so many names of so many bytes in all are allowed.
func within(names, bytes int) error {
	if names > maxNames {
		return fmt.Errorf("more than %d names", maxNames)
	}
	if bytes > maxNameBytes {
		return fmt.Errorf("names of more than %d bytes in all", maxNameBytes)
	}
	return nil
}

func sizeOfAll(words []string) int {
	n := 0
	for _, w := range words {
		n += len(w)
	}
	return n
}

// sequence expands up to the end, or inside braces up to a comma or the closing brace, and returns what is left.
func sequence(s string, inside bool) (words []string, rest string, err error) {
	words = []string{""}
	for s != "" {
		var options []string
		switch c := s[0]; {
		case c == '{':
			if options, s, err = braced(s[1:]); err != nil {
				return nil, "", err
			}
		case inside && (c == ',' || c == '}'), c == '}':
			return words, s, nil
		default:
			n := 1
			if c == '\\' && len(s) > 1 {
				s = s[1:]
			}
			options, s = []string{s[:n]}, s[n:]
		}
		if words, err = product(words, options); err != nil {
			return nil, "", err
		}
	}
	return words, "", nil
}

func product(a, b []string) ([]string, error) {
	if err := within(len(a)*len(b), len(a)*sizeOfAll(b)+len(b)*sizeOfAll(a)); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			out = append(out, x+y)
		}
	}
	return out, nil
}

// braced expands what follows an opening brace, up to the closing one.
func braced(s string) (options []string, rest string, err error) {
	start, choices := s, 0
	for {
		words, left, err := sequence(s, true)
		if err != nil {
			return nil, "", err
		}
		if left == "" {
			return nil, "", fmt.Errorf("the brace before %.20q is never closed", start)
		}
		options = append(options, words...)
		if err := within(len(options), 0); err != nil {
			return nil, "", err
		}
		choices++
		if s = left[1:]; left[0] == '}' {
			break
		}
	}
	if choices > 1 {
		return options, s, nil
	}
	if numbers, ok, err := span(start[:len(start)-len(s)-1]); ok || err != nil {
		return numbers, s, err
	}
	for i := range options {
		options[i] = "{" + options[i] + "}"
	}
	return options, s, nil
}

// span expands 1..9, 01..10, 9..1, 0..100..10 and a..f.
func span(s string) (words []string, ok bool, err error) {
	ends := strings.Split(s, "..")
	if len(ends) != 2 && len(ends) != 3 {
		return nil, false, nil
	}
	step := int64(1)
	if len(ends) == 3 {
		if step, err = strconv.ParseInt(ends[2], 10, 32); err != nil || step == 0 {
			return nil, false, nil
		}
		step = max(step, -step)
	}
	width := 0
	print := func(n int64) string { return fmt.Sprintf("%0*d", width, n) }
	from, err1 := strconv.ParseInt(ends[0], 10, 64)
	to, err2 := strconv.ParseInt(ends[1], 10, 64)
	switch {
	case err1 == nil && err2 == nil:
		if padded(ends[0]) || padded(ends[1]) {
			width = max(len(ends[0]), len(ends[1]))
		}
	case isLetter(ends[0]) && isLetter(ends[1]):
		from, to = int64(ends[0][0]), int64(ends[1][0])
		print = func(n int64) string { return string(rune(n)) }
	default:
		return nil, false, nil
	}
	last := uint64(max(from, to)-min(from, to)) / uint64(step) // the difference, also where it is none of an int64
	if err := within(int(min(last, maxNames))+1, int(min(last, maxNames))*width); err != nil {
		return nil, false, fmt.Errorf("{%s}: %w", s, err)
	}
	if from > to {
		step = -step
	}
	for i := range int64(last) + 1 {
		words = append(words, print(from+i*step))
	}
	return words, true, nil
}

func padded(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return len(s) > 1 && s[0] == '0'
}

func isLetter(s string) bool {
	return len(s) == 1 && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
}
