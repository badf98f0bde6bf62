package policy

import (
	"strings"
	"testing"
)

func TestCheckSite(t *testing.T) {
	for _, name := range []string{"east", "eu-west-1", "münchen", strings.Repeat("x", 255), "\ufffd"} {
		if err := CheckSite(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "a b", "a\x1b[2Jb", "a\nb", "a\x7f", "a\u0085", "a\xff", "\xc3", "a\u202eb", strings.Repeat("x", 256)} {
		if CheckSite(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
}
