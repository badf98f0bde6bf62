package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// glob is a pattern of names or paths. What most patterns are, a name, a folder with all below it, or anything, is told without a search. A search takes no
// longer than pattern times text, whatever they are: a job chooses its paths.
type glob struct {
	text   string
	prefix string // what every match begins with
	rest   rest
}

type rest uint8

const (
	nothing  rest = iota // it is the prefix
	below                // it is the prefix, or lies below it
	anything             // it begins with the prefix
	parts                // it has the parts of the pattern
	letters              // it has the letters of the pattern
)

// newGlob reads a pattern. In a path "*" and "?" stand for characters other than a slash and "**", between two slashes, for any number of parts, also none;
// in a name "*" stands for any characters.
func newGlob(s string, path bool) (glob, error) {
	switch {
	case path && !strings.HasPrefix(s, "/"):
		return glob{}, fmt.Errorf("%q: a path begins with a slash", s)
	case path && strings.HasSuffix(s, "/"):
		return glob{}, fmt.Errorf("%q: write %s for the folder alone, or %s** for all that is in it", s, strings.TrimRight(s, "/"), s)
	case strings.ContainsAny(s, "[]{}\\"):
		return glob{}, fmt.Errorf("%q: only *, ? and, in paths, ** stand for something; write several patterns instead of sets", s)
	}
	i := strings.IndexAny(s, "*?")
	if i < 0 {
		return glob{text: s, prefix: s}, nil
	}
	g := glob{text: s, prefix: s[:i], rest: letters}
	switch {
	case !path && s[i:] == "*":
		g.rest = anything
	case !path:
	case s[i:] == "**" && strings.HasSuffix(g.prefix, "/"):
		g.prefix, g.rest = strings.TrimSuffix(g.prefix, "/"), below
	case slices.ContainsFunc(strings.Split(s, "/"), func(part string) bool { return part != "**" && strings.Contains(part, "**") }):
		return glob{}, fmt.Errorf("%q: ** stands alone between two slashes", s)
	default:
		g.rest = parts
		if strings.HasPrefix(s[i:], "**") { // the slash before it may be the end
			g.prefix = strings.TrimSuffix(g.prefix, "/")
		}
	}
	return g, nil
}

func (g glob) match(s string) bool {
	if !strings.HasPrefix(s, g.prefix) {
		return false
	}
	after := s[len(g.prefix):]
	switch g.rest {
	case nothing:
		return after == ""
	case below:
		return after == "" || after[0] == '/'
	case anything:
		return true
	}
	if g.rest == parts {
		return matchParts(g.text, s)
	}
	return matchLetters(g.text, s)
}

// matchParts matches a path. Only the last "**" that was met has to take more where something does not fit: what an earlier one would take, it can.
func matchParts(pattern, s string) bool {
	if s != "" && s[0] != '/' {
		return false
	}
	again, from := "", "" // behind the last "**", and where it ends by now
	for {
		switch {
		case pattern == "/**", pattern == "" && s == "":
			return true
		case strings.HasPrefix(pattern, "/**/"):
			pattern = pattern[len("/**"):]
			again, from = pattern, s
			continue
		}
		if pattern != "" && s != "" {
			want, then := part(pattern)
			has, after := part(s)
			if matchLetters(want, has) {
				pattern, s = then, after
				continue
			}
		}
		if from == "" {
			return false
		}
		_, from = part(from)
		pattern, s = again, from
	}
}

// part cuts the first part off a path that begins with a slash.
func part(path string) (first, rest string) {
	if i := strings.IndexByte(path[1:], '/'); i >= 0 {
		return path[1 : 1+i], path[1+i:]
	}
	return path[1:], ""
}

// matchLetters matches a name, or a part of a path, in the same way.
func matchLetters(pattern, s string) bool {
	again, from := "", ""
	for {
		if pattern != "" && pattern[0] == '*' {
			if pattern = pattern[1:]; pattern == "" {
				return true
			}
			again, from = pattern, s
			continue
		}
		if pattern == "" && s == "" {
			return true
		}
		if pattern != "" && s != "" {
			n := 1
			if pattern[0] == '?' {
				_, n = utf8.DecodeRuneInString(s)
			}
			if pattern[0] == '?' || pattern[0] == s[0] {
				pattern, s = pattern[1:], s[n:]
				continue
			}
		}
		if from == "" {
			return false
		}
		_, n := utf8.DecodeRuneInString(from)
		pattern, from = again, from[n:]
		s = from
	}
}

// globs are patterns of which one has to match; none of them match anything.
type globs []glob

func (g globs) match(s string) bool {
	for i := range g {
		if g[i].match(s) {
			return true
		}
	}
	return len(g) == 0
}

func (g globs) String() string {
	all := make([]string, len(g))
	for i := range g {
		all[i] = g[i].text
	}
	return strings.Join(all, ", ")
}

// globs reads one pattern or a list of them.
func (v value) globs(path bool) globs {
	var all globs
	for _, s := range v.words() {
		if s == "" {
			continue // said already
		}
		g, err := newGlob(s, path)
		if err != nil {
			v.wrong("%v", err)
			continue
		}
		all = append(all, g)
	}
	return all
}
