package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/cmd/exit"
)

// tarOf is a shard of samples with a picture, which need not be one, and a class.
func tarOf(t *testing.T, path string, samples int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range samples {
		for _, m := range [][2]string{{"jpg", "\xff\xd8\xff" + path}, {"cls", fmt.Sprint(i % 2)}} {
			if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%04d.%s", i, m[0]), Size: int64(len(m[1]))}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(m[1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func writeTar(t *testing.T, path string, samples int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, tarOf(t, path, samples), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestIndexCommand: shards beside the dataset, in a folder that is no store, become a dataset that the other commands
// take; a shard that changes is found out.
func TestIndexCommand(t *testing.T) {
	base := t.TempDir()
	for i := range 3 {
		writeTar(t, filepath.Join(base, "shards", fmt.Sprintf("%02d.tar", i)), 4)
	}
	set := filepath.Join(base, "sets", "one")
	classes := filepath.Join(base, "classes.txt")
	if err := os.WriteFile(classes, []byte("cat\ndog\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	pattern := filepath.Join(base, "shards", "{00..02}.tar")
	code, out, errOut := command(t, "index", pattern, "-o", set, "--classes", classes, "--json")
	var result struct {
		Samples, Bins, Classes int
		Read, Bytes            int64
		Identity               string
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 || result.Samples != 12 || result.Bins != 3 || result.Classes != 2 || result.Read > result.Bytes {
		t.Fatalf("%d %s%s %v", code, out, errOut, err)
	}
	if code, out, _ := command(t, "index", pattern, "-o", set, "--classes", classes); code != 0 || !strings.Contains(out, "already indexed") || !strings.Contains(out, result.Identity) {
		t.Errorf("again: %d %s", code, out)
	}
	if code, out, _ := command(t, "inspect", set); code != 0 || !strings.Contains(out, "samples   12") || !strings.Contains(out, "dog") || !strings.Contains(out, filepath.Join(base, "shards/01.tar")) {
		t.Errorf("inspect: %d %s", code, out)
	}
	if code, out, _ := command(t, "verify", set); code != 0 || !strings.Contains(out, "12 parts without a sum") {
		t.Errorf("verify: %d %s", code, out)
	}
	shard := filepath.Join(base, "shards/01.tar")
	if err := os.Chtimes(shard, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := command(t, "verify", set); code != exit.Found || !strings.Contains(out, "changed") || !strings.Contains(out, "01.tar") {
		t.Errorf("verify of a changed shard: %d %s", code, out)
	}
}

func TestIndexCodes(t *testing.T) {
	base := t.TempDir()
	writeTar(t, filepath.Join(base, "a.tar"), 1)
	if err := os.WriteFile(filepath.Join(base, "b.tar"), []byte("\x1f\x8bzip"), 0o644); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "0000.txt"}), w.Close(), os.WriteFile(filepath.Join(base, "d.tar"), text.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	copyTo(t, gifs(t, 2), filepath.Join(base, "pictures"))
	for _, end := range []string{".bin", ".idx"} {
		copyTo(t, "../../binfmt/testdata/megatron/modes"+end, filepath.Join(base, "corpus"+end))
	}
	set := filepath.Join(base, "set")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{filepath.Join(base, "a.tar")}, exit.Misused, "-o DATASET is missing"},
		{[]string{filepath.Join(base, "a.tar"), "-o", set, "--policy", "kind"}, exit.Misused, "strict or as-peer"},
		{[]string{filepath.Join(base, "a.tar"), "-o", set, "--format", "zip"}, exit.Misused, "one of megatron, energon, "},
		{[]string{filepath.Join(base, "a.tar"), "-o", set, "--field", "a.b=jpg"}, exit.Misused, "dot"},
		{[]string{filepath.Join(base, "a.tar"), "-o", set, "--field", "json"}, exit.Found, "no sample has the field json"},
		{[]string{filepath.Join(base, "a.tar"), "-o", set, "--workers", "-1"}, exit.Misused, "--workers -1: must be 0 (the default) to 4096"},
		{[]string{filepath.Join(base, "{a,d}.tar"), "-o", set, "--field", "jpg", "--field", "txt", "--skip-incomplete"}, exit.Found, "each of the 2 samples lacks a field"},
		{[]string{filepath.Join(base, "b.tar"), "-o", set}, exit.Found, "gzip"},
		{[]string{filepath.Join(base, "a.tar"), "-o", set, "--split", "val"}, exit.Misused, "--split says nothing of tar"},
		{[]string{filepath.Join(base, "a.tar"), "-o", set, "--group"}, exit.Misused, "--group says nothing of tar"},
		{[]string{filepath.Join(base, "pictures"), "-o", set, "--split", "all"}, exit.Misused, "--split says nothing of folder"},
		{[]string{filepath.Join(base, "corpus"), "-o", set, "--field", "text"}, exit.Misused, "--field says nothing of megatron"},
		{[]string{filepath.Join(base, "corpus"), "-o", set, "--policy", "as-peer"}, exit.Misused, "--policy says nothing of megatron"},
		{[]string{filepath.Join(base, "a.tar"), "-o", set, "--classes", filepath.Join(base, "none.txt")}, exit.Environment, "--classes: open "},
		{[]string{filepath.Join(base, "{1..9999999}.tar"), "-o", set}, exit.Misused, "more than 1048576 names"},
		{[]string{filepath.Join(base, "{1..999}{1..9999}.tar"), "-o", set}, exit.Misused, "more than 1048576 names"},
		{[]string{filepath.Join(base, "{a.tar"), "-o", set}, exit.Misused, "never closed"},
		{[]string{filepath.Join(base, "[a.tar"), "-o", set}, exit.Misused, "syntax error in pattern"},
		{[]string{"hdfs://ns/a.tar", "-o", set}, exit.Misused, "the source must be in the store of the dataset"},
		{[]string{"s3://bucket/a.tar", "-o", set}, exit.Misused, "the source must be in the store of the dataset"},
		{[]string{filepath.Join(base, "c.tar"), "-o", set}, exit.Environment, "c.tar"},
		{[]string{filepath.Join(base, "*.mds"), "-o", set}, exit.Environment, "matches nothing"},
	} {
		if code, _, errOut := command(t, append([]string{"index"}, c.args...)...); code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: %d %s, want %d and %q", c.args, code, errOut, c.code, c.want)
		}
	}
}
