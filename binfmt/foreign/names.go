package foreign

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/binfmt"
)

// NameRule has WebDataset's rule of which files belong to a sample, as expressions that match its own.
type NameRule struct{ sample, skip *regexp.Regexp }

// NewNameRule returns the rule.
func NewNameRule() NameRule {
	return NameRule{
		sample: regexp.MustCompile(`^((?:.*/|)[^.]+)[.]([^/]*)$`),
		skip:   regexp.MustCompile(`^__[^/]*__($|/)`),
	}
}

// Split returns the key of the sample that a file belongs to and the field it is, in lower case; false if it belongs to none.
func (r NameRule) Split(name string) (key, field string, ok bool) {
	if r.skip.MatchString(name) {
		return "", "", false
	}
	m := r.sample.FindStringSubmatch(name)
	if m == nil {
		return "", "", false
	}
	return m[1], strings.ToLower(m[2]), true
}

// FieldName turns a container's name of a part or column into one that a field may have.
func FieldName(raw string) string {
	name := strings.ReplaceAll(raw, ".", "_")
	switch {
	case name == "":
		return "_"
	case name == "key":
		return "key_"
	case binfmt.CheckFieldName(name) != nil:
		return strings.Map(func(r rune) rune {
			if r == utf8.RuneError || !strconv.IsPrint(r) {
				return '_'
			}
			return r
		}, name[:min(len(name), 200)])
	}
	return name
}

// KeyText is a name as an index holds it. Bytes that are no UTF-8, and control characters, are written as \xNN.
func KeyText(raw string) string {
	if utf8.ValidString(raw) && !strings.ContainsFunc(raw, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return raw
	}
	var b strings.Builder
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRuneInString(raw[i:])
		if r == utf8.RuneError && n == 1 || r < 0x20 || r == 0x7f {
			fmt.Fprintf(&b, `\x%02x`, raw[i])
		} else {
			b.WriteString(raw[i : i+n])
		}
		i += n
	}
	return b.String()
}
