package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckSite returns what is wrong with the name of a site.
func CheckSite(name string) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }
	if name == "" || len(name) > 255 || !utf8.ValidString(name) || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("%q is no name of a site: write up to 255 bytes of UTF-8, all of it printable and without spaces", name)
	}
	return nil
}
