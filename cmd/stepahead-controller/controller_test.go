package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/cmd/version"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// TestMain lets this binary be the program itself, so that it can be killed.
func TestMain(m *testing.M) {
	if os.Getenv("STEPAHEAD_TEST_CONTROLLER") != "" {
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // what should have been refused would wait for requests
	defer cancel()
	code = exit.Run(ctx, root, args)
	return code, out.String(), errs.String()
}

// TestUsage: mistakes are exit code 2, each with what is wrong and what to do; what the environment lacks is 3.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		must(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	key := filepath.Join(dir, "catalogue.key")
	must(t, catalogue.GenerateKeyFile(key, "c1"))
	bad := file("bad.yaml", "what: is this\n")
	whole := []string{"--store", t.TempDir(), "--journal", filepath.Join(dir, "journal"), "--catalogue-key", key}
	with := func(more ...string) []string { return append(append([]string{}, whole...), more...) }
	for name, row := range map[string]struct {
		args []string
		want string
		code int
	}{
		"nothing given":      {nil, "--store is missing", 2},
		"all at once":        {nil, "--journal is missing", 2},
		"no key":             {nil, "token keygen --catalogue", 2},
		"no such flag":       {[]string{"--stroe", "x"}, "--stroe", 2},
		"argument":           {[]string{"run"}, "run", 2},
		"a journal, dry":     {with("--dry-run"), "a dry run begins nothing", 2},
		"not loopback":       {with("--listen", "0.0.0.0:1"), "--tls-cert", 2},
		"metrics outside":    {with("--metrics", "192.0.2.1:1"), "--metrics", 2},
		"half of the rules":  {with("--policy", "x"), "give all three or none", 2},
		"no name of a site":  {with("--site", "hdfs://east/"), "name=URL", 2},
		"a site twice":       {with("--site", "a=/x", "--site", "a=/y"), "twice", 2},
		"a site that is us":  {with("--site", "home=/x"), "--home-site", 2},
		"a bad name":         {with("--home-site", "a b"), "--home-site", 2},
		"not UTF-8":          {with("--site", "e\xffst=/x"), "no name of a site", 2},
		"a job of noise":     {with("--watch", "7\x1bb=/runs"), "--watch", 2},
		"no agent":           {with("--agents", "dn1"), "--agents", 2},
		"no folder":          {with("--registry", "agents"), "--registry", 2},
		"a folder":           {with("--journal", dir), "--journal: " + dir + ": it is a folder", 2},
		"no such ledger":     {with("--ledger", dir), "--ledger: " + dir + ": it is a folder", 2},
		"half a certificate": {with("--agent-cert", "x"), "--agent-key", 2},
		"no time at all":     {with("--reconcile", "0s"), "--reconcile", 2},
		"none and some":      {with("--agents", "none,h:1"), "with none there are no others", 2},
		"no scheme":          {[]string{"--store", "s3://x/y", "--journal", "j", "--catalogue-key", key}, "scheme", 2},
		"unknown key":        {[]string{"--config", file("c.yaml", "store: /x\nsites: n\n")}, `unknown key "sites"`, 2},
		"wrong rules":        {with("--policy", bad, "--budgets", bad, "--prices", bad), "bad.yaml:1", 2},
		"no rules":           {with("--policy", "/nonexistent", "--budgets", "/nonexistent", "--prices", "/nonexistent"), "/nonexistent", 3},
		"no key file":        {with("--key", "/nonexistent"), "/nonexistent", 3},
		"no certificate":     {with("--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"), "/nonexistent", 3},
		"no catalogue key":   {with("--catalogue-key", "/nonexistent"), "--catalogue-key", 3},
		"no journal":         {with("--journal", "/dev/null/x"), "--journal", 3},
		"no journal in it":   {with("--journal", file("garbage", strings.Repeat("what is this? ", 1000))), "--journal", 3},
		"no audit log":       {with("--audit", "/dev/null/x"), "--audit", 3},
		"a bad level":        {with("--log-level", "loud"), "loud", 2},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := output(row.args...)
			if code != row.code || !strings.Contains(stderr, row.want) {
				t.Errorf("exit code %d, want %d; %q is to be in: %s", code, row.code, row.want, stderr)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	if code, out, _ := output("--version"); code != 0 || out != "stepahead-controller version "+version.Text()+"\n" {
		t.Errorf("%d %q", code, out)
	}
}

// TestConfig: the file's keys are the flags, also those that are given several times, and what is printed can be read again.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "controller.yaml")
	must(t, os.WriteFile(file, []byte("store: /data\njournal: /var/j\ncatalogue-key: /k\nsite: [east=/e, west=/w]\nwatch: 7b=/runs\n"), 0o644))
	code, printed, stderr := output("config", "print", "--config", file, "--reconcile", "5s")
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, line := range []string{"store: /data", "- east=/e", "- west=/w", "reconcile: 5s", "home-site: home", "audit: /var/j.audit", "- 7b=/runs"} {
		if !strings.Contains(printed, line+"\n") {
			t.Errorf("%q is not in:\n%s", line, printed)
		}
	}
	again := filepath.Join(t.TempDir(), "again.yaml")
	must(t, os.WriteFile(again, []byte(printed), 0o644))
	if _, twice, _ := output("config", "print", "--config", again); twice != printed {
		t.Errorf("printed again it is\n%s, not\n%s", twice, printed)
	}
}

// TestExample: the example is a configuration.
func TestExample(t *testing.T) {
	if code, printed, stderr := output("config", "print", "--config", "../../examples/controller/controller.yaml"); code != 0 || !strings.Contains(printed, "- dublin=hdfs://dublin/\n") {
		t.Errorf("exit %d: %s%s", code, printed, stderr)
	}
}

// world is a home store, another site, and all that a controller needs.
type world struct {
	t          *testing.T
	home, east string
	dir        string // of everything else
	addr       string // of the controller that was started last
	key        auth.Key
}

const (
	policyText = `sites:
  east: {region: eu}
rules:
  - name: all
    when: {paths: "/**"}
    copies: allow
    spread: [sibling, even]
`
	budgetsText = `wan:
  on: true
  links:
    east: {rate: 100 MB/s, emergency-rate: 200 MB/s, transfers: 2, held: 1 TiB, emergency-held: 2 TiB, byte-hours-per-day: 100 TiB*h}
replicas: {on: true, held: 1 TiB, byte-hours-per-day: 10 TiB*h, makes: 2}
storage: {on: true, egress: 2 GB/s, cores: 8, memory: 16 GiB}
`
	pricesText = `accelerator-hour: 2000
wan-gib: 0.0001
remote-tib-hour: 0.0001
replica-tib-hour: 0.0001
storage-gib: 0.0001
entry: 0.0000001
`
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, home: t.TempDir(), east: t.TempDir(), dir: t.TempDir()}
	w.write("policy.yaml", policyText)
	w.write("budgets.yaml", budgetsText)
	w.write("prices.yaml", pricesText)
	must(t, auth.GenerateKeyFile(w.file("key"), "k1"))
	must(t, catalogue.GenerateKeyFile(w.file("catalogue.key"), "c1"))
	ring, err := auth.LoadKeyring(w.file("key"))
	must(t, err)
	w.key, _ = ring.First()
	return w
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	must(w.t, os.WriteFile(w.file(name)+".new", []byte(text), 0o600))
	must(w.t, os.Rename(w.file(name)+".new", w.file(name)))
}

// args are the flags of a controller.
func (w *world) args(more ...string) []string {
	return append([]string{
		"--store", w.home, "--site", "east=" + w.east, "--policy", w.file("policy.yaml"), "--budgets", w.file("budgets.yaml"), "--prices", w.file("prices.yaml"),
		"--key", w.file("key"), "--metrics", "127.0.0.1:0", "--log-level", "warn", "--reconcile", "1s",
	}, more...)
}

// journaled are those of one that acts.
func (w *world) journaled(more ...string) []string {
	return w.args(append([]string{"--journal", w.file("journal"), "--catalogue-key", w.file("catalogue.key")}, more...)...)
}

// start runs the program as a process, and returns the words of its one line.
func (w *world) start(args ...string) (cmd *exec.Cmd, words map[string]string) {
	w.t.Helper()
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "STEPAHEAD_TEST_CONTROLLER=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, cmd.Start())
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	must(w.t, err)
	words = map[string]string{}
	for _, word := range strings.Fields(line) {
		k, v, _ := strings.Cut(word, "=")
		words[k] = v
	}
	if w.addr = words["addr"]; w.addr == "" {
		w.t.Fatalf("the program says %q", line)
	}
	return cmd, words
}

// token is one of a job with some rights.
func (w *world) token(job, rights string) string {
	w.t.Helper()
	token, err := auth.Mint(w.key, auth.Claims{Job: job, User: "ada", Roots: []string{"/"}, Rights: strings.Split(rights, ","), Expires: time.Now().Add(time.Hour)})
	must(w.t, err)
	return token
}

// client is an operator's.
func (w *world) client(addr string) *control.Client {
	w.t.Helper()
	c := control.NewClient(addr, control.ClientOptions{Token: w.token("ops", "operate")})
	w.t.Cleanup(func() { must(w.t, c.Close()) })
	return c
}

// until waits until something is so.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for began := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			w.t.Fatalf("not in two minutes: %s", what)
		}
	}
}

// state is what a controller says of itself; "" while it does not answer.
func (w *world) state(c *control.Client) string {
	st, err := c.Status(w.t.Context())
	if err != nil {
		return ""
	}
	return st.State
}

func (w *world) ends(cmd *exec.Cmd) {
	w.t.Helper()
	must(w.t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		w.t.Errorf("after SIGTERM: %v", err)
	}
}

func page(t *testing.T, addr, name string) string {
	t.Helper()
	resp, err := http.Get("http://" + addr + name)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(text)
}

// TestStandby: of two controllers one acts and the other waits; it takes over when the first is killed, with its journal, and when it ends.
func TestStandby(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, pages := w.start(w.journaled()...)
	one := w.client(w.addr)
	w.until("the first acts", func() bool { return w.state(one) == "active" })
	if text := page(t, pages["metrics"], "/metrics"); !strings.Contains(text, "stepahead_controller_lease_held_state 1") {
		t.Errorf("the first's metrics: %s", text)
	}
	if _, err := one.Drain(t.Context(), true, false); err != nil {
		t.Fatal(err)
	}
	second, pages := w.start(w.journaled()...)
	two := w.client(w.addr)
	w.until("the second waits", func() bool { return w.state(two) == "standby" })
	if text := page(t, pages["metrics"], "/healthz"); text != "ok: standby\n" {
		t.Errorf("the second's health: %s", text)
	}
	if _, err := two.Ranking(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("the second lists: %v", err)
	}
	w.write("budgets.yaml", strings.ReplaceAll(budgetsText, "100 TiB*h", "50 TiB*h")) // while it waits
	must(t, first.Process.Kill())
	_ = first.Wait()
	w.until("the second acts", func() bool { return w.state(two) == "active" })
	if st, err := two.Status(t.Context()); err != nil || !st.Drained || st.Usage.ByteHoursLeft["east"] > 51<<40 {
		t.Errorf("the second begins new things, or goes by old budgets: %+v, %v", st, err)
	}
	if _, err := two.Drain(t.Context(), false, false); err != nil {
		t.Fatal(err)
	}
	w.ends(second)
	third, _ := w.start(w.journaled()...)
	three := w.client(w.addr)
	w.until("the third acts", func() bool { return w.state(three) == "active" })
	if st, err := three.Status(t.Context()); err != nil || st.Drained {
		t.Errorf("the third begins nothing: %+v, %v", st, err)
	}
	w.ends(third)
}

// TestLostLease: a controller whose lease may be another's ends at once, with the code of a supervisor's restart.
func TestLostLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd, _ := w.start(w.journaled()...)
	c := w.client(w.addr)
	w.until("it acts", func() bool { return w.state(c) == "active" })
	entries, err := os.ReadDir(filepath.Join(w.home, ".stepahead"))
	must(t, err)
	for _, e := range entries { // whoever administers the store takes it away
		name := filepath.Join(w.home, ".stepahead", e.Name())
		if text, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(text), fmt.Sprintf("process %d ", cmd.Process.Pid)) {
			must(t, os.Remove(name))
		}
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != exit.Environment {
		t.Errorf("it ended with %v", err)
	}
}

// TestReload: files that change are taken over, wrong ones change nothing and are said, and SIGHUP looks at once.
func TestReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd, _ := w.start(w.journaled("--agents", "none")...)
	c := w.client(w.addr)
	w.until("it acts", func() bool { return w.state(c) == "active" })
	left := func() float64 {
		st, err := c.Status(t.Context())
		must(t, err)
		return st.Usage.ByteHoursLeft["east"]
	}
	w.until("the budgets are in force", func() bool { return left() > 99<<40 })
	w.write("budgets.yaml", strings.ReplaceAll(budgetsText, "100 TiB*h", "50 TiB*h"))
	w.until("the new budgets are in force", func() bool { return left() < 51<<40 })
	w.write("budgets.yaml", "nonsense")
	must(t, cmd.Process.Signal(syscall.SIGHUP))
	w.until("a mistake is said", func() bool {
		st, err := c.Status(t.Context())
		must(t, err)
		return len(st.Problems) == 1 && strings.Contains(st.Problems[0], "budgets.yaml")
	})
	if l := left(); l > 51<<40 || l < 49<<40 {
		t.Errorf("a mistake changed something: %v", l)
	}
	w.write("budgets.yaml", budgetsText)
	w.until("it is mended", func() bool {
		st, err := c.Status(t.Context())
		must(t, err)
		return len(st.Problems) == 0
	})
	w.ends(cmd)
}

// TestSecured: a controller that other hosts can reach speaks to those who show a certificate and a token, over TLS.
func TestSecured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cert, key := certificate(t, w.dir, "controller", "127.0.0.1")
	mine, mineKey := certificate(t, w.dir, "operator", "operator")
	cmd, _ := w.start(w.journaled("--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", mine)...)
	addr := "127.0.0.1:" + w.addr[strings.LastIndexByte(w.addr, ':')+1:]
	ask := func(ca, cert, key, token string) error {
		o := control.ClientOptions{Token: token}
		var err error
		if ca != "" {
			o.TLS, err = hints.ClientTLS(ca, cert, key)
			must(t, err)
		}
		c := control.NewClient(addr, o)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err = c.Status(ctx)
		return err
	}
	token := w.token("ops", "view")
	w.until("it answers", func() bool { return ask(cert, mine, mineKey, token) == nil })
	for name, files := range map[string][4]string{
		"in the clear": {"", "", "", token}, "no certificate": {cert, "", "", token}, "another authority": {mine, mine, mineKey, token}, "a stranger": {cert, cert, key, token},
		"no token": {cert, mine, mineKey, ""},
	} {
		if err := ask(files[0], files[1], files[2], files[3]); err == nil {
			t.Errorf("%s: let in", name)
		}
	}
	w.ends(cmd)
}
