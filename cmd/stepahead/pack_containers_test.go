package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

// zipTo writes a file compressed with gzip.
func zipTo(t *testing.T, to string, data []byte) {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	if err := errors.Join(err, w.Close(), os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestPackContainers packs, shows and verifies a dataset of each container, which is found out by content. The same command again finds it
// there.
func TestPackContainers(t *testing.T) {
	root := t.TempDir()
	copyTo(t, "../../binfmt/foreign/litdata/testdata/zipped", filepath.Join(root, "lit"))
	copyTo(t, "../../binfmt/foreign/mds/testdata/kept", filepath.Join(root, "mds"))
	if err := os.Remove(filepath.Join(root, "mds/shard.00000.mds")); err != nil {
		t.Fatal(err)
	}
	copyTo(t, testdata.Path(t, "columnar/parquet/alltypes_tiny_pages_plain.parquet"), filepath.Join(root, "all/x.parquet"))
	copyTo(t, testdata.Path(t, "columnar/parquet/alltypes_tiny_pages_plain.parquet"), filepath.Join(root, "plain"))
	zipTo(t, filepath.Join(root, "m.tfrecord.gz"), testdata.Read(t, "shards/grain/morris_sequence_first_5.tfrecord"))
	for _, name := range []string{"00.tar.gz", "01.tgz"} {
		zipTo(t, filepath.Join(root, "tars", name), tarOf(t, name, 3))
	}
	copyTo(t, testdata.Path(t, "tar/webdataset/sample.tgz"), filepath.Join(root, "sample.tgz"))
	columns := " --field id --field string_col --field double_col --field bool_col"
	for _, c := range []struct {
		source, container string
		samples           int64
		shows             []string
	}{
		{"lit", "litdata", 7, []string{"image/jpeg", "grid"}},
		{"lit/index.json --field picture=image --field label", "litdata", 7, []string{"picture", "label"}},
		{"mds", "mds", 3, []string{"sums"}},
		{"all" + columns, "parquet", 7300, []string{"double_col", "float64"}},
		{"plain --format parquet" + columns, "parquet", 7300, []string{"utf8"}},
		{"plain" + columns, "parquet", 7300, []string{"bool_col"}},
		{"m.tfrecord.gz", "tfrecord", 5, []string{"record"}},
		{"tars", "tar", 6, []string{"image", "label"}},
		{"tars/{00.tar.gz,01.tgz} --media label", "tar", 6, []string{"12 parts in the index"}},
		{"sample.tgz", "tar", 90, []string{"image"}},
	} {
		t.Run(c.source, func(t *testing.T) {
			words := strings.Fields(c.source)
			set := filepath.Join(t.TempDir(), "set")
			args := append([]string{"pack", filepath.Join(root, words[0]), "-o", set, "--json"}, words[1:]...)
			code, out, errOut := command(t, args...)
			var got struct {
				Container string
				Samples   int64
				Already   bool
			}
			if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || got.Container != c.container || got.Samples != c.samples || got.Already {
				t.Fatalf("%d, %v, %s%s", code, err, out, errOut)
			}
			if code, out, errOut := command(t, args...); code != 0 || !strings.Contains(out, `"already":true`) {
				t.Errorf("again: %d, %s%s", code, out, errOut)
			}
			_, shown, _ := command(t, "inspect", set)
			_, bins, _ := command(t, "inspect", set, "--json")
			for _, want := range c.shows {
				if !strings.Contains(shown+bins, want) {
					t.Errorf("inspect: no %q in %s", want, shown)
				}
			}
			if code, out, errOut := command(t, "verify", set); code != 0 || strings.Contains(out, "no sums") {
				t.Errorf("verify: %d, %s%s", code, out, errOut)
			}
		})
	}
}

// TestPackContainerCodes: what cannot be packed, and flags that say nothing of the source, are told.
func TestPackContainerCodes(t *testing.T) {
	root := t.TempDir()
	copyTo(t, testdata.Path(t, "columnar/parquet/list_columns.parquet"), filepath.Join(root, "list.parquet"))
	copyTo(t, gifs(t, 2), filepath.Join(root, "gifs"))
	zipTo(t, filepath.Join(root, "cut.tar.gz"), tarOf(t, "x", 3)[:1000])
	zipTo(t, filepath.Join(root, "a.tar.gz"), tarOf(t, "x", 3))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"list.parquet", exit.Found, `"int64_list" (a list)`},
		{"cut.tar.gz", exit.Found, "it was cut"},
		{"a.tar.gz --skip-bad", exit.Misused, "--skip-bad says nothing of tar"},
		{"a.tar.gz --field a.b", exit.Misused, "dot"},
		{"a.tar.gz --policy kind", exit.Misused, "strict or as-peer"},
		{"a.tar.gz --block-size 1000", exit.Misused, "a block has 1000 bytes"},
		{"gifs --media image", exit.Misused, "--media says nothing of files"},
		{"gifs --field a=b", exit.Misused, "the one media field"},
		{"gifs --format tar", exit.Found, "nothing that is tar"},
		{"gifs --format zip", exit.Misused, "want one of energon, tar"},
		{"a.tar.gz --split val", exit.Misused, "--split says nothing of tar"},
		{"{1..9999999}.tar", exit.Misused, "more than 1048576 names"},
		{"none.tar.gz", exit.Environment, "none.tar.gz"},
		{"none*.tar.gz", exit.Environment, "matches nothing"},
	} {
		words := strings.Fields(c.args)
		args := append([]string{"pack", filepath.Join(root, words[0]), "-o", filepath.Join(root, "set")}, words[1:]...)
		if code, _, errOut := command(t, args...); code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: %d %s, want %d and %q", c.args, code, errOut, c.code, c.want)
		}
	}
	set := filepath.Join(root, "files")
	if code, out, errOut := command(t, "pack", filepath.Join(root, "gifs"), "-o", set, "--format", "folder", "--field", "gif"); code != 0 {
		t.Errorf("--format folder: %d %s%s", code, out, errOut)
	}
}
