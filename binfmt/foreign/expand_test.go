package foreign

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/store/dir"
)

// TestBraces holds the expansion against what braceexpand 0.1.7, which WebDataset uses, gives.
func TestBraces(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                   "",
		"a.tar":              "a.tar",
		"{1..3}.tar":         "1.tar 2.tar 3.tar",
		"{08..11}":           "08 09 10 11",
		"{3..1}":             "3 2 1",
		"{1..7..3}":          "1 4 7",
		"{a..e..2}":          "a c e",
		"{c..a}":             "c b a",
		"{-1..1}":            "-1 0 1",
		"x{a,b{1,2},}y":      "xay xb1y xb2y xy",
		"{a,b}{1,2}":         "a1 a2 b1 b2",
		"{one}":              "{one}",
		"{}":                 "{}",
		"{{a,b}}":            "{a} {b}",
		"{1..}":              "{1..}",
		`\{a,b\}`:            "{a,b}",
		"s-{000..002}-{x,y}": "s-000-x s-000-y s-001-x s-001-y s-002-x s-002-y",
		"{9223372036854775806..9223372036854775807}":    "9223372036854775806 9223372036854775807",
		"{-9223372036854775807..-9223372036854775808}":  "-9223372036854775807 -9223372036854775808",
		"{9223372036854775806..9223372036854775807..5}": "9223372036854775806",
	} {
		got, err := Braces(pattern)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q %v, want %q", pattern, got, err, want)
		}
	}
	for pattern, want := range map[string]string{
		"{a,b": "never closed", "a}": "never opened", "{0..9999999}": "more than", "{1..1000}{1..1000}{1..1000}": "more than",
		"{-9223372036854775808..9223372036854775807}": "more than", strings.Repeat("{", 5_000_000): "a pattern of 5000000 bytes",
		strings.Repeat("{", 4096): "never closed", "{" + strings.Repeat("0", 1000) + "..1000000}": "bytes in all",
		strings.Repeat("x", 1000) + "{1..1000000}": "bytes in all", "{{1..1000000},{1..1000000}}": "more than",
	} {
		if _, err := Braces(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %v, want %q", pattern, err, want)
		}
	}
	var all Expander
	_, err1 := all.Braces("{1..1000000}")
	if _, err := all.Braces("{1..1000000}"); err1 != nil || err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("two patterns: %v, then %v", err1, err)
	}
}

// FuzzBraces: any pattern is expanded within the limits, or refused.
func FuzzBraces(f *testing.F) {
	for _, p := range []string{"a{1..3}b", "{a,b{c,}}", "{9223372036854775806..9223372036854775807}", "{-9223372036854775808..0..99999}", `\{{x..z..2}`, "{{{{"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		words, err := Braces(pattern)
		if err == nil && (len(words) == 0 || len(words) > maxNames || sizeOfAll(words) > maxNameBytes) {
			t.Fatalf("%d names of %d bytes", len(words), sizeOfAll(words))
		}
	})
}

func TestExpand(t *testing.T) {
	root := t.TempDir()
	for _, f := range []string{"a/1.tar", "a/2.tar", "b/1.tar", "a/.hidden.tar", "a/x.txt", "odd[1].tar"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for pattern, want := range map[string]string{
		"/a/*.tar": "/a/1.tar /a/2.tar", "/*/1.tar": "/a/1.tar /b/1.tar", "/{b,a}/?.tar": "/b/1.tar /a/1.tar /a/2.tar",
		"/odd[1].tar": "/odd[1].tar", "/a/[2-9].tar": "/a/2.tar", "/a/{1..2}.tar": "/a/1.tar /a/2.tar",
	} {
		got, err := Expand(context.Background(), st, pattern)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q %v, want %q", pattern, got, err, want)
		}
	}
	if _, err := Expand(context.Background(), st, "/a/*.mds"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "*.mds") {
		t.Errorf("nothing matches: %v", err)
	}
}
