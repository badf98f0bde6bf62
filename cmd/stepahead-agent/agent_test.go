package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/cmd/version"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// TestMain lets this binary be the program itself, so that it can be sent signals.
func TestMain(m *testing.M) {
	if os.Getenv("STEPAHEAD_TEST_AGENT") != "" {
		main()
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// output runs the program in this process and returns its exit code and what it printed.
func output(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&errs)
	code = exit.Run(context.Background(), root, args)
	return code, out.String(), errs.String()
}

// TestUsage: mistakes are exit code 2, each with what is wrong and what to do.
func TestUsage(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "agent.yaml")
		must(t, os.WriteFile(name, []byte(text), 0o644))
		return name
	}
	for name, row := range map[string]struct {
		args []string
		want string
		code int
	}{
		"nothing given":   {nil, "--store is missing", 2},
		"all at once":     {nil, "--node is missing", 2},
		"no such flag":    {[]string{"--stroe", "x"}, "--stroe", 2},
		"argument":        {[]string{"run"}, "run", 2},
		"config alone":    {[]string{"config"}, "print", 2},
		"not loopback":    {[]string{"--store", "/x", "--node", "n", "--listen", "0.0.0.0:1"}, "--tls-cert", 2},
		"no certificate":  {[]string{"--store", t.TempDir(), "--node", "local", "--worker", os.Args[0], "--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"}, "/nonexistent", 3},
		"metrics outside": {[]string{"--store", "/x", "--node", "n", "--metrics", "192.0.2.1:1"}, "--metrics", 2},
		"bad size":        {[]string{"--memory", "1gb"}, "not a size", 2},
		"bad load":        {[]string{"--store", "/x", "--node", "n", "--load", "120%"}, "120%", 2},
		"bad edges":       {[]string{"--store", t.TempDir(), "--node", "local", "--cpu-low", "0.9", "--worker", os.Args[0]}, "CPULow", 2},
		"bad level":       {[]string{"--store", "/x", "--node", "n", "--log-level", "loud"}, "loud", 2},
		"unknown key":     {[]string{"--config", file("store: /x\nnodes: n\n")}, `unknown key "nodes"`, 2},
		"key of itself":   {[]string{"--config", file("config: x\n")}, `unknown key "config"`, 2},
		"version's key":   {[]string{"--config", file("version: true\n")}, `unknown key "version"`, 2},
		"two loads":       {[]string{"--store", "/x", "--node", "n", "--load", "25%", "--datanode-pid", "/run/dn.pid"}, "--datanode-pid: --load 25%", 2},
		"told to nobody":  {[]string{"--store", "/x", "--node", "n", "--registry", "none", "--advertise", "dn1"}, "--advertise: --registry none", 2},
		"a list":          {[]string{"--config", file("store: [1]\n")}, "one value", 2},
		"twice":           {[]string{"--config", file("node: a\nnode: b\n")}, "node", 2},
		"bad value":       {[]string{"--config", file("window: many\n")}, "window", 2},
		"not YAML":        {[]string{"--config", file("{")}, "agent.yaml", 2},
		"no file":         {[]string{"--config", "/nonexistent"}, "/nonexistent", 3},
		"no file at all":  {[]string{"relay", "print", "--config", "/nonexistent"}, "/nonexistent", 3},
		"a device":        {[]string{"--config", "/dev/zero"}, "/dev/zero: it is a device", 2},
		"long samples":    {[]string{"--store", "/x", "--node", "n", "--dwell", "2s", "--sample", "3s"}, "--sample 3s: --dwell is 2s", 2},
		"a sweep of none": {[]string{"--store", "/x", "--node", "n", "--sweep", "0s"}, "--sweep \"0s\": give a time", 2},
		"a bad sweep":     {[]string{"--store", "/x", "--node", "n", "--sweep", "often"}, "or off", 2},
		"nothing kept":    {[]string{"--store", "/x", "--node", "n", "--memory", "0"}, "--memory 0: must be more than 0", 2},
		"a dwell of 0":    {[]string{"--store", "/x", "--node", "n", "--dwell", "0s"}, "--dwell 0: must be more than 0", 2},
		"told a URL":      {[]string{"--store", "/x", "--node", "n", "--advertise", "https://dn1"}, "give a host or host:port", 2},
		"no registry":     {[]string{"--store", t.TempDir(), "--node", "local", "--worker", os.Args[0], "--registry", "s3://x/y"}, "--registry: ", 2},
		"no store":        {[]string{"--store", "s3://x/y", "--node", "n"}, "scheme", 2},
		"no cluster":      {[]string{"--store", "hdfs://127.0.0.1:1/", "--node", "n"}, "127.0.0.1:1", 3},
		"no ledger":       {[]string{"--store", t.TempDir(), "--node", "local", "--worker", os.Args[0], "--relay", "/dev/null/x"}, "--relay", 3},
		"no worker":       {[]string{"--store", t.TempDir(), "--node", "local", "--worker", "/nonexistent"}, "/nonexistent", 3},
		"no node":         {[]string{"--store", t.TempDir(), "--node", "dn9"}, "dn9", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			code, _, stderr := output(row.args...)
			if code != row.code || !strings.Contains(stderr, row.want) {
				t.Errorf("exit code %d, want %d; %q is to be in: %s", code, row.code, row.want, stderr)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	if code, out, _ := output("--version"); code != 0 || out != "stepahead-agent version "+version.Text()+"\n" {
		t.Errorf("%d %q", code, out)
	}
}

// TestConfig: the file's keys are the flags, flags win, and what is printed can be read again.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.yaml")
	must(t, os.WriteFile(file, []byte("store: /data\nnode: dn1\nmemory: 2GiB\nwindow: 8\ndwell: 1s\ncpu-high: 0.75\n"), 0o644))
	code, printed, stderr := output("config", "print", "--config", file, "--window", "4")
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, line := range []string{"store: /data", "memory: 2GiB", `window: "4"`, "dwell: 1s", `cpu-high: "0.75"`, "ttl: 10m0s", `egress: "0"`} {
		if !strings.Contains(printed, line+"\n") {
			t.Errorf("%q is not in:\n%s", line, printed)
		}
	}
	for dwell, sample := range map[string]string{"500ms": "500ms", "1m": "1s"} {
		if _, printed, _ := output("config", "print", "--config", file, "--dwell", dwell); !strings.Contains(printed, "sample: "+sample+"\n") {
			t.Errorf("with a dwell of %s, want samples every %s in\n%s", dwell, sample, printed)
		}
	}
	again := filepath.Join(t.TempDir(), "again.yaml")
	must(t, os.WriteFile(again, []byte(printed), 0o644))
	if _, twice, _ := output("config", "print", "--config", again); twice != printed {
		t.Errorf("printed again it is\n%s, not\n%s", twice, printed)
	}
}

// world is a dataset of real JPEG on three simulated nodes, the worker program and a key.
type world struct {
	root, worker, key, token string
	dataset                  string // its name in the store
	schedule                 hints.Schedule
	order                    *sampler.Sampler
	plan                     *transform.Plan
}

func newWorld(t *testing.T) world {
	t.Helper()
	root := t.TempDir()
	must(t, dir.Init(root, dir.Topology{Nodes: []dir.Node{{Name: "dn1"}, {Name: "dn2"}, {Name: "dn3"}}}))
	st, _, err := dir.Open(root, dir.Options{})
	must(t, err)
	defer st.Close()
	w := pack8(t, st, "/photos")
	w.root, w.schedule.DatasetURL = root, "dir://"+root+"/photos"
	return w
}

// pack8 packs eight pictures into a dataset of a store.
func pack8(t *testing.T, st store.Store, name string) world {
	t.Helper()
	w := world{dataset: name}
	photos := t.TempDir()
	must(t, os.Mkdir(filepath.Join(photos, "class"), 0o755))
	for i := range 8 {
		img := image.NewRGBA(image.Rect(0, 0, 64, 48))
		for p := range 64 * 48 {
			img.Set(p%64, p/64, color.RGBA{uint8(i * 30), uint8(p), uint8(p / 64 * 5), 255})
		}
		var b bytes.Buffer
		must(t, jpeg.Encode(&b, img, nil))
		must(t, os.WriteFile(filepath.Join(photos, "class", fmt.Sprintf("%d.jpg", i)), b.Bytes(), 0o644))
	}
	m, err := pack.Pack(t.Context(), pack.Folder{Root: photos}, st, name, pack.Options{})
	must(t, err)
	w.worker = filepath.Join(t.TempDir(), worker.Program)
	build := exec.Command("go", "build", "-o", w.worker, "../stepahead-worker")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the worker: %v\n%s", err, text)
	}
	w.plan, err = transform.ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[32,32]},{"op":"RandomHorizontalFlip"}]}`))
	must(t, err)
	w.order, err = sampler.New(sampler.Spec{Version: 1, Seed: 7, GlobalBatch: 4, Sources: []sampler.Source{{Samples: 8}}})
	must(t, err)
	w.schedule = hints.Schedule{
		Dataset: m.Identity(), Spec: w.order.Spec().Canonical(), Seed: 7, Generation: 1,
		Fields: []hints.FieldPlan{{Field: "image", Plan: w.plan.Canonical(), Digest: w.plan.Digest()}},
	}
	w.key = filepath.Join(t.TempDir(), "key")
	must(t, auth.GenerateKeyFile(w.key, "k1"))
	ring, err := auth.LoadKeyring(w.key)
	must(t, err)
	key, _ := ring.First()
	w.token, err = auth.Mint(key, auth.Claims{Job: "job", User: "ann", Roots: []string{name}, Rights: []string{"fetch", "hint"}, Expires: time.Now().Add(time.Hour)})
	must(t, err)
	return w
}

// start runs the program as a process and returns the words of its one line.
func (w world) start(t *testing.T, node string, more ...string) (cmd *exec.Cmd, words map[string]string) {
	t.Helper()
	args := append([]string{"--store", w.root, "--node", node, "--key", w.key, "--worker", w.worker, "--workers", "1",
		"--cache", t.TempDir(), "--metrics", "127.0.0.1:0", "--dwell", "1s", "--log-level", "warn"}, more...)
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "STEPAHEAD_TEST_AGENT=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	words = map[string]string{}
	for _, word := range strings.Fields(line) {
		k, v, _ := strings.Cut(word, "=")
		words[k] = v
	}
	if words["node"] == "" || words["addr"] == "" {
		t.Fatalf("the program says %q", line)
	}
	return cmd, words
}

// TestProgram: the program as operators run it, with a key, the real worker and real JPEG: it prepares
// what the worker makes of each part, says how it fares, and leaves on SIGTERM without a trace.
func TestProgram(t *testing.T) {
	w := newWorld(t)
	swept := w.left(t)
	cmd, words := w.start(t, "dn1", "--sweep", "20ms")
	addr := words["addr"]
	if words["node"] != "dn1" {
		t.Errorf("the program says that it is %q", words["node"])
	}
	pool, err := worker.New(worker.Options{Path: w.worker, Workers: 1})
	must(t, err)
	defer pool.Close()
	w.schedule.Operators, err = pool.Golden(t.Context())
	must(t, err)
	w.announce(t, "dn1", addr)
	w.fetch(t, addr, pool)
	entry := w.registered(t, "dn1")
	swept(words["metrics"])
	for page, want := range map[string]string{
		"/metrics": `stepahead_agent_answers_total{reason="prepared"} 4`, "/healthz": "ok", "/jobs": `"job": "job"`, "/entries": `"result": "prepared"`,
	} {
		resp, err := http.Get("http://" + words["metrics"] + page)
		must(t, err)
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		must(t, resp.Body.Close())
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: %q is not in %s", page, want, text)
		}
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if _, err := os.Stat(entry); err == nil {
		t.Error("the registry entry is still there")
	}
	w.secured(t)
}

// registered waits for the node's entry, which is written beside serving, to a disk that may be busy, and returns its file.
func (w world) registered(t *testing.T, node string) string {
	t.Helper()
	entry := filepath.Join(w.root, hints.DefaultRegistry, node+".json")
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(entry); err == nil {
			return entry
		} else if time.Since(began) > 2*time.Minute {
			t.Fatal(err)
		}
	}
}

// secured: an agent that other hosts can reach serves those who show a certificate and a token, over TLS.
func (w world) secured(t *testing.T) {
	t.Helper()
	files := t.TempDir()
	cert, key := certificate(t, files, "agent", "127.0.0.1")
	mine, mineKey := certificate(t, files, "trainer", "trainer")
	_, words := w.start(t, "dn2", "--listen", "0.0.0.0:0", "--advertise", "127.0.0.1", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", mine)
	_, port, err := net.SplitHostPort(words["addr"])
	must(t, err)
	addr := net.JoinHostPort("127.0.0.1", port)
	w.schedule.Agents = []hints.Agent{{Node: "dn2", Addr: addr}}
	announce := func(ca, cert, key string) error {
		o := hints.ClientOptions{Token: w.token}
		if ca != "" {
			o.TLS, err = hints.ClientTLS(ca, cert, key)
			must(t, err)
		}
		client := hints.NewClient(o)
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		r, err := client.Announce(ctx, addr, hints.Hint{
			ID: hints.NewID(), Job: "job", Run: "1", TTL: time.Hour, Confidence: 1, Identity: w.schedule.Dataset, Schedule: &w.schedule,
		})
		if err == nil && !r.Accepted {
			err = fmt.Errorf("%+v", r)
		}
		return err
	}
	if err := announce(cert, mine, mineKey); err != nil {
		t.Errorf("mutual TLS: %v", err)
	}
	for name, files := range map[string][3]string{"in the clear": {}, "no certificate": {cert, "", ""}, "another authority": {mine, mine, mineKey}, "a stranger": {cert, cert, key}} {
		if err := announce(files[0], files[1], files[2]); err == nil {
			t.Errorf("%s: let in", name)
		}
	}
	entry, err := os.ReadFile(w.registered(t, "dn2"))
	if err != nil || !strings.Contains(string(entry), `"`+addr+`"`) {
		t.Errorf("the registry says %s, %v; want %s", entry, err, addr)
	}
}

// announce tells an agent of the job, whose only agent it is.
func (w world) announce(t *testing.T, node, addr string) {
	t.Helper()
	w.schedule.Agents = []hints.Agent{{Node: node, Addr: addr}}
	client := hints.NewClient(hints.ClientOptions{Token: w.token})
	defer client.Close()
	reply, err := client.Announce(t.Context(), addr, hints.Hint{
		ID: hints.NewID(), Job: "job", Run: "1", TTL: time.Hour, Confidence: 1, Identity: w.schedule.Dataset, Schedule: &w.schedule,
	})
	must(t, err)
	if !reply.Accepted || reply.Detail != "" {
		t.Fatalf("schedule: %+v", reply)
	}
}

// fetch fetches step 0 and compares each tensor with what the worker makes of the packed file.
func (w world) fetch(t *testing.T, addr string, pool *worker.Pool) {
	t.Helper()
	client := fetch.NewClient(fetch.ClientOptions{Token: w.token})
	defer client.Close()
	req := &fetch.Request{
		Job: "job", Run: "1", Generation: 1, Dataset: w.schedule.Dataset, Deadline: 20 * time.Second,
		PlanDigests: map[string][32]byte{"image": w.plan.Digest()},
	}
	for _, ref := range w.order.Step(0, nil) {
		req.Wants = append(req.Wants, fetch.Want{Sample: ref.Sample, Epoch: ref.Epoch, Field: "image"})
	}
	raw := *req // once more under a plan that the agent does not know: the stored bytes
	raw.PlanDigests = map[string][32]byte{"image": {}}
	parts := w.answers(t, client, addr, &raw)
	for i, a := range w.answers(t, client, addr, req) {
		if a.Prepared == nil || parts[i].Raw == nil {
			t.Fatalf("want %d: reason %q, raw %q", i, a.Reason, parts[i].Reason)
		}
		out := make([]byte, 32*32*3)
		job := worker.Job{Plan: w.plan, Key: transform.Key{Seed: 7, Epoch: req.Wants[i].Epoch, Sample: req.Wants[i].Sample}}
		if _, err := pool.Run(t.Context(), job, worker.Part{Name: "part", Data: parts[i].Raw}, out); err != nil {
			t.Fatal(err)
		}
		if got, want := sha256.Sum256(a.Prepared.Data), sha256.Sum256(out); got != want {
			t.Errorf("want %d: the agent's tensor is %s, the worker's %s", i, hex.EncodeToString(got[:4]), hex.EncodeToString(want[:4]))
		}
	}
}

func (w world) answers(t *testing.T, client *fetch.Client, addr string, req *fetch.Request) map[int]fetch.Answer {
	t.Helper()
	answers := map[int]fetch.Answer{}
	must(t, client.Fetch(t.Context(), addr, req,
		func(_ int, _ bool, size int64) ([]byte, error) { return make([]byte, size), nil },
		func(want int, a fetch.Answer) { answers[want] = a }))
	return answers
}

// TestBadWorker: an agent whose worker program cannot work says so at the start, not at every sample.
func TestBadWorker(t *testing.T) {
	program, err := exec.LookPath("true")
	must(t, err)
	code, _, stderr := output("--store", t.TempDir(), "--node", "local", "--registry", "none", "--worker", program)
	if code != 3 || !strings.Contains(stderr, program) || !strings.Contains(stderr, "--worker") {
		t.Fatalf("exit %d, %q: want 3 and a text that names the program", code, stderr)
	}
}
