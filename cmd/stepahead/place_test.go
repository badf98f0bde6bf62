package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/cmd/version"
)

// TestPathsCanBePasted: whatever store a place is in, a message names a path that leads to the file, or to where it should be, for
// whoever reads it; never a name that only the store knows.
func TestPathsCanBePasted(t *testing.T) {
	base := t.TempDir()
	t.Chdir(base)
	writeTar(t, filepath.Join(base, "tars", "a.tar"), 4)
	cut := tarOf(t, filepath.Join(base, "unused"), 4)
	zipTo(t, filepath.Join(base, "zipped", "b.tar.gz"), cut)
	for name, data := range map[string]string{
		"cut/c.tar": string(cut[:len(cut)/2]), "odd/note.txt": "text", "odd/.hidden": "", "bad/dataset.json": "{", "shards/x.mds": "x", "sums/dataset.sums": "no sums",
		"list/bad.csv": "nothing\n1\n", "class/one/a.gif": "GIF89a1", "class/b.gif": "GIF89a2", "model/model.safetensors": "short",
	} {
		if err := os.MkdirAll(filepath.Join(base, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll("empty", 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := command(t, "index", "tars", "-o", "set"); code != 0 {
		t.Fatal(errOut)
	}
	if err := os.Truncate("tars/a.tar", 512); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"ls", "none"}, {"cat", "none"}, {"cat", "empty"}, {"inspect", "empty"}, {"inspect", "none"}, {"inspect", "bad"}, {"verify", "empty"}, {"verify", "bad"}, {"verify", "set"},
		{"order", "empty", "--batch", "4"}, {"checkpoint", "inspect", "empty"}, {"checkpoint", "inspect", "none"}, {"checkpoint", "inspect", "model"}, {"checkpoint", "cat", "none", "x"},
		{"index", "none.tar", "-o", "x"}, {"index", "none*.tar", "-o", "x"}, {"index", "none{1,}.tar", "none1.tar", "-o", "x"}, {"index", "empty", "-o", "x"}, {"index", "zipped", "-o", "x"},
		{"index", "cut", "-o", "x"}, {"index", "cut/c.tar", "cut/c.tar", "-o", "x"}, {"index", "shards", "-o", "x"}, {"index", "class", "-o", "x"}, {"index", "bad/dataset.json", "-o", "x"},
		{"index", "cut", "-o", "bad"}, {"index", "{1..99999999}.tar", "-o", "x"}, {"index", "x{.tar", "-o", "x"},
		{"pack", "none", "-o", "x"}, {"pack", "empty", "-o", "x"}, {"pack", "odd", "-o", "x"}, {"pack", "list/bad.csv", "-o", "x"}, {"pack", "class", "-o", "x"}, {"pack", "cut", "-o", "x"},
		{"pack", "dir://" + base + "/odd", "-o", "x"}, {"pack", "shards", "-o", "x"}, {"pack", "class/one", "-o", "bad"},
	} {
		code, out, errOut := command(t, args...)
		if code == 0 {
			t.Errorf("%q: it worked: %s", args, out)
		}
		wantPaths(t, args, out+errOut, base)
	}
}

// wantPaths holds each absolute path in a message to what a person could have given, at or below base.
func wantPaths(t *testing.T, args []string, said, base string) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?:^|[\s"(])(/[^\s:"),]*)`).FindAllStringSubmatch(said, -1) {
		if rel, err := filepath.Rel(base, found[1]); err != nil || !filepath.IsLocal(rel) {
			t.Errorf("%q names %s, which is not in %s: %s", args, found[1], base, said)
		}
	}
	named := slices.ContainsFunc(args[1:], func(arg string) bool {
		return len(arg) > 2 && arg != "inspect" && strings.Contains(said, strings.TrimPrefix(arg, "dir://"))
	})
	if !named {
		t.Errorf("%q: nothing that was given is in it: %s", args, said)
	}
}

func TestVersion(t *testing.T) {
	if code, out, _ := command(t, "--version"); code != 0 || out != "stepahead version "+version.Text()+"\n" {
		t.Errorf("%d %q", code, out)
	}
}
