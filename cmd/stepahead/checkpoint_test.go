package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// safetensorsFile is a file of one tensor of bytes.
func safetensorsFile(name, data string) []byte {
	header, _ := json.Marshal(map[string]any{name: map[string]any{"dtype": "U8", "shape": []int{len(data)}, "data_offsets": []int{0, len(data)}}})
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), data...)
}

// checkpoints is a folder with a checkpoint that is whole, a newer one that is not, and a folder that is none.
func checkpoints(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"step-1", "step-2", "logs"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(root, "step-1", "model.safetensors"), safetensorsFile("w", "12345678"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "step-2", "__0_0.distcp"), []byte("x"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "logs", "log"), nil, 0o644))
	return root
}

func TestCheckpointLs(t *testing.T) {
	root := checkpoints(t)
	code, out, errOut := command(t, "checkpoint", "ls", root)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exit.OK || errOut != "" || len(lines) != 3 || !strings.HasPrefix(lines[1], "step-2  2     dcp          incomplete (metadata-missing)") ||
		!strings.HasPrefix(lines[2], "step-1  1     safetensors  complete") {
		t.Errorf("exit %d: %s\n%s", code, errOut, out)
	}
	code, out, _ = command(t, "checkpoint", "ls", "--json", filepath.Join(root, "step-1"))
	var l listedCheckpoint
	must(t, json.Unmarshal([]byte(out), &l))
	if code != exit.OK || !l.Complete || *l.Step != 1 || l.Layout != "safetensors" || l.Files != 1 || len(l.Identity) != 64 || !strings.Contains(out, `"problems":[]`) {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestCheckpointLsTrackers: a tracker that names what cannot be loaded is said to.
func TestCheckpointLsTrackers(t *testing.T) {
	root := checkpoints(t)
	must(t, os.WriteFile(filepath.Join(root, "latest"), []byte("step-1"), 0o644))
	_, out, _ := command(t, "checkpoint", "ls", root)
	if strings.Contains(out, "tracker") {
		t.Errorf("a tracker that is right: %s", out)
	}
	must(t, os.WriteFile(filepath.Join(root, "latest"), []byte("step-2"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "latest_checkpointed_iteration.txt"), []byte("7"), 0o644))
	code, out, _ := command(t, "checkpoint", "ls", root)
	for _, want := range []string{"tracker-incomplete: latest: it names step-2", "tracker-missing: latest_checkpointed_iteration.txt: it names iter_0000007"} {
		if code != exit.OK || !strings.Contains(out, want) {
			t.Errorf("exit %d: %s\nwant %q", code, out, want)
		}
	}
	_, out, _ = command(t, "checkpoint", "ls", "--json", root)
	var l listedTracker
	lines := strings.Split(strings.TrimSpace(out), "\n")
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &l))
	if l.Tracker != "latest_checkpointed_iteration.txt" || l.Names != "iter_0000007" || l.Problem.Kind != "tracker-missing" {
		t.Errorf("%s", out)
	}
}

// TestCheckpointLsSaysWhy: what cannot be read is there with the reason, and a folder without checkpoints is no silence.
func TestCheckpointLsSaysWhy(t *testing.T) {
	root := checkpoints(t)
	must(t, os.WriteFile(filepath.Join(root, "step-1", "model.safetensors"), []byte("12345678"), 0o644))
	code, out, errOut := command(t, "checkpoint", "ls", root)
	if code != exit.OK || errOut != "" || !strings.Contains(out, "unreadable: checkpoint: "+filepath.Join(root, "step-1", "model.safetensors")) || !strings.Contains(out, `rule "length"`) {
		t.Errorf("exit %d: %s\n%s", code, out, errOut)
	}
	code, out, errOut = command(t, "checkpoint", "ls", filepath.Dir(root))
	if code != exit.OK || strings.Count(out, "\n") != 1 || !strings.Contains(errOut, "no checkpoints: folders in it are looked at (1)") {
		t.Errorf("exit %d: %s\n%s", code, out, errOut)
	}
}

func TestCheckpointInspect(t *testing.T) {
	root := checkpoints(t)
	code, out, errOut := command(t, "checkpoint", "inspect", "--tensors", "--files", filepath.Join(root, "step-1"))
	for _, want := range []string{"complete    yes", "tensors     1, 1 of them below 16 KiB", "U8        1, 8 B", "w       U8     [8]    8      1", "model.safetensors  "} {
		if code != exit.OK || !strings.Contains(out, want) {
			t.Errorf("exit %d: %s\n%s\nwant %q", code, errOut, out, want)
		}
	}
	code, out, errOut = command(t, "checkpoint", "inspect", filepath.Join(root, "step-2"))
	if code != exit.Found || !strings.Contains(out, "problem     metadata-missing: .metadata") || !strings.Contains(errOut, "not complete") {
		t.Errorf("exit %d: %s\n%s", code, errOut, out)
	}
	code, out, _ = command(t, "checkpoint", "inspect", "--json", filepath.Join(root, "step-1"))
	var i inspected
	must(t, json.Unmarshal([]byte(out), &i))
	if code != exit.OK || len(i.FileList) != 1 || len(i.Tensors) != 1 || i.Tensors[0].Bytes != 8 || *i.Tensors[0].Chunks[0].File != "model.safetensors" || i.Tensors[0].Chunks[0].Len != 8 {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestCheckpointInspectSaysSome: of many problems of a kind the first are printed, and how many more there are.
func TestCheckpointInspectSaysSome(t *testing.T) {
	index := map[string]string{}
	for _, n := range strings.Split("abcdefg", "") {
		index[n] = n + ".safetensors"
	}
	text, err := json.Marshal(map[string]any{"weight_map": index})
	must(t, err)
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "model.safetensors.index.json"), text, 0o644))
	code, out, _ := command(t, "checkpoint", "inspect", root)
	if code != exit.Found || strings.Count(out, "file-missing: ") != 5 || !strings.Contains(out, "file-missing: 3 more (--json lists all)") {
		t.Errorf("exit %d: %s", code, out)
	}
	if _, out, _ := command(t, "checkpoint", "inspect", "--json", root); strings.Count(out, `"file-missing"`) != 7 {
		t.Error(out)
	}
}

func TestCheckpointVerify(t *testing.T) {
	root := checkpoints(t)
	whole := filepath.Join(root, "step-1")
	code, out, _ := command(t, "checkpoint", "verify", "--json", whole)
	var v verifiedCheckpoint
	must(t, json.Unmarshal([]byte(out), &v))
	if code != exit.OK || v.Kind != "checked" || len(v.Digest) != 64 || len(v.Files) != 1 {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, errOut := command(t, "checkpoint", "verify", whole, "--digest", v.Digest, "--rate", "100MiB"); code != exit.OK || !strings.Contains(out, "digest "+v.Digest) {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
	if code, out, _ := command(t, "checkpoint", "verify", whole, "--digest", "00"); code != exit.Found || !strings.Contains(out, "digest: it is "+v.Digest) {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, _ := command(t, "checkpoint", "verify", filepath.Join(root, "step-2")); code != exit.Found || !strings.Contains(out, "metadata-missing") {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestCheckpointCatAndDiff(t *testing.T) {
	root := checkpoints(t)
	whole := filepath.Join(root, "step-1")
	if code, out, errOut := command(t, "checkpoint", "cat", whole, "w"); code != exit.OK || out != "12345678" || errOut != "" {
		t.Errorf("exit %d: %q %s", code, out, errOut)
	}
	code, out, _ := command(t, "checkpoint", "cat", whole, "w", "--json")
	if want := `"bytes":8,"sha256":"ef797c8118f02dfb649607dd5d3f8c7623048c9c063d532cc95c5ed7a898a64f"`; code != exit.OK || !strings.Contains(out, want) {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, _, errOut := command(t, "checkpoint", "cat", whole, "v"); code != exit.Misused || !strings.Contains(errOut, `no tensor "v"`) {
		t.Errorf("exit %d: %s", code, errOut)
	}
	other := filepath.Join(root, "other.safetensors")
	must(t, os.WriteFile(other, bytes.Replace(safetensorsFile("w", "12345678"), []byte("45"), []byte("4x"), 1), 0o644))
	if code, out, _ := command(t, "checkpoint", "diff", whole, other); code != exit.Found || out != "bytes: tensor \"w\": the first at byte 4 of 8\n" {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, _ := command(t, "checkpoint", "diff", "--metadata", whole, other); code != exit.OK || out != "equal: 1 tensor, 0 other values\n" {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, _ := command(t, "checkpoint", "diff", "--json", whole, whole); code != exit.OK || out != "" {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, _, errOut := command(t, "checkpoint", "cat", whole, "module.W"); code != exit.Misused || strings.Contains(errOut, "but") {
		t.Errorf("exit %d: %s", code, errOut)
	}
	if code, _, errOut := command(t, "checkpoint", "cat", whole, "module.w"); code != exit.Misused || !strings.Contains(errOut, `no tensor "module.w", but "w"`) {
		t.Errorf("exit %d: %s", code, errOut)
	}
}

func TestCheckpointLatest(t *testing.T) {
	root := checkpoints(t)
	code, out, errOut := command(t, "checkpoint", "latest", root)
	if code != exit.OK || out != filepath.Join(root, "step-1")+"\n" || !strings.Contains(errOut, "passed over checkpoint "+filepath.Join(root, "step-2")) || strings.Contains(errOut, "logs") {
		t.Errorf("exit %d: %q %s", code, out, errOut)
	}
	code, out, _ = command(t, "checkpoint", "latest", "--json", root)
	var l listedCheckpoint
	must(t, json.Unmarshal([]byte(out), &l))
	if code != exit.OK || l.Name != "step-1" || *l.Step != 1 || len(l.Identity) != 64 {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, errOut := command(t, "checkpoint", "latest", filepath.Join(root, "logs")); code != exit.Found || out != "" || !strings.Contains(errOut, "none of 0 folders") {
		t.Errorf("exit %d: %q %s", code, out, errOut)
	}
	if code, _, errOut := command(t, "checkpoint", "latest", root, "--settle", "-1s"); code != exit.Misused || !strings.Contains(errOut, "negative") {
		t.Errorf("exit %d: %s", code, errOut)
	}
}

// TestCheckpointWatch prints what is there, what is committed later, and what is deleted, and ends by itself.
func TestCheckpointWatch(t *testing.T) {
	root := checkpoints(t)
	if code, out, errOut := command(t, "checkpoint", "watch", root, "--count", "1"); code != exit.OK || out != "committed step-1 safetensors, 1 file, "+formatBytes(int64(len(safetensorsFile("w", "12345678"))))+"\n" {
		t.Errorf("exit %d: %q %s", code, out, errOut)
	}
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- runCheckpointWatch(t.Context(), root, watchFlags{json: true, recent: 4, count: 3, settle: time.Second, interval: time.Millisecond}, w, io.Discard)
	}()
	lines := json.NewDecoder(r)
	next := func(event, name string) {
		t.Helper()
		var l watchedCheckpoint
		must(t, lines.Decode(&l))
		if l.Event != event || l.Name != name || event == "committed" && len(l.Identity) != 64 {
			t.Errorf("%+v, want %s %s", l, event, name)
		}
	}
	next("committed", "step-1")
	must(t, os.MkdirAll(filepath.Join(root, "step-3"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "step-3", "model.safetensors.new"), safetensorsFile("w", "12345678"), 0o644))
	must(t, os.Rename(filepath.Join(root, "step-3", "model.safetensors.new"), filepath.Join(root, "step-3", "model.safetensors")))
	next("committed", "step-3")
	must(t, os.RemoveAll(filepath.Join(root, "step-1")))
	next("deleted", "step-1")
	must(t, <-ended)
}

// takers is an agent that keeps what it is told.
type takers struct {
	mu   sync.Mutex
	took []hints.Hint
}

func (k *takers) Announce(_ context.Context, h hints.Hint, _ auth.Claims) (hints.Reply, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.took = append(k.took, h)
	return hints.Accept(), nil
}

// TestCheckpointWatchAnnounces: the agents of the store are told what is printed.
func TestCheckpointWatchAnnounces(t *testing.T) {
	root := checkpoints(t)
	k := &takers{}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := grpc.NewServer()
	hints.Serve(srv, k, auth.Insecure())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(lis) }()
	defer func() { srv.Stop(); must(t, <-ended) }()
	s, _, err := dir.Open(root, dir.Options{})
	must(t, err)
	defer s.Close()
	must(t, hints.NewPublisher(store.Files{Store: s}, hints.DefaultRegistry).Publish(t.Context(), hints.Entry{Node: "local", Addr: lis.Addr().String(), TTL: time.Minute}))
	code, out, errOut := command(t, "checkpoint", "watch", root, "--count", "1", "--announce", "--job", "7b")
	k.mu.Lock()
	defer k.mu.Unlock()
	if code != exit.OK || errOut != "" || len(k.took) != 1 {
		t.Fatalf("exit %d: %s%s: %+v", code, out, errOut, k.took)
	}
	h := k.took[0]
	if h.Job != "7b" || h.Identity == [32]byte{} || h.Checkpoint.State != hints.Committed || h.Checkpoint.Path != filepath.Join(root, "step-1") || h.Checkpoint.Step != 1 || len(h.Checkpoint.Files) != 1 {
		t.Errorf("%+v %+v", h, h.Checkpoint)
	}
}

func TestCheckpointReaders(t *testing.T) {
	root := checkpoints(t)
	code, out, errOut := command(t, "checkpoint", "readers", filepath.Join(root, "step-1"), "--ranks", "8")
	if code != exit.OK || !strings.Contains(out, "model.safetensors  ") || !strings.HasSuffix(out, "8        all\n") {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
	_, out, _ = command(t, "checkpoint", "readers", filepath.Join(root, "step-1"), "--ranks", "8", "--json")
	if !strings.Contains(out, `"readers":8,"share":"all"`) {
		t.Error(out)
	}
}

func TestCheckpointExitCodes(t *testing.T) {
	root := checkpoints(t)
	bad := filepath.Join(root, "bad.safetensors")
	must(t, os.WriteFile(bad, []byte("12345678"), 0o644))
	pipe := filepath.Join(root, "pipe.safetensors")
	must(t, syscall.Mkfifo(pipe, 0o644))
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exit.Misused, []string{"inspect", filepath.Join(root, "logs")}, "no known layout"},
		{exit.Environment, []string{"inspect", filepath.Join(root, "gone")}, "gone"},
		{exit.Found, []string{"inspect", bad}, `rule "length"`},
		{exit.Misused, []string{"inspect", bad, "--world-size", "-1"}, "negative"},
		{exit.Misused, []string{"cat", bad}, "usage: stepahead checkpoint cat URL NAME"},
		{exit.Misused, []string{"inspct", bad}, `unknown command "inspct": did you mean inspect?`},
		{exit.Misused, []string{"sing", bad}, "`stepahead checkpoint --help` lists them"},
		{exit.OK, nil, ""},
		{exit.Misused, []string{"readers", filepath.Join(root, "step-1")}, "--ranks N, the number of ranks of the job, is missing"},
		{exit.Misused, []string{"readers", filepath.Join(root, "step-1"), "--ranks", "0"}, "Ranks is 0"},
		{exit.Misused, []string{"readers", filepath.Join(root, "step-1"), "--ranks", "8", "--tensor", "3"}, "cannot be divided"},
		{exit.Misused, []string{"watch", root, "--interval", "-1s"}, "negative"},
		{exit.Misused, []string{"watch", root, "--interval", "1ns"}, "1ms to 1h"},
		{exit.Misused, []string{"watch", root, "--settle", "0"}, "--settle positive"},
		{exit.Misused, []string{"inspect", pipe}, "neither a file nor a folder"},
		{exit.Misused, []string{"look", bad}, "unknown command"},
	} {
		if code, _, errOut := command(t, append([]string{"checkpoint"}, c.args...)...); code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: exit %d, want %d: %s", c.args, code, c.code, errOut)
		}
	}
}
