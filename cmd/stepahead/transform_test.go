package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/transform"
)

// buildWorker makes the real worker program, once.
var buildWorker = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "stepahead-worker")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "stepahead-worker")
	if out, err := exec.Command("go", "build", "-o", path, "../stepahead-worker").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// workspace is a folder with a picture and a plan.
type workspace struct {
	t           *testing.T
	dir, worker string
}

func newWorkspace(t *testing.T) workspace {
	t.Helper()
	worker, err := buildWorker()
	if err != nil {
		t.Fatalf("building the worker program: %v", err)
	}
	w := workspace{t: t, dir: t.TempDir(), worker: worker}
	img := image.NewNRGBA(image.Rect(0, 0, 4, 2))
	for i := range 8 {
		img.Set(i%4, i/4, color.NRGBA{uint8(i * 30), uint8(255 - i), 7, 255})
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		t.Fatal(err)
	}
	w.write("in.png", buf.String())
	w.plan(`{"op":"DecodeImage"}`)
	return w
}

func (w workspace) path(name string) string { return filepath.Join(w.dir, name) }

func (w workspace) write(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w workspace) plan(ops string) { w.write("plan.json", `{"plan":1,"ops":[`+ops+`]}`) }

// run runs the command and returns its exit code and output.
func (w workspace) run(args ...string) (int, string) {
	w.t.Helper()
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	all := append([]string{"transform", "--worker", w.worker, "--plan", w.path("plan.json"), "-o", w.path("out.npy")}, args...)
	return exit.Run(context.Background(), root, all), out.String()
}

// onlyKnownFiles fails if the command left anything behind.
func (w workspace) onlyKnownFiles(want ...string) {
	w.t.Helper()
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want = append(want, "in.png", "plan.json")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("the folder holds %v, want %v", got, want)
	}
}

func TestTransformWritesTheTensor(t *testing.T) {
	w := newWorkspace(t)
	code, out := w.run(w.path("in.png"), "--json")
	if code != exit.OK {
		t.Fatalf("exit code %d: %s", code, out)
	}
	var d description
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Dtype != transform.Uint8 || !slices.Equal(d.Shape, []int{2, 4, 3}) {
		t.Errorf("described as %+v", d)
	}
	file, err := os.ReadFile(w.path("out.npy"))
	if err != nil {
		t.Fatal(err)
	}
	want := "\x93NUMPY\x01\x00\x76\x00{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4, 3), }"
	if len(file) != 128+24 || !strings.HasPrefix(string(file), want) || file[127] != '\n' {
		t.Errorf("file is %q", file)
	}
	for i := range 8 {
		if px := file[128+3*i:][:3]; !bytes.Equal(px, []byte{uint8(i * 30), uint8(255 - i), 7}) {
			t.Errorf("pixel %d is %v", i, px)
		}
	}
	w.onlyKnownFiles("out.npy")
}

func TestTransformRunsBothHalves(t *testing.T) {
	w := newWorkspace(t)
	for dtype, stored := range map[string]string{"float32": "float32", "float16": "float16", "bfloat16": "uint16"} {
		w.plan(`{"op":"DecodeImage"},{"op":"CenterCrop","size":[2,2]},{"op":"ToDtype","dtype":"` + dtype + `","scale":true}`)
		code, out := w.run(w.path("in.png"), "--json")
		var d description
		if err := json.Unmarshal([]byte(out), &d); code != exit.OK || err != nil {
			t.Fatalf("%s: exit code %d: %s", dtype, code, out)
		}
		if string(d.Dtype) != dtype || d.StoredAs != stored || !slices.Equal(d.Shape, []int{2, 2, 3}) {
			t.Errorf("%s: described as %+v", dtype, d)
		}
	}
}

// A RandomErasing behind a cast is executed here, with the sample's own key.
func TestTransformErases(t *testing.T) {
	w := newWorkspace(t)
	w.plan(`{"op":"DecodeImage"},{"op":"Grayscale"},{"op":"ToDtype","dtype":"float32"},{"op":"RandomErasing","p":1,"scale":[0.1,0.4],"value":-1}`)
	erased := 0
	for _, sample := range []string{"0", "1", "2", "3"} {
		if code, out := w.run(w.path("in.png"), "--sample", sample); code != exit.OK || !strings.Contains(out, "float32 [2 4 1]") {
			t.Fatalf("exit code %d: %s", code, out)
		}
		file, err := os.ReadFile(w.path("out.npy"))
		if err != nil {
			t.Fatal(err)
		}
		erased += bytes.Count(file[128:], []byte{0, 0, 0x80, 0xbf}) // -1 in float32
	}
	if erased < 2 || erased > 16 {
		t.Errorf("%d pixels of 32 are erased", erased)
	}
}

func TestTransformDrawsBySampleAndSeed(t *testing.T) {
	w := newWorkspace(t)
	w.plan(`{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[8,8]}`)
	sums := map[uint32]bool{}
	for _, args := range [][]string{{}, {"--sample", "1"}, {"--seed", "1"}, {"--epoch", "1"}, {"--source", "a"}, {"--seed", "1"}} {
		if code, out := w.run(append(args, w.path("in.png"))...); code != exit.OK {
			t.Fatalf("exit code %d: %s", code, out)
		}
		file, err := os.ReadFile(w.path("out.npy"))
		if err != nil {
			t.Fatal(err)
		}
		sums[crc32.ChecksumIEEE(file)] = true
	}
	if len(sums) < 4 {
		t.Errorf("five different keys give %d different pictures", len(sums))
	}
}

func TestTransformExitCodesAndNothingLeftBehind(t *testing.T) {
	w := newWorkspace(t)
	w.write("in.png", "\x89PNG\r\n\x1a\nbroken")
	w.write("out.npy", "precious")
	good := w.path("in.png")
	for _, c := range []struct {
		name string
		ops  string
		args []string
		code int
		says string
	}{
		{"bad content", `{"op":"DecodeImage"}`, []string{good}, exit.Found, "in.png"},
		{"bad plan", `{"op":"DecodeImage","mood":"RGB"}`, []string{good}, exit.Misused, "mood"},
		{"no file named", `{"op":"DecodeImage"}`, nil, exit.Misused, "arg"},
		{"missing file", `{"op":"DecodeImage"}`, []string{w.path("gone.png")}, exit.Environment, "gone.png"},
		{"a folder", `{"op":"DecodeImage"}`, []string{w.dir}, exit.Misused, "not a file"},
		{"missing plan", `{"op":"DecodeImage"}`, []string{good, "--plan", w.path("gone.json")}, exit.Environment, "gone.json"},
		{"missing worker", `{"op":"DecodeImage"}`, []string{good, "--worker", w.path("gone")}, exit.Environment, "--worker"},
		{"worker is no worker", `{"op":"DecodeImage"}`, []string{good, "--worker", "/bin/false"}, exit.Environment, "/bin/false"},
		{"unknown flag", `{"op":"DecodeImage"}`, []string{good, "--frobnicate"}, exit.Misused, "frobnicate"},
		{"no output", `{"op":"DecodeImage"}`, []string{good, "-o", ""}, exit.Misused, "-o OUT.npy is missing"},
		{"no plan", `{"op":"DecodeImage"}`, []string{good, "--plan", ""}, exit.Misused, "--plan PLAN.json is missing"},
		{"bad content as JSON", `{"op":"DecodeImage"}`, []string{good, "--json"}, exit.Found, `{"error":{"detail":`},
		{"bad plan as JSON", `{"op":"DecodeImage","mood":"RGB"}`, []string{good, "--json"}, exit.Misused, `"kind":"plan","op":"ops[0] DecodeImage"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.plan(c.ops)
			code, out := w.run(c.args...)
			if code != c.code || !strings.Contains(out, c.says) {
				t.Errorf("exit code %d, want %d; output %q does not say %q", code, c.code, out, c.says)
			}
			if old, err := os.ReadFile(w.path("out.npy")); err != nil || string(old) != "precious" {
				t.Errorf("the old output is %q, %v", old, err)
			}
			w.onlyKnownFiles("out.npy")
		})
	}
}

func TestTransformLeavesNothingWhenTheOutputCannotBeWritten(t *testing.T) {
	w := newWorkspace(t)
	if err := os.Mkdir(w.path("out.npy"), 0o700); err != nil { // renaming onto a folder fails at the last step
		t.Fatal(err)
	}
	if code, out := w.run(w.path("in.png")); code != exit.Environment || !strings.Contains(out, "out.npy") {
		t.Errorf("exit code %d: %s", code, out)
	}
	w.onlyKnownFiles("out.npy")
}

func TestNPYHeadersAreAligned(t *testing.T) {
	for side := 1; side < 1<<20; side = side*3 + 1 {
		h, _ := npyHeader(transform.Float32, []int{side, side, 3})
		if len(h)%64 != 0 || int(h[8])|int(h[9])<<8 != len(h)-10 {
			t.Errorf("header for side %d: %s", side, hex.EncodeToString(h[:12]))
		}
	}
}

// TestTransformSparesWhatIsNoFile: the rename would put a file in the place of a device or a pipe.
func TestTransformSparesWhatIsNoFile(t *testing.T) {
	w := newWorkspace(t)
	if err := syscall.Mkfifo(w.path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.write("real.npy", "old")
	for link, to := range map[string]string{"link": "pipe", "link.npy": "real.npy"} {
		if err := os.Symlink(to, w.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, out := range []string{"pipe", "link"} {
		code, says := w.run("--plan", w.path("plan.json"), w.path("in.png"), "-o", w.path(out))
		if code != exit.Misused || !strings.Contains(says, "is not a file") {
			t.Errorf("-o %s: exit code %d: %s", out, code, says)
		}
	}
	if info, err := os.Lstat(w.path("pipe")); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("the pipe is %v now, %v", info.Mode(), err)
	}
	if code, says := w.run("--plan", w.path("plan.json"), w.path("in.png"), "-o", w.path("link.npy")); code != exit.OK {
		t.Errorf("through a link: exit code %d: %s", code, says)
	}
	if data, err := os.ReadFile(w.path("real.npy")); err != nil || !strings.HasPrefix(string(data), "\x93NUMPY") {
		t.Errorf("the link's target was not written: %q, %v", data, err)
	}
}

// Names may be as long as the file system allows, and links may lead to what is not there yet.
func TestTransformWritesWhereItIsTold(t *testing.T) {
	w := newWorkspace(t)
	if err := os.MkdirAll(w.path("deep/er"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"folder": "deep/er", "first": "folder/second", "deep/er/second": "../third.npy"} {
		if err := os.Symlink(to, w.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 251) + ".npy"
	for out, file := range map[string]string{"first": "deep/third.npy", long: long} {
		code, says := w.run("--plan", w.path("plan.json"), w.path("in.png"), "-o", w.path(out))
		if code != exit.OK {
			t.Errorf("-o %s: exit code %d: %s", out, code, says)
		}
		if data, err := os.ReadFile(w.path(file)); err != nil || !strings.HasPrefix(string(data), "\x93NUMPY") {
			t.Errorf("-o %s: %.9q, %v", out, data, err)
		}
	}
	if info, err := os.Lstat(w.path("first")); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link is %v now, %v", info, err)
	}
	code, says := w.run("--plan", w.path("plan.json"), w.path("in.png"), "-o", w.path("x"+long))
	if code != exit.Environment || !strings.Contains(says, "too long") {
		t.Errorf("a name that is too long: exit code %d: %s", code, says)
	}
}

func TestTransformNamesTheFolderThatIsNotThere(t *testing.T) {
	w := newWorkspace(t)
	code, says := w.run(w.path("in.png"), "-o", w.path("gone/out.npy"))
	if code != exit.Environment || !strings.Contains(says, "the folder "+w.path("gone")+": no such file") {
		t.Errorf("exit code %d: %s", code, says)
	}
}

func TestUnknownCommands(t *testing.T) {
	for line, want := range map[string]string{
		"transfrom --plan x": `unknown command "transfrom": did you mean transform?`,
		"veryfy data":        `unknown command "veryfy": did you mean verify?`,
		"sing --loud":        `unknown command "sing": ` + "`stepahead --help`",
		"verify --loud":      "unknown flag: --loud",
		"--loud":             "unknown flag: --loud",
	} {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		if code := exit.Run(t.Context(), root, strings.Fields(line)); code != exit.Misused || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d: %s", line, code, out.String())
		}
	}
}

// TestTransformReadsBoundedPlans: a plan that never ends is refused at its limit.
func TestTransformReadsBoundedPlans(t *testing.T) {
	w := newWorkspace(t)
	if code, says := w.run("--plan", "/dev/zero", w.path("in.png"), "-o", w.path("out.npy")); code != exit.Misused || !strings.Contains(says, "limit") {
		t.Errorf("exit code %d: %s", code, says)
	}
}
