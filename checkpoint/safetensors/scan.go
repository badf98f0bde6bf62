package safetensors

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep a value that is skipped may be nested.
const maxDepth = 128

// scanner reads JSON token by token. It gives strings as parts of src where they have no escapes, and accepts nothing that
// RFC 8259 does not. src must be valid UTF-8.
type scanner struct {
	src string
	pos int
}

func (s *scanner) fail(rule Rule, format string, args ...any) error {
	return &Error{Rule: rule, Off: prefix + int64(s.pos), Problem: fmt.Sprintf(format, args...)}
}

// peek skips white space and returns the byte that follows; 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; c {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// found describes what stands at pos.
func (s *scanner) found() string {
	if s.pos >= len(s.src) {
		return "the end"
	}
	r, _ := utf8.DecodeRuneInString(s.src[s.pos:])
	return strconv.QuoteRune(r)
}

// expect takes one byte of the grammar.
func (s *scanner) expect(c byte) error {
	if s.peek() != c || s.pos >= len(s.src) {
		return s.fail(RuleJSON, "%s where %q must be", s.found(), c)
	}
	s.pos++
	return nil
}

// take takes c if it comes next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.pos >= len(s.src) {
		return false
	}
	s.pos++
	return true
}

// list reads what stands between brackets that are already open, element by element, up to the closing one.
func (s *scanner) list(closing byte, element func() error) error {
	if s.take(closing) {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.take(closing) {
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// key reads a name and its colon.
func (s *scanner) key() (string, error) {
	name, err := s.str()
	if err != nil {
		return "", err
	}
	return name, s.expect(':')
}

// str reads a string.
func (s *scanner) str() (string, error) {
	if err := s.expect('"'); err != nil {
		return "", err
	}
	for i := s.pos; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == '"':
			text := s.src[s.pos:i]
			s.pos = i + 1
			return text, nil
		case c == '\\':
			return s.escaped()
		case c < 0x20:
			s.pos = i
			return "", s.fail(RuleJSON, "control character %#02x in a string", c)
		}
	}
	s.pos = len(s.src)
	return "", s.fail(RuleJSON, "a string without its end")
}

// escaped reads the rest of a string that has escapes.
func (s *scanner) escaped() (string, error) {
	var text strings.Builder
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		switch {
		case c == '"':
			s.pos++
			return text.String(), nil
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			text.WriteRune(r)
		case c < 0x20:
			return "", s.fail(RuleJSON, "control character %#02x in a string", c)
		default:
			text.WriteByte(c)
			s.pos++
		}
	}
	return "", s.fail(RuleJSON, "a string without its end")
}

// escape reads one escape.
func (s *scanner) escape() (rune, error) {
	if s.pos+1 >= len(s.src) {
		return 0, s.fail(RuleJSON, "a string without its end")
	}
	if c := s.src[s.pos+1]; c != 'u' {
		at := strings.IndexByte(`"\/bfnrt`, c)
		if at < 0 {
			return 0, s.fail(RuleJSON, "unknown escape \\%s", strconv.QuoteRune(rune(c)))
		}
		s.pos += 2
		return rune("\"\\/\b\f\n\r\t"[at]), nil
	}
	r, err := s.hex()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	// Two names with lone surrogates would become one in text that has no place for them.
	if s.pos+1 < len(s.src) && s.src[s.pos] == '\\' && s.src[s.pos+1] == 'u' {
		low, err := s.hex()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, s.fail(RuleJSON, "half of a surrogate pair, \\u%04x", r)
}

// hex reads \u and four digits.
func (s *scanner) hex() (rune, error) {
	if s.pos+6 > len(s.src) {
		return 0, s.fail(RuleJSON, "a string without its end")
	}
	v := rune(0)
	for _, c := range []byte(s.src[s.pos+2 : s.pos+6]) {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 || c < '0' {
			return 0, s.fail(RuleJSON, "\\u and something that is no hexadecimal number")
		}
		v = v<<4 | rune(digit)
	}
	s.pos += 6
	return v, nil
}

// uint reads a number that is written as an unsigned integer: no sign, fraction, exponent or leading zero.
func (s *scanner) uint() (uint64, error) {
	s.peek()
	start, v := s.pos, uint64(0)
	for s.pos < len(s.src) {
		c := s.src[s.pos] - '0'
		if c > 9 {
			break
		}
		if v > (1<<64-1)/10 || v*10 > 1<<64-1-uint64(c) {
			return 0, s.fail(RuleTensor, "a number of more than 64 bits")
		}
		v = v*10 + uint64(c)
		s.pos++
	}
	if s.pos == start {
		return 0, s.fail(RuleTensor, "%s where an unsigned integer must be", s.found())
	}
	if s.pos-start > 1 && s.src[start] == '0' {
		return 0, s.fail(RuleJSON, "a number with leading zeros")
	}
	if s.pos < len(s.src) && strings.IndexByte(".eE", s.src[s.pos]) >= 0 {
		return 0, s.fail(RuleTensor, "a number with a fraction or an exponent where an unsigned integer must be")
	}
	return v, nil
}

// skip reads any value, of which nobody asks what it is.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return s.fail(RuleJSON, "values nested more than %d deep", maxDepth)
	}
	switch c := s.peek(); {
	case c == '{':
		s.pos++
		return s.list('}', func() error {
			if _, err := s.key(); err != nil {
				return err
			}
			return s.skip(depth + 1)
		})
	case c == '[':
		s.pos++
		return s.list(']', func() error { return s.skip(depth + 1) })
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		_, err := s.number()
		return err
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(s.src[s.pos:], word) {
			s.pos += len(word)
			return nil
		}
	}
	return s.fail(RuleJSON, "%s where a value must be", s.found())
}

// number reads any number and returns its text.
func (s *scanner) number() (string, error) {
	s.peek()
	start := s.pos
	digits := func() int {
		from := s.pos
		for s.pos < len(s.src) && s.src[s.pos]-'0' <= 9 {
			s.pos++
		}
		return s.pos - from
	}
	is := func(set string) bool {
		if s.pos < len(s.src) && strings.IndexByte(set, s.src[s.pos]) >= 0 {
			s.pos++
			return true
		}
		return false
	}
	is("-")
	first := s.pos
	n := digits()
	bad := n == 0 || n > 1 && s.src[first] == '0'
	if !bad && is(".") {
		bad = digits() == 0
	}
	if !bad && is("eE") {
		is("+-")
		bad = digits() == 0
	}
	if bad {
		return "", s.fail(RuleJSON, "what should be a number is none")
	}
	return s.src[start:s.pos], nil
}
