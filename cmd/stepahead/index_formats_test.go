package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

// copyTo copies a file or folder.
func copyTo(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	if err == nil && info.IsDir() {
		err = os.CopyFS(to, os.DirFS(from))
	} else if err == nil {
		var data []byte
		if data, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, data, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestIndexFormats indexes, shows and verifies a dataset of each container, which is found out by content. The same command
// again finds it there.
func TestIndexFormats(t *testing.T) {
	root := t.TempDir()
	tokens := testdata.Path(t, "tokens/megatron")
	copyTo(t, filepath.Join(tokens, "test_text_document.bin"), filepath.Join(root, "tokens/x_text.bin"))
	copyTo(t, filepath.Join(tokens, "test_text_document.idx"), filepath.Join(root, "tokens/x_text.idx"))
	copyTo(t, testdata.Path(t, "shards/mds/joining-color"), filepath.Join(root, "color"))
	copyTo(t, testdata.Path(t, "shards/mds/naive_MDSdataset"), filepath.Join(root, "parts"))
	copyTo(t, testdata.Path(t, "shards/grain/morris_sequence_first_5.tfrecord"), filepath.Join(root, "m.tfrecord"))
	copyTo(t, gifs(t, 6), filepath.Join(root, "gifs"))
	copyTo(t, testdata.Path(t, "tokens/megatron/split_data.json"), filepath.Join(root, "pairs/a.json"))
	copyTo(t, testdata.Path(t, "tokens/megatron/data_args.txt"), filepath.Join(root, "pairs/a.txt"))
	for _, c := range []struct {
		source, container string
		samples           int64
		bins              int
		shows             []string
	}{
		{"tokens/x_text.bin", "megatron", 1000, 1, []string{"tokens"}},
		{"tokens/x_text", "megatron", 1000, 1, []string{"tokens"}},
		{"tokens", "megatron", 1000, 1, []string{"tokens"}},
		{"color --field label=_id --field Color=color", "mds", 100, 1, []string{"Color", "label"}},
		{"color/index.json", "mds", 100, 1, []string{"_id", "color"}},
		{"parts/index.json", "mds", 5, 2, []string{"dept", "id"}},
		{"m.tfrecord", "tfrecord", 5, 1, []string{"record"}},
		{"gifs", "folder", 6, 1, []string{"image", "label", "image/gif"}},
		{"pairs --group --media json", "folder", 1, 1, []string{"json", "txt"}},
	} {
		t.Run(c.source, func(t *testing.T) {
			words := strings.Fields(c.source)
			set := filepath.Join(root, "sets", strings.ReplaceAll(words[0], "/", "_"))
			args := append([]string{"index", filepath.Join(root, words[0]), "-o", set, "--json"}, words[1:]...)
			code, out, errOut := command(t, args...)
			var got struct {
				Container string
				Samples   int64
				Bins      int
				Bytes     int64
				Already   bool
			}
			if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || got.Container != c.container || got.Samples != c.samples || got.Bins != c.bins || got.Bytes == 0 || got.Already {
				t.Fatalf("%d, %v, %s%s", code, err, out, errOut)
			}
			if code, out, errOut := command(t, args...); code != 0 || !strings.Contains(out, `"already":true`) {
				t.Errorf("again: %d, %s%s", code, out, errOut)
			}
			code, out, errOut = command(t, "inspect", set)
			for _, want := range c.shows {
				if code != 0 || !strings.Contains(out, want) {
					t.Errorf("inspect: %d, no %q in %s%s", code, want, out, errOut)
				}
			}
			checkSums(t, set)
		})
	}
}

// checkSums verifies a dataset, adds sums to it, and has an independent reader read all of it: all agree on identity and bytes. It returns
// the number of parts.
func checkSums(t *testing.T, set string) int64 {
	t.Helper()
	type checked struct{ Samples, Parts, Bytes, NoSums, Summed, Findings int64 }
	verify := func(args ...string) (c checked) {
		code, out, errOut := command(t, append([]string{"verify", set, "--json"}, args...)...)
		if err := json.Unmarshal([]byte(strings.ReplaceAll(out, "no_sums", "NoSums")), &c); code != 0 || err != nil {
			t.Fatalf("verify: %d, %v, %s%s", code, err, out, errOut)
		}
		return c
	}
	before, adding, after := verify(), verify("--checksum"), verify("--checksum")
	if adding.Summed != before.NoSums || adding.NoSums != 0 || after.NoSums != 0 || after.Summed != 0 || after.Bytes != before.Bytes {
		t.Errorf("before %+v, with --checksum %+v, after it %+v", before, adding, after)
	}
	_, out, _ := command(t, "inspect", set)
	if !strings.Contains(out, counted(before.NoSums, "part")+" in dataset.sums") && before.NoSums > 0 || strings.Contains(out, "none: `stepahead") {
		t.Errorf("inspect: %s", out)
	}
	var read struct {
		Identity                      string
		Samples, Parts, Bytes, Summed int64
	}
	independent(t, set, &read)
	if !strings.Contains(out, read.Identity) || read.Samples != after.Samples || read.Parts != after.Parts || read.Bytes != after.Bytes || read.Summed != after.Parts {
		t.Errorf("the independent reader says %+v, verify %+v", read, after)
	}
	return after.Parts
}

// independent reads a dataset with the reader that was written from docs/format.md alone.
func independent(t *testing.T, set string, result any) {
	t.Helper()
	python, err := filepath.Abs("../../.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		testdata.Missing(t, "Python with pyarrow (make setup): %v", err)
	}
	var errOut bytes.Buffer
	c := exec.Command(python, "../../binfmt/testdata/read.py", set)
	c.Stderr = &errOut
	out, err := c.Output()
	if err == nil {
		err = json.Unmarshal(out, result)
	}
	if err != nil {
		t.Fatalf("read.py: %v\n%s", err, errOut.String())
	}
}

// TestChecksum: sums that were added are compared with, damaged ones named and replaced, and those of a dataset that was replaced go away.
func TestChecksum(t *testing.T) {
	root := t.TempDir()
	shard, set := filepath.Join(root, "shards/a.tar"), filepath.Join(root, "set")
	writeTar(t, shard, 5)
	if code, out, errOut := command(t, "index", shard, "-o", set, "--media", "label"); code != 0 {
		t.Fatal(code, out, errOut)
	}
	if n := checkSums(t, set); n != 10 {
		t.Fatalf("%d parts", n)
	}
	sums := filepath.Join(set, binfmt.SumsName)
	data, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		if err := os.WriteFile(sums, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	other := bytes.Clone(data)
	other[64+4*3]++ // of sample 1, field label
	binary.LittleEndian.PutUint32(other[len(other)-4:], binfmt.CRC32C(0, other[64:len(other)-4]))
	write(other)
	if code, out, _ := command(t, "verify", set, "--checksum"); code != exit.Found || !strings.Contains(out, `crc: sample 1 ("0001"), field label`) {
		t.Errorf("other bytes: %d %s", code, out)
	}
	write(data[:len(data)-1])
	if code, out, _ := command(t, "verify", set); code != exit.Found || !strings.Contains(out, "dataset.sums: sums") || !strings.Contains(out, "--checksum") {
		t.Errorf("cut: %d %s", code, out)
	}
	if code, out, _ := command(t, "verify", set, "--checksum"); code != 0 || !strings.Contains(out, "sums of 10 parts added") {
		t.Errorf("made anew: %d %s", code, out)
	}
	if now, err := os.ReadFile(sums); err != nil || !bytes.Equal(now, data) {
		t.Errorf("%v, %d bytes of sums, want the %d from before", err, len(now), len(data))
	}
	if _, err := os.Stat(filepath.Join(set, ".stepahead-sums")); err == nil {
		t.Error("the working folder is still there")
	}
	if code, out, errOut := command(t, "index", shard, "-o", set, "--force"); code != 0 {
		t.Fatal(code, out, errOut)
	}
	if _, err := os.Stat(sums); err == nil {
		t.Error("the sums of the replaced dataset are still there")
	}
}

// TestIndexRefusesFormats: what cannot be read in place is recognised by content, and the message says what to do.
func TestIndexRefusesFormats(t *testing.T) {
	root := t.TempDir()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte("anything")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"a/part-0.parquet": "PAR1...PAR1", "a/part-1.parquet": "PAR1...PAR1", "a/_SUCCESS": "", "arrow.bin": "ARROW1\x00\x00",
		"lit/index.json": `{"chunks": [], "config": {}}`, "lit/chunk-0-0.bin": "\x01\x00\x00\x00", "x.gz": zipped.String(), "x.tfrecord": zipped.String(),
		"y.bin": "abc", "x.beton": "\x02\x00\x02\x00", "x.zst": "\x28\xb5\x2f\xfd0000", "text": "nothing", "empty": "", "a.mds": "\x00",
		"alone/x.idx": "MMIDIDX\x00\x00", "bad/x.idx": "MMIDIDX\x01\x00", "bad/x.bin": "", "zip/index.json": `{"version":1,"shards":[]}`,
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	copyTo(t, testdata.Path(t, "shards/grain/digits.array_record-00000-of-00002"), filepath.Join(root, "digits"))
	copyTo(t, "../../binfmt/foreign/mds/testdata/zipped", filepath.Join(root, "mds"))
	for source, want := range map[string]string{
		"a": "Parquet", "a/part-0.parquet": "Parquet", "arrow.bin": "an Arrow file", "lit": "LitData", "lit/chunk-0-0.bin": "LitData", "x.gz": "compressed (gzip)",
		"x.tfrecord": "compressed (gzip): a byte in it has no place", "y.bin": "without an .idx", "x.beton": "FFCV", "x.zst": "compressed (Zstandard)",
		"digits": "ArrayRecord", "mds": "is compressed (zstd:3)", "a.mds": "give the folder", "alone": "copy the .idx beside the .bin", "bad": "the head alone has 34",
		"zip": "version is 1", "text": "nothing that can be indexed (megatron, tar, mds, tfrecord, folder)", "empty": "the file is empty",
	} {
		set := filepath.Join(root, "sets", "x")
		code, out, errOut := command(t, "index", filepath.Join(root, source), "-o", set)
		if code != 1 || !strings.Contains(errOut, want) || !strings.Contains(errOut, filepath.Base(source)) {
			t.Errorf("%s: %d, %s%s; want 1 and %q", source, code, out, errOut, want)
		}
		if _, err := os.Stat(filepath.Join(set, "dataset.json")); err == nil {
			t.Errorf("%s: there is a dataset", source)
		}
	}
}
