package sasl

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxChallenge bounds a DIGEST-MD5 message of the server in bytes (RFC 2831, section 2.1.1 and 2.1.3).
const maxChallenge = 2048

// directive is one name=value of a DIGEST-MD5 message; the name is in lower case, the value without quotes.
type directive struct{ name, value string }

// parseDirectives reads a list of directives: RFC 2831, section 7.1.
func parseDirectives(message []byte) ([]directive, error) {
	if len(message) > maxChallenge {
		return nil, fmt.Errorf("%d bytes are more than %d", len(message), maxChallenge)
	}
	if !utf8.Valid(message) {
		return nil, errors.New("not UTF-8")
	}
	var list []directive
	for rest := skipTo(string(message), blanks+","); rest != ""; {
		d, after, err := parseDirective(rest)
		if err != nil {
			return nil, fmt.Errorf("directive %d: %w", len(list)+1, err)
		}
		list = append(list, d)
		after = skipTo(after, blanks)
		if after != "" && after[0] != ',' {
			return nil, fmt.Errorf("directive %d (%s): no comma after it", len(list), d.name)
		}
		rest = skipTo(after, blanks+",")
	}
	return list, nil
}

const blanks = " \t\r\n"

func skipTo(s, cutset string) string { return strings.TrimLeft(s, cutset) }

func parseDirective(s string) (d directive, rest string, err error) {
	n := tokenLen(s)
	if n == 0 {
		return d, "", errors.New("no name")
	}
	d.name = strings.ToLower(s[:n])
	rest, ok := strings.CutPrefix(skipTo(s[n:], blanks), "=")
	if !ok {
		return d, "", fmt.Errorf("%.32q: no = after the name", d.name)
	}
	rest = skipTo(rest, blanks)
	if strings.HasPrefix(rest, `"`) {
		d.value, rest, err = unquote(rest[1:])
	} else if n = tokenLen(rest); n > 0 {
		d.value, rest = rest[:n], rest[n:]
	} else {
		err = errors.New("no value")
	}
	if err != nil {
		return d, "", fmt.Errorf("%.32q: %w", d.name, err)
	}
	return d, rest, nil
}

// tokenLen returns how many bytes at the start of s are characters of a token.
func tokenLen(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
	if n < 0 {
		return len(s)
	}
	return n
}

// unquote reads a quoted string whose opening quote was cut off.
func unquote(s string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], nil
		case '\\':
			if i++; i == len(s) {
				return "", "", errors.New("the quoted value has no end")
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", errors.New("the quoted value has no end")
}

// quote writes a quoted string.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
