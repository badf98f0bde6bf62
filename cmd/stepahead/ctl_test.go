package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/lease"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/service"
	"github.com/stepahead-io/stepahead/controller/service/servicetest"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/controller/timeline"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

var rewriteCtl = flag.Bool("rewrite", false, "write testdata/ctl.txt anew, to be read in review")

// controlled is a controller to ask, with the placements of servicetest.
type controlled struct {
	engine *servicetest.Engine
	addr   string
	key    auth.Key
}

func newControlled(t *testing.T, standby bool) *controlled {
	t.Helper()
	c := &controlled{engine: servicetest.New()}
	var err error
	c.key, err = auth.NewKey("k1", []byte(strings.Repeat("k", 32)))
	must(t, err)
	ring, err := auth.NewKeyring(c.key)
	must(t, err)
	s, err := service.New(service.Options{Keys: ring, Version: "1.2", Log: zap.NewNop(), Metrics: prometheus.NewRegistry()})
	must(t, err)
	log, err := audit.Open(audit.Options{File: filepath.Join(t.TempDir(), "audit.log")})
	must(t, err)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c.addr = lis.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, lis) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
		must(t, log.Close())
	})
	if standby {
		return c
	}
	timelines := timeline.NewLog("home")
	for i, ev := range []timeline.Event{
		{Kind: "committed", Job: "7b", Step: 500},
		{Kind: timeline.CopyBegun, Job: "7b", Site: "east", Placement: 9, At: time.Minute},
		{Kind: timeline.CopyReady, Job: "7b", Site: "east", Placement: 9, At: 2 * time.Minute},
		{Kind: "evaluation-opened", Job: "eval\x1b[2J", Site: "east", At: 5 * time.Minute},
		{Kind: "evaluation-loaded", Job: "eval\x1b[2J", At: 6 * time.Minute},
		{Kind: "evaluation-result", Job: "eval\x1b[2J", At: 16 * time.Minute, Result: &timeline.Result{Metric: "loss", Regression: true}},
	} {
		ev.ID, ev.Path = fmt.Sprint(i), "/runs/7b/step-500"
		timelines.Add(ev)
	}
	s.Activate(service.Active{
		Name: "c1", Engine: c.engine, Audit: log, Timeline: timelines,
		Progress: func() map[plan.ID]plan.Progress {
			return map[plan.ID]plan.Progress{1: {Done: 300 << 20, Total: 1 << 30, Rate: 10 << 20}, 3: {Done: 1}} // 3 waits
		},
		Problems: func() []string { return []string{"policy: budgets.yaml:3: rate: what is this?\x1b[2J"} },
		Sweep: func(_ context.Context, all, dryRun bool) control.SweepResult {
			list := []control.Swept{{Site: "east", Mark: "m", Means: plan.Copy, Path: "hdfs://x/1", Done: []string{"deleted /.stepahead/data/c0-4"}}}
			if !dryRun {
				list = append(list, control.Swept{Mark: "n", Means: plan.Raise, Path: "/x", Problem: "setReplication: no right"})
			}
			r := control.SweepResult{Swept: list}
			if !all && !dryRun {
				r.Unread = []control.Unread{{Site: "west", Problem: "no answer\x1b[2J"}}
			}
			return r
		},
	})
	at := time.Date(2027, 1, 2, 3, 4, 5, 678e6, time.UTC)
	for _, e := range []audit.Entry{
		{At: at, Who: "controller", What: "make", Placement: 1, Means: plan.Copy, Path: "/runs/a/1", Site: "east", Job: "a", Bytes: 1 << 30, Until: at.Add(time.Hour), Why: "saves 20 s"},
		{At: at.Add(time.Second), Who: "controller", What: "make", Placement: 3, Means: plan.Copy, Path: "/runs/b/1", Site: "east", Job: "b", Err: "site: full", Took: time.Second},
		{At: at.Add(2 * time.Second), Who: "ada", What: "drain"},
	} {
		s.Record(e)
	}
	return c
}

// token is one of a job with rights below "/".
func (c *controlled) token(t *testing.T, job, rights string) string {
	t.Helper()
	token, err := auth.Mint(c.key, auth.Claims{Job: job, User: "ada", Roots: []string{"/"}, Rights: []string{rights}, Expires: time.Now().Add(time.Hour)})
	must(t, err)
	return token
}

// TestCtl runs the commands of testdata/ctl.txt, of an operator and of jobs, and compares all that they print.
func TestCtl(t *testing.T) {
	const file = "testdata/ctl.txt"
	script, err := os.ReadFile(file)
	must(t, err)
	c := newControlled(t, false)
	t.Setenv("STEPAHEAD_CONTROLLER", c.addr)
	var got strings.Builder
	lasting := regexp.MustCompile(`for [0-9.]+m?s, stepahead|"up_ns": [0-9]+`)
	moment := regexp.MustCompile(`committed 2[0-9TZ:-]+|"wall": "[^"]*"`)
	for _, line := range strings.Split(string(script), "\n") {
		who, command1, ok := strings.Cut(strings.TrimPrefix(line, "$ "), ": ")
		if !strings.HasPrefix(line, "$ ") || !ok {
			if strings.HasPrefix(line, "#") {
				got.WriteString("\n" + line + "\n")
			}
			continue
		}
		job, rights, _ := strings.Cut(who, "/")
		t.Setenv("STEPAHEAD_TOKEN", c.token(t, job, rights))
		c.engine.Took()
		code, out, errs := command(t, append([]string{"ctl"}, strings.Fields(command1)...)...)
		out = lasting.ReplaceAllString(strings.ReplaceAll(out+errs, c.addr, "ADDR"), "for a while, stepahead")
		out = moment.ReplaceAllString(out, "committed at some time")
		got.WriteString(line + "\n" + out)
		for _, told := range c.engine.Took() {
			got.WriteString("= " + told + "\n")
		}
		if code != 0 {
			got.WriteString("exit " + string(rune('0'+code)) + "\n")
		}
	}
	text := strings.TrimPrefix(got.String(), "\n")
	if *rewriteCtl {
		must(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	if text != string(script) {
		t.Errorf("it changed; run with -rewrite and read the difference. Now:\n%s", text)
	}
}

// TestCtlMistakes: what the command line says wrong, and a controller that is not there.
func TestCtlMistakes(t *testing.T) {
	t.Setenv("STEPAHEAD_CONTROLLER", "")
	standby := newControlled(t, true)
	for name, row := range map[string]struct {
		args []string
		want string
		code int
	}{
		"no controller":     {[]string{"status"}, "--controller HOST:PORT", exit.Misused},
		"in the clear":      {[]string{"status", "--controller", "ctl.example:1"}, "over TLS only", exit.Misused},
		"no port":           {[]string{"status", "--controller", "localhost"}, "no host:port", exit.Misused},
		"no authority":      {[]string{"status", "--controller", "localhost:1", "--ca", "/nonexistent"}, "/nonexistent", exit.Environment},
		"nobody there":      {[]string{"status", "--controller", "127.0.0.1:1"}, "is it running", exit.Environment},
		"no token":          {[]string{"plan", "--controller", standby.addr}, "STEPAHEAD_TOKEN", exit.Environment},
		"a standby":         {[]string{"plan", "--controller", standby.addr, "--token", standby.token(t, "ops", "view")}, "standby", exit.Environment},
		"unknown":           {[]string{"stauts"}, "did you mean status?", exit.Misused},
		"why nothing":       {[]string{"why"}, "usage", exit.Misused},
		"revoke nothing":    {[]string{"revoke"}, "give a number or a path, or --all", exit.Misused},
		"revoke two things": {[]string{"revoke", "1", "--all"}, "give a number or a path, or --all", exit.Misused},
		"no span":           {[]string{"audit", "--since", "yesterday"}, "--since", exit.Misused},
		"sites alone":       {[]string{"sweep", "--site", "a=b"}, "--site goes with --store", exit.Misused},
		"no site":           {[]string{"sweep", "--store", t.TempDir(), "--site", "b"}, "name=URL", exit.Misused},
		"no store":          {[]string{"sweep", "--store", "s3://x"}, "scheme", exit.Misused},
	} {
		t.Run(name, func(t *testing.T) {
			if code, out, errs := command(t, append([]string{"ctl"}, row.args...)...); code != row.code || !strings.Contains(errs, row.want) || out != "" {
				t.Errorf("exit code %d, want %d; %q is to be in: %s%s", code, row.code, row.want, out, errs)
			}
		})
	}
}

// TestCtlStandby: the state of a standby is told, as no mistake.
func TestCtlStandby(t *testing.T) {
	c := newControlled(t, true)
	code, out, errs := command(t, "ctl", "status", "--controller", c.addr, "--token", c.token(t, "ops", "view"))
	if code != 0 || !strings.Contains(out, "standby: another controller") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// slow is an output that takes its time for each write, as a pager does.
type slow struct {
	strings.Builder
	each time.Duration
}

func (s *slow) Write(p []byte) (int, error) {
	<-time.After(s.each)
	return s.Builder.Write(p)
}

// TestCtlAuditIsRead: whoever reads the audit log may take longer than the controller may.
func TestCtlAuditIsRead(t *testing.T) {
	t.Parallel()
	c := newControlled(t, false)
	f := ctlFlags{controller: c.addr, token: c.token(t, "ops", "view"), timeout: 5 * time.Second}
	out := &slow{each: f.timeout + f.timeout/2}
	if err := f.follow(t.Context(), control.AuditQuery{Job: "a"}, out); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestCtlJSON: the keys that scripts rely on.
func TestCtlJSON(t *testing.T) {
	c := newControlled(t, false)
	t.Setenv("STEPAHEAD_CONTROLLER", c.addr)
	t.Setenv("STEPAHEAD_TOKEN", c.token(t, "ops", "operate"))
	for args, keys := range map[string]string{
		"status": "version state controller drained up_ns begun waiting making usage tally cluster problems", "plan": "placements all refused refused_all usage", "why 1": "path known standings",
		"revoke 1 --dry-run": "dry_run revoked", "drain --dry-run": "dry_run was_drained is_drained", "sweep --dry-run": "dry_run swept unread",
	} {
		_, out, errs := command(t, append(append([]string{"ctl"}, strings.Fields(args)...), "--json")...)
		var got map[string]any
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Errorf("%s: %v: %s%s", args, err, out, errs)
		}
		for _, key := range strings.Fields(keys) {
			if _, ok := got[key]; !ok {
				t.Errorf("%s: no %q in %s", args, key, out)
			}
		}
	}
	_, out, _ := command(t, "ctl", "audit", "--json", "--job", "a")
	var line audit.Line
	if err := json.Unmarshal([]byte(out), &line); err != nil || line.Number != 1 || line.Placement != 1 || line.Bytes != 1<<30 || line.Until.IsZero() {
		t.Errorf("%+v, %v: %s", line, err, out)
	}
}

// TestCtlSweepWithoutController: what controllers left at home and elsewhere is found by its marks and undone, nothing else is touched, and not while a
// controller is active.
func TestCtlSweepWithoutController(t *testing.T) {
	homeAt, eastAt := t.TempDir(), t.TempDir()
	open := func(root string) store.Store {
		st, _, err := dir.Open(root, dir.Options{})
		must(t, err)
		t.Cleanup(func() { must(t, st.Close()) })
		return st
	}
	home, east := open(homeAt), open(eastAt)
	put := func(st store.Store, name string) { must(t, store.ReplaceFile(t.Context(), st, name, []byte("x"))) }
	put(home, "/runs/1")
	mark := func(st store.Store, id plan.ID, means plan.Means, path string, ttl time.Duration) temporary.Mark {
		m := temporary.Mark{Version: temporary.Version, Controller: "c0", Placement: id, Means: means, Path: path, Place: temporary.PlaceOf("c0", id), TTL: ttl}
		must(t, temporary.Write(t.Context(), st, m))
		put(st, m.Place+"/data")
		return m
	}
	mark(home, 1, plan.Sibling, "/runs/1", time.Hour)
	put(home, temporary.NameOf("c0", 9)+".half") // no mark, and not ours
	storetest.Put(t, home, temporary.NameOf("c0", 9)+".new", []byte("half"))
	for name, age := range map[string]time.Duration{temporary.ProbeOf("killed"): time.Hour, temporary.ProbeOf("alive"): 0} {
		put(east, name)
		must(t, os.Chtimes(eastAt+name, time.Now(), time.Now().Add(-age)))
	}
	mark(east, 2, plan.Copy, home.Address("/runs/1"), time.Hour)
	other := mark(east, 3, plan.Copy, "hdfs://other/runs/1", time.Hour) // of other files
	args := []string{"ctl", "sweep", "--all", "--store", homeAt, "--site", "east=" + eastAt}
	left := func() int {
		a, err := temporary.List(t.Context(), home)
		must(t, err)
		b, err := temporary.List(t.Context(), east)
		must(t, err)
		return len(a) + len(b)
	}
	claim, err := lease.Acquire(t.Context(), home, lease.Options{})
	must(t, err)
	if code, _, errs := command(t, append(args[:len(args):len(args)], "--wait", "2s")...); code != exit.Environment || !strings.Contains(errs, "a controller is active") || left() != 3 {
		t.Errorf("with a controller: exit %d, %d left: %s", code, left(), errs)
	}
	if code, out, errs := command(t, append(args[:len(args):len(args)], "--dry-run")...); code != 0 || strings.Count(out, "would be undone") != 2 || left() != 3 {
		t.Errorf("a dry run: exit %d, %d left: %s%s", code, left(), out, errs)
	}
	must(t, claim.Release())
	if code, out, errs := command(t, args...); code != 0 || strings.Count(out, ": undone\n") != 2 || left() != 1 {
		t.Errorf("exit %d, %d left: %s%s", code, left(), out, errs)
	}
	if infos, err := home.List(t.Context(), temporary.Folder); err != nil || len(infos) != 1 || infos[0].Name != temporary.NameOf("c0", 9)+".half" {
		t.Errorf("beside the marks: %+v, %v", infos, err)
	}
	if infos, err := east.List(t.Context(), temporary.Folder); err != nil || len(infos) != 2 || infos[0].Name != other.Name() || infos[1].Name != temporary.ProbeOf("alive") {
		t.Errorf("at the other site: %+v, %v", infos, err)
	}
	if _, err := east.Stat(t.Context(), other.Place+"/data"); err != nil {
		t.Errorf("what is of other files: %v", err)
	}
	if _, err := home.Stat(t.Context(), "/runs/1"); err != nil {
		t.Errorf("the original: %v", err)
	}
	if code, out, _ := command(t, args...); code != 0 || out != "nothing was left behind\n" {
		t.Errorf("again: exit %d: %s", code, out)
	}
	put(home, temporary.NameOf("c0", 8))
	if code, _, errs := command(t, args...); code != exit.Environment || !strings.Contains(errs, temporary.NameOf("c0", 8)) || !strings.Contains(errs, "not a mark") {
		t.Errorf("what is no mark: exit %d: %s", code, errs)
	}
	must(t, os.Remove(homeAt+temporary.NameOf("c0", 8)))
	must(t, os.RemoveAll(eastAt))
	mark(home, 4, plan.Sibling, "/runs/1", time.Hour)
	code, out, errs := command(t, append(args[:len(args):len(args)], "--json")...)
	var r control.SweepResult
	must(t, json.Unmarshal([]byte(out), &r))
	if code != exit.Environment || !strings.Contains(errs, "site east: ") || len(r.Unread) != 1 || r.Unread[0].Site != "east" || r.Unread[0].Problem == "" || len(r.Swept) != 1 || r.Swept[0].Problem != "" {
		t.Errorf("a site that is gone: exit %d: %s%s", code, out, errs)
	}
	if marks, err := temporary.List(t.Context(), home); err != nil || len(marks) != 0 {
		t.Errorf("a site that is gone kept what is at home: %v, %v", marks, err)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Millisecond: "1.5s", 61 * time.Second: "1m01s", 125 * time.Minute: "2h05m", 49 * time.Hour: "2d1h", -time.Minute: "-1m00s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// TestPrintReady: which nodes serve a hot file, by rack, or why that is not known; nothing where nothing was begun.
func TestPrintReady(t *testing.T) {
	for want, why := range map[string]control.Why{
		"": {}, "\nserved now by 5 nodes: 2 in /r1, 3 in /r2\n": {Ready: map[string]int64{"/r2": 3, "/r1": 2}},
		"\nserved now by 1 nodes: 1 in -\n": {Ready: map[string]int64{"": 1}}, "\nwhich nodes serve it cannot be told: no\\x1b\n": {ReadyProblem: "no\x1b"},
	} {
		var b strings.Builder
		printReady(&b, why)
		if b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
}
