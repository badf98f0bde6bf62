package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store/dir"
)

// command runs the program in this process.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	root := newRoot()
	root.SetOut(&o)
	root.SetErr(&e)
	code = exit.Run(context.Background(), root, args)
	return code, o.String(), e.String()
}

// gifs makes a folder of n tiny files of a media type, in two class folders.
func gifs(t *testing.T, n int) string {
	t.Helper()
	root := t.TempDir()
	for i := range n {
		path := filepath.Join(root, []string{"a", "b"}[i%2], fmt.Sprintf("%03d.gif", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, "GIF89a%d", i), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestPackInspectVerify(t *testing.T) {
	source, set := gifs(t, 11), filepath.Join(t.TempDir(), "new", "set")
	code, out, errOut := command(t, "pack", source, "-o", set, "--json")
	var packed struct {
		Identity       string
		Samples, Bytes int64
		Already        bool
	}
	if err := json.Unmarshal([]byte(out), &packed); code != 0 || err != nil || packed.Samples != 11 || packed.Already || errOut != "" {
		t.Fatalf("pack: %d, %v, %s%s", code, err, out, errOut)
	}
	if code, out, _ := command(t, "pack", source, "-o", "dir://"+set); code != 0 || !strings.Contains(out, "already packed") {
		t.Errorf("pack again: %d, %s", code, out)
	}
	code, out, _ = command(t, "inspect", set)
	for _, want := range []string{packed.Identity, "samples   11", "image/gif", "1      b     5", "field     label"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("inspect: %d, no %q in\n%s", code, want, out)
		}
	}
	code, out, _ = command(t, "inspect", set, "--json")
	if code != 0 || !strings.Contains(out, packed.Identity) {
		t.Errorf("inspect --json: %d, %s", code, out)
	}
	if code, out, _ := command(t, "verify", set); code != 0 || !strings.Contains(out, "checked 1 bin, 11 samples, 11 parts") {
		t.Errorf("verify: %d, %s", code, out)
	}
	bins, _ := filepath.Glob(filepath.Join(set, "*.bin"))
	data, err := os.ReadFile(bins[0])
	if err != nil {
		t.Fatal(err)
	}
	data[66] ^= 1
	if err := os.WriteFile(bins[0], data, 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errOut = command(t, "verify", set, "--json")
	var found struct {
		Kind, File, Key, Field, Expected, Found string
		Sample, Offset                          int64
	}
	first, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(first), &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code != exit.Found || found.Kind != "crc" || found.Key != "a/000.gif" || found.Offset != 64 || found.Field != "image" || !strings.Contains(errOut, ": 1 finding\n") {
		t.Errorf("verify of a damaged set: %d, %+v, %s", code, found, errOut)
	}
}

func TestPackExitCodes(t *testing.T) {
	source, set := gifs(t, 4), filepath.Join(t.TempDir(), "set")
	if code, out, errOut := command(t, "pack", source, "-o", set, "--bin-size", "1KiB"); code != 0 {
		t.Fatalf("%d, %s%s", code, out, errOut)
	}
	bad := filepath.Join(source, "a", "empty.gif")
	if err := os.WriteFile(bad, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "list.csv")
	if err := os.WriteFile(list, fmt.Appendf(nil, "path,n\n%s/a/000.gif,1\n", source), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"pack", source}, exit.Misused, "-o DATASET is missing"},
		{[]string{"pack"}, exit.Misused, "requires at least 1 arg"},
		{[]string{"pack", source, "-o", set, "--bin-size", "many"}, exit.Misused, "is no size"},
		{[]string{"pack", source, "-o", set, "--block-size", "1000"}, exit.Misused, "a block has 1000 bytes"},
		{[]string{"pack", source, "-o", set}, exit.Found, "empty.gif\" is empty"},
		{[]string{"pack", source + "/none", "-o", set}, exit.Environment, "no such file"},
		{[]string{"pack", list, "-o", set}, exit.Misused, "another dataset is there already"},
		{[]string{"pack", list, "-o", set + "2", "--column", "n=integer"}, exit.Misused, `"integer" is none of`},
		{[]string{"pack", source + "/a", "-o", set + "2", "--column", "n=int64"}, exit.Misused, "--column says nothing of a folder"},
		{[]string{"pack", source + "/a", "-o", set + "2", "--path-column", "file"}, exit.Misused, "--path-column says nothing of a folder"},
		{[]string{"pack", list, "-o", "s3://bucket/x"}, exit.Misused, "scheme"},
		{[]string{"inspect", set + "3"}, exit.Environment, "no such file"},
		{[]string{"verify", set + "3"}, exit.Environment, "give the folder that `stepahead pack`"},
		{[]string{"verify", set, "--workers", "5000"}, exit.Misused, "--workers 5000: must be 0 (the default) to 4096"},
		{[]string{"inspect", filepath.Join(set, "dataset.json")}, exit.Environment, "give the folder that `stepahead pack`"},
		{[]string{"verify"}, exit.Misused, "accepts 1 arg"},
		{[]string{"pack", list, "-o", set, "--force"}, exit.OK, ""},
	} {
		code, out, errOut := command(t, c.args...)
		if code != c.code || !strings.Contains(errOut, c.says) {
			t.Errorf("%q: exit %d, want %d: %s%s, want %q", c.args, code, c.code, out, errOut, c.says)
		}
	}
	if err := os.WriteFile(filepath.Join(set, "dataset.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := command(t, "inspect", set); code != exit.Found {
		t.Errorf("inspect of a broken manifest: %d, %s", code, errOut)
	}
	if code, out, _ := command(t, "verify", set); code != exit.Found || !strings.Contains(out, "manifest") {
		t.Errorf("verify of a broken manifest: %d, %s", code, out)
	}
}

// TestIdentityOnAnotherStore: the same files have one identity on stores whose blocks are of one size, given or their own.
func TestIdentityOnAnotherStore(t *testing.T) {
	source, disk, lake := t.TempDir(), t.TempDir(), t.TempDir()
	for i := range 6 {
		if err := os.WriteFile(filepath.Join(source, fmt.Sprintf("%d.gif", i)), append([]byte("GIF89a"), make([]byte, 700)...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := dir.Init(lake, dir.Topology{Nodes: []dir.Node{{Name: "dn1"}}, BlockSize: 1024}); err != nil {
		t.Fatal(err)
	}
	identity := func(store string, flags ...string) string {
		code, out, errOut := command(t, append([]string{"pack", source, "-o", filepath.Join(store, "set"), "--force", "--json"}, flags...)...)
		var packed struct{ Identity string }
		if err := json.Unmarshal([]byte(out), &packed); code != 0 || err != nil {
			t.Fatal(code, err, errOut)
		}
		return packed.Identity
	}
	if a, b := identity(disk), identity(lake); a == b {
		t.Error("blocks of 128 MiB and of 1 KiB: one identity")
	}
	if a, b := identity(disk, "--block-size", "128MiB"), identity(lake, "--block-size", "128MiB"); a != b || a != identity(disk) {
		t.Errorf("blocks of 128 MiB on both: %s and %s", a, b)
	}
}

func TestCounted(t *testing.T) {
	for _, c := range []struct {
		n    int
		one  string
		want string
	}{{0, "bin", "0 bins"}, {1, "bin", "1 bin"}, {2, "bin", "2 bins"}, {1, "class", "1 class"}, {12, "class", "12 classes"}} {
		if got := counted(c.n, c.one); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "64KiB": 64 << 10, "3MiB": 3 << 20, "16GiB": 16 << 30, "1TiB": 1 << 40} {
		var b byteSize
		if err := b.Set(text); err != nil || int64(b) != want {
			t.Errorf("%s: %d, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "0", "1.5GiB", "1GB", "9000000000TiB"} {
		if err := new(byteSize).Set(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1 << 10: "1 KiB", 1023 << 10: "1023 KiB", 1 << 50: "1024 TiB"} {
		if s := formatBytes(n); s != want {
			t.Errorf("%d bytes are %s, want %s", n, s, want)
		}
	}
	if s := formatBytes(1536 << 20); s != "1.5 GiB" {
		t.Error(s)
	}
}

// TestOutputThatCannotBeWritten: what could not be said is an error, in every command.
func TestOutputThatCannotBeWritten(t *testing.T) {
	source, set, key := gifs(t, 3), filepath.Join(t.TempDir(), "set"), filepath.Join(t.TempDir(), "key")
	for _, args := range [][]string{
		{"pack", source, "-o", set},
		{"pack", source, "-o", set, "--json"},
		{"inspect", set},
		{"inspect", set, "--json"},
		{"verify", set},
		{"verify", set, "--json"},
		{"order", set, "--batch", "2"},
		{"order", set, "--batch", "2", "--json"},
		{"token", "keygen", "--key", key},
		{"token", "mint", "--key", key, "--job", "j", "--user", "u", "--root", "/"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			testdata.Missing(t, "a device that is always full: %v", err)
		}
		var says bytes.Buffer
		root := newRoot()
		root.SetOut(full)
		root.SetErr(&says)
		if code := exit.Run(context.Background(), root, args); code != exit.Environment || !strings.Contains(says.String(), "no space left") {
			t.Errorf("%v: exit code %d: %s", args, code, &says)
		}
		full.Close()
	}
}

// TestPackFromURLs: a source may be given as the URL of a folder or list of this machine, with the same result.
func TestPackFromURLs(t *testing.T) {
	source, sets := gifs(t, 5), t.TempDir()
	must(t, os.WriteFile(filepath.Join(source, "list.csv"), []byte("path\na/000.gif\nb/001.gif\n"), 0o644))
	for i, from := range []string{source + "/a", "dir://" + source + "/a", "file://" + source + "/a", "file://" + source + "/list.csv"} {
		want := "3 samples"
		if strings.HasSuffix(from, ".csv") {
			want = "2 samples"
		}
		if code, out, errOut := command(t, "pack", from, "-o", filepath.Join(sets, fmt.Sprint(i))); code != 0 || !strings.Contains(out, want) {
			t.Errorf("pack %s: %d, %s%s", from, code, out, errOut)
		}
	}
	if code, _, errOut := command(t, "pack", "dir://"+source+"/b", "-o", filepath.Join(source, "b", "set")); code != 1 || !strings.Contains(errOut, "inside the source") {
		t.Errorf("into its own source: %d, %s", code, errOut)
	}
	if code, _, errOut := command(t, "pack", "s3://b/x", "-o", filepath.Join(sets, "x")); code != exit.Misused || !strings.Contains(errOut, "scheme s3") {
		t.Errorf("no store: %d, %s", code, errOut)
	}
}
