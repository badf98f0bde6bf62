package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// glob is a pattern of names or paths. What most patterns are, a name, a folder with all below it, or anything, is told without a search.
type glob struct {
	text   string
	prefix string // what every match begins with
	rest   rest
	search *regexp.Regexp // of the whole
}

type rest uint8

const (
	nothing  rest = iota // it is the prefix
	below                // it is the prefix, or lies below it
	anything             // it begins with the prefix
	searched
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
	g := glob{text: s, prefix: s[:i], rest: searched}
	switch {
	case !path && s[i:] == "*":
		g.rest = anything
		return g, nil
	case path && s[i:] == "**" && strings.HasSuffix(g.prefix, "/"):
		g.prefix, g.rest = strings.TrimSuffix(g.prefix, "/"), below
		return g, nil
	}
	pattern, err := translate(s, path)
	if err != nil {
		return glob{}, fmt.Errorf("%q: %w", s, err)
	}
	if path && strings.HasPrefix(s[i:], "**") { // the slash before it may be the end
		g.prefix = strings.TrimSuffix(g.prefix, "/")
	}
	g.search, err = regexp.Compile(`^(?s:` + pattern + `)$`)
	return g, err
}

// translate makes a pattern a regular expression.
func translate(s string, path bool) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case path && s[i:] == "/**":
			b.WriteString(`(?:/.*)?`)
			i += 2
		case path && strings.HasPrefix(s[i:], "/**/"):
			b.WriteString(`(?:/[^/]+)*`)
			i += 2 // its second slash is the next part's
		case path && strings.HasPrefix(s[i:], "**"):
			return "", errors.New("** stands alone between two slashes")
		case s[i] == '*' && path:
			b.WriteString(`[^/]*`)
		case s[i] == '*':
			b.WriteString(`.*`)
		case s[i] == '?' && path:
			b.WriteString(`[^/]`)
		case s[i] == '?':
			b.WriteString(`.`)
		default:
			b.WriteString(regexp.QuoteMeta(s[i : i+1]))
		}
	}
	return b.String(), nil
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
	return g.search.MatchString(s)
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
