package sasl

import (
	"slices"
	"strings"
	"testing"
)

func TestParseQOPs(t *testing.T) {
	for value, want := range map[string][]QOP{
		"":                                 nil,
		"privacy":                          {Privacy},
		" Authentication , integrity,":     {Auth, Integrity},
		"privacy,integrity,authentication": {Privacy, Integrity, Auth},
	} {
		if got, err := ParseQOPs(value); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
	if _, err := ParseQOPs("auth-conf"); err == nil || !strings.Contains(err.Error(), "authentication, integrity, privacy") {
		t.Errorf("a wrong name: %v", err)
	}
	if s := QOP(7).String() + Cipher(7).String(); s != "QOP(7)Cipher(7)" {
		t.Error(s)
	}
}
