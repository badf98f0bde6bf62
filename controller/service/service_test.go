package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/execute"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/service/servicetest"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a service with a fake engine and a log.
type world struct {
	t      *testing.T
	s      *Service
	engine *servicetest.Engine
	audit  *audit.Log
	addr   string
	key    auth.Key
	logged *observer.ObservedLogs
	reg    *prometheus.Registry
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, engine: servicetest.New(), reg: prometheus.NewRegistry()}
	var err error
	w.key, err = auth.NewKey("k1", []byte(strings.Repeat("k", 32)))
	must(t, err)
	ring, err := auth.NewKeyring(w.key)
	must(t, err)
	w.serve(Options{Keys: ring, Metrics: w.reg})
	w.audit, err = audit.Open(audit.Options{File: filepath.Join(t.TempDir(), "audit.log")})
	must(t, err)
	t.Cleanup(func() { must(t, w.audit.Close()) })
	w.s.Activate(Active{
		Engine: w.engine, Audit: w.audit, Held: func(context.Context) error { return nil }, Problems: func() []string { return []string{"policy: file unreadable"} },
		Resolve: func(url string) (string, error) {
			name, ok := strings.CutPrefix(url, "hdfs://ns")
			if !ok {
				return "", errors.New("it is in another store")
			}
			return name, nil
		},
		Stats: func() execute.Stats {
			return execute.Stats{JournalDown: true, Strays: 3, Refused: map[plan.Reason]int64{plan.ReasonBudget: 7}}
		},
		Progress: func() map[plan.ID]plan.Progress {
			return map[plan.ID]plan.Progress{1: {Done: 1, Total: 3, Rate: 2}, 3: {Done: 9}, 99: {Done: 9}}
		},
		Sweep: func(_ context.Context, all, dryRun bool) control.SweepResult {
			w.engine.Note(fmt.Sprint("sweep ", all, dryRun))
			swept := []control.Swept{{Site: "east", Mark: "m1", Means: plan.Copy, Path: "hdfs://x/1"}, {Mark: "m2", Means: plan.Raise, Path: "/x", Problem: "no right"}}
			return control.SweepResult{Swept: swept}
		},
	})
	return w
}

// serve begins a service.
func (w *world) serve(o Options) {
	w.t.Helper()
	core, logged := observer.New(zap.InfoLevel)
	o.Log, o.Version, w.logged = zap.New(core), "1.2", logged
	var err error
	w.s, err = New(o)
	must(w.t, err)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	w.addr = lis.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.s.Run(ctx, lis) }()
	w.t.Cleanup(func() {
		cancel()
		must(w.t, <-ended)
	})
}

// client has a token of a job with rights and roots.
func (w *world) client(job, rights string, roots ...string) *control.Client {
	w.t.Helper()
	token := ""
	if rights != "" {
		var err error
		token, err = auth.Mint(w.key, auth.Claims{Job: job, User: "user-of-" + job, Roots: roots, Rights: strings.Split(rights, ","), Expires: time.Now().Add(time.Hour)})
		must(w.t, err)
	}
	c := control.NewClient(w.addr, control.ClientOptions{Token: token})
	w.t.Cleanup(func() { must(w.t, c.Close()) })
	return c
}

func paths(list []plan.Standing) string {
	var out []string
	for _, s := range list {
		out = append(out, s.Path)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestWhoMay holds every call to what each kind of token may.
func TestWhoMay(t *testing.T) {
	const a1, a2, b1, secret = "/runs/a/1", "/runs/a/2", "/runs/b/1", "/secret/1"
	for _, c := range []struct {
		name, job, rights string
		roots             []string
		sees, refused     string // the ranking
		usage             bool
		takes             string // what a revocation of all takes back; "denied"
		operates          bool
		told              string // the event of that revocation
	}{
		{"operator", "ops", "operate", []string{"/"}, a1 + " " + a2 + " " + b1, secret, true, a1 + " " + a2 + " " + b1, true, "Job: Roots:[] Why:x"},
		{"operator of a folder", "ops", "operate", []string{"/runs/a"}, a1 + " " + a2, "", false, a1 + " " + a2, false, "Job: Roots:[/runs/a] Why:x"},
		{"viewer", "ops", "view", []string{"/"}, a1 + " " + a2 + " " + b1, secret, true, "denied", false, ""},
		{"viewer of a folder", "ops", "view", []string{"/secret"}, "", secret, false, "denied", false, ""},
		{"job a", "a", "hint", []string{"/"}, a1 + " " + a2, "", false, a1 + " " + a2, false, "Job:a Roots:[] Why:x"},
		{"job a in a folder", "a", "fetch,hint", []string{"/runs/a/2", "/runs/b"}, a2, "", false, a2, false, "Job:a Roots:[/runs/a/2 /runs/b] Why:x"},
		{"job b", "b", "hint", []string{"/runs", "/secret"}, b1, secret, false, b1, false, "Job:b Roots:[/runs /secret] Why:x"},
		{"another job", "c", "hint", []string{"/"}, "", "", false, "", false, "Job:c Roots:[] Why:x"},
		{"a job that sees all", "b", "hint,view", []string{"/"}, a1 + " " + a2 + " " + b1, secret, true, b1, false, "Job:b Roots:[] Why:x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			client := w.client(c.job, c.rights, c.roots...)
			r, err := client.Ranking(t.Context(), 0)
			must(t, err)
			if got := paths(r.Placements); got != c.sees || paths(r.Refused) != c.refused || (r.Usage != nil) != c.usage {
				t.Errorf("sees %q and refused %q, usage %t; want %q and %q", got, paths(r.Refused), r.Usage != nil, c.sees, c.refused)
			}
			if r.All != len(r.Placements) || r.RefusedAll != len(r.Refused) {
				t.Errorf("%d and %d in all", r.All, r.RefusedAll)
			}
			w.whys(client, c.sees)
			st, err := client.Status(t.Context())
			must(t, err)
			if making := paths(st.Making); making != strings.TrimSuffix(strings.ReplaceAll(c.sees, b1, ""), " ") {
				t.Errorf("is told of making %q", making)
			}
			far(t, st.Making, r.Placements)
			if n := st.Waiting + begun(st); n != len(r.Placements) || (st.Usage != nil) != c.usage || (st.Problems != nil) != c.usage {
				t.Errorf("status %+v of %d placements", st, len(r.Placements))
			}
			w.operates(client, c.operates)
			w.revokes(client, c.takes, c.told)
		})
	}
	for name, rights := range map[string]string{"no token": "", "fetch alone": "fetch", "relay alone": "relay"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			client := w.client("a", rights, "/")
			calls := w.everything(client)
			for call, err := range calls {
				if !errors.Is(err, control.ErrDenied) {
					t.Errorf("%s: %v", call, err)
				}
			}
			if n := w.logged.FilterMessage("refused").FilterField(zap.Bool("audit", true)).Len(); n != len(calls) {
				t.Errorf("%d lines for %d refusals", n, len(calls))
			}
			if told := w.engine.Took(); len(told) > 0 {
				t.Errorf("done all the same: %q", told)
			}
		})
	}
}

// far: how far a making is stands beside it, wherever it is told of, and beside nothing else.
func far(t *testing.T, lists ...[]plan.Standing) {
	t.Helper()
	for _, list := range lists {
		for _, s := range list {
			if known := s.Progress != nil; known != (s.ID == 1) || known && *s.Progress != (plan.Progress{Done: 1, Total: 3, Rate: 2}) {
				t.Errorf("placement %d, %s: %+v", s.ID, s.State, s.Progress)
			}
		}
	}
}

func begun(st control.Status) (n int) {
	for _, c := range st.Begun {
		n += c.N
	}
	return n
}

// everything makes all calls.
func (w *world) everything(c *control.Client) map[string]error {
	ctx := w.t.Context()
	errs := map[string]error{}
	_, errs["status"] = c.Status(ctx)
	_, errs["ranking"] = c.Ranking(ctx, 0)
	_, errs["why"] = c.Why(ctx, 1, "")
	_, errs["revoke"] = c.Revoke(ctx, control.Revocation{ID: 1})
	_, errs["drain"] = c.Drain(ctx, true, false)
	_, errs["sweep"] = c.Sweep(ctx, true, false)
	errs["audit"] = c.Audit(ctx, control.AuditQuery{}, func(audit.Line) error { return nil })
	_, errs["timeline"] = c.Timeline(ctx, "/runs/a/1", "")
	return errs
}

// whys: a number is there for who sees the placement, and nobody's for others; a path outside of the roots is refused.
func (w *world) whys(c *control.Client, sees string) {
	w.t.Helper()
	for id, path := range map[plan.ID]string{1: "/runs/a/1", 2: "/runs/a/2", 3: "/runs/b/1"} {
		why, err := c.Why(w.t.Context(), id, "")
		if strings.Contains(sees, path) {
			if err != nil || why.Path != path || len(why.Standings) != 1 || why.Known == "" {
				w.t.Errorf("why %d: %+v, %v", id, why, err)
			}
			far(w.t, why.Standings)
		} else if !errors.Is(err, control.ErrNotFound) {
			w.t.Errorf("why %d: %+v, %v", id, why, err)
		}
		why, err = c.Why(w.t.Context(), 0, path)
		if strings.Contains(sees, path) {
			if err != nil || len(why.Standings) != 1 {
				w.t.Errorf("why %s: %+v, %v", path, why, err)
			}
		} else if !errors.Is(err, control.ErrDenied) && (err != nil || len(why.Standings) > 0 || why.Known != "") {
			w.t.Errorf("why %s: %+v, %v", path, why, err)
		}
	}
	if _, err := c.Why(w.t.Context(), 99, ""); !errors.Is(err, control.ErrNotFound) {
		w.t.Errorf("why 99: %v", err)
	}
}

// TestWhyOfAnothersCheckpoint: whoever pays for a copy of what another job has saved sees the copy, and not who saved it.
func TestWhyOfAnothersCheckpoint(t *testing.T) {
	w := newWorld(t)
	const path = "/runs/e/1"
	say := func(job, id string, state hints.CheckpointState) {
		r := relay.Record{Version: 1, TTLMS: time.Hour.Milliseconds(), ID: id, Job: job, Run: "1", User: "u", Confidence: 1, Identity: "v1"}
		r.Checkpoint = &relay.Checkpoint{State: state.String(), Path: path, Step: -1}
		if state == hints.EvaluationScheduled {
			r.Checkpoint.Evaluation, r.Checkpoint.Site = "e", "east"
		}
		must(t, w.engine.Tell(t.Context(), "test", plan.Hint{Record: r}))
	}
	must(t, w.engine.Tell(t.Context(), "test", plan.BudgetsChanged{Budgets: plan.Budgets{
		WAN:     plan.WAN{On: true, Links: map[string]plan.Link{"east": {Rate: 1e8, Transfers: 8, Held: 1 << 40, ByteHoursPerDay: 1 << 50}}},
		Storage: plan.Storage{On: true, Egress: 1e10, Cores: 16, Memory: 1 << 40},
	}}))
	say("eval", "x1", hints.Committed)
	say("eval", "x2", hints.EvaluationScheduled)
	must(t, w.engine.Tell(t.Context(), "test", plan.Inspected{Checkpoint: plan.Checkpoint{Path: path, Identity: "v1", Complete: true, Bytes: 1 << 30}}))
	say("train", "x3", hints.Committed)
	for _, c := range []struct {
		job, rights, known string
		standings          int
	}{
		{"ops", "view", "committed by job train, run 1", 1}, {"eval", "hint", "", 1}, {"train", "hint", "", 0}, {"other", "hint", "", 0},
	} {
		why, err := w.client(c.job, c.rights, "/").Why(t.Context(), 0, path)
		if err != nil || len(why.Standings) != c.standings || !strings.HasPrefix(why.Known, c.known) || c.known == "" && why.Known != "" {
			t.Errorf("%s: %+v, %v", c.job, why, err)
		}
	}
}

// operates: draining and sweeping are for operators of everything.
func (w *world) operates(c *control.Client, may bool) {
	w.t.Helper()
	_, drained := c.Drain(w.t.Context(), true, true)
	swept, err := c.Sweep(w.t.Context(), true, true)
	if !may {
		if !errors.Is(drained, control.ErrDenied) || !errors.Is(err, control.ErrDenied) || len(w.engine.Took()) > 0 {
			w.t.Errorf("drain: %v, sweep: %v", drained, err)
		}
		return
	}
	if drained != nil || err != nil || len(swept.Swept) != 2 || paths(swept.Revoked) != "/runs/a/1 /runs/a/2 /runs/b/1" {
		w.t.Errorf("drain: %v, sweep: %+v %v", drained, swept, err)
	}
	if told := w.engine.Took(); !slices.Equal(told, []string{"sweep true true"}) {
		w.t.Errorf("a dry run did %q", told)
	}
}

// TestSweepBesideASilentStore: what was undone elsewhere is told, and has its line in the audit log, and so is which store did not answer.
func TestSweepBesideASilentStore(t *testing.T) {
	w := newWorld(t)
	a := *w.s.now()
	a.Sweep = func(context.Context, bool, bool) control.SweepResult {
		return control.SweepResult{
			Swept:  []control.Swept{{Site: "east", Mark: "m1", Means: plan.Copy, Path: "hdfs://ns/runs/x"}, {Site: "east", Mark: "m2", Path: "hdfs://other/y"}},
			Unread: []control.Unread{{Site: "west", Problem: "no answer"}, {Problem: "a bad mark"}},
		}
	}
	w.s.Activate(a)
	ops := w.client("ops", "operate", "/")
	r, err := ops.Sweep(t.Context(), false, false)
	if err != nil || len(r.Swept) != 2 || !slices.Equal(r.Unread, []control.Unread{{Site: "west", Problem: "no answer"}, {Problem: "a bad mark"}}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, c := range []struct {
		client *control.Client
		path   string
		want   string
	}{
		{ops, "", "copy of /runs/x at east,  of hdfs://other/y at east"}, // marks of copies name their originals by URL
		{ops, "hdfs://ns/runs", "copy of /runs/x at east"},
		{w.client("ops", "view", "/runs"), "", "copy of /runs/x at east"},
		{w.client("a", "hint", "/"), "", ""},
	} {
		var found []string
		must(t, c.client.Audit(t.Context(), control.AuditQuery{Path: c.path}, func(l audit.Line) error {
			if l.What == "sweep" {
				found = append(found, fmt.Sprintf("%s of %s at %s", l.Means, l.Path, l.Site))
			}
			return nil
		}))
		if got := strings.Join(found, ", "); got != c.want {
			t.Errorf("below %q: %q, want %q", c.path, got, c.want)
		}
	}
}

// revokes: all, once to look at and once in earnest.
func (w *world) revokes(c *control.Client, takes, told string) {
	w.t.Helper()
	for _, dry := range []bool{true, false} {
		found, err := c.Revoke(w.t.Context(), control.Revocation{All: true, Why: "x", DryRun: dry})
		if takes == "denied" {
			if !errors.Is(err, control.ErrDenied) || len(w.engine.Took()) > 0 {
				w.t.Errorf("revoke: %+v, %v", found, err)
			}
			continue
		}
		if err != nil || paths(found) != takes {
			w.t.Errorf("revoke: %q, %v; want %q", paths(found), err, takes)
		}
		got := w.engine.Took()
		if dry && len(got) > 0 || !dry && (len(got) != 1 || !strings.Contains(got[0], told)) {
			w.t.Errorf("dry run %t: told %q, want %q", dry, got, told)
		}
	}
	for id, path := range map[plan.ID]string{1: "/runs/a/1", 3: "/runs/b/1"} {
		w.engine.Reset()
		may := takes != "denied" && strings.Contains(takes, path)
		_, err := c.Revoke(w.t.Context(), control.Revocation{ID: id})
		_, byPath := c.Revoke(w.t.Context(), control.Revocation{Path: path})
		got := w.engine.Took()
		if may && (err != nil || byPath != nil || len(got) != 2) || !may && (err == nil || byPath == nil || len(got) > 0) {
			w.t.Errorf("revoke %d: %v; %s: %v; told %q", id, err, path, byPath, got)
		}
	}
}

// TestWithoutKeys: everybody on the host may do everything, and nobody else may come.
func TestWithoutKeys(t *testing.T) {
	w := &world{t: t, engine: servicetest.New()}
	w.serve(Options{Keys: auth.Insecure(), Metrics: prometheus.NewRegistry()})
	c := w.client("", "")
	if _, err := c.Ranking(t.Context(), 0); !errors.Is(err, control.ErrStandby) {
		t.Errorf("a standby: %v", err)
	}
	if st, err := c.Status(t.Context()); err != nil || st.State != "standby" || st.Controller != "" || st.Version != "1.2" {
		t.Errorf("a standby: %+v, %v", st, err)
	}
	w.s.Activate(Active{Name: "c1", Engine: w.engine, DryRun: true})
	if st, err := c.Status(t.Context()); err != nil || st.State != "dry-run" || st.Controller != "c1" || st.Usage == nil {
		t.Errorf("a dry run: %+v, %v", st, err)
	}
	found, err := c.Revoke(t.Context(), control.Revocation{ID: 3, Why: "enough"})
	if told := w.engine.Took(); err != nil || paths(found) != "/runs/b/1" || len(told) != 1 || !strings.HasPrefix(told[0], "somebody at 127.0.0.1:") {
		t.Errorf("%+v, %v; %q", found, err, told)
	}
	for name, err := range map[string]error{
		"sweep": second(c.Sweep(t.Context(), false, false)), "audit": c.Audit(t.Context(), control.AuditQuery{}, func(audit.Line) error { return nil }),
	} {
		if err == nil {
			t.Errorf("%s, which there is none of: no error", name)
		}
	}
	other, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	if err := w.s.Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), "other hosts") {
		t.Errorf("an address for all: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestRequests: what makes no sense is refused with what to do.
func TestRequests(t *testing.T) {
	w := newWorld(t)
	c := w.client("ops", "operate", "/")
	for name, err := range map[string]error{
		"nothing to revoke": second(c.Revoke(t.Context(), control.Revocation{})), "two things": second(c.Revoke(t.Context(), control.Revocation{ID: 1, All: true})),
		"a relative path": second(c.Revoke(t.Context(), control.Revocation{Path: "runs"})), "an unclean one": second(c.Why(t.Context(), 0, "/runs/../x")),
		"a URL of another store": second(c.Why(t.Context(), 0, "hdfs://other/x")), "no name in a URL": second(c.Revoke(t.Context(), control.Revocation{Path: "hdfs://ns"})), "why nothing": second(c.Why(t.Context(), 0, "")),
		"an audit of no path": c.Audit(t.Context(), control.AuditQuery{Path: "x"}, nil),
	} {
		if !errors.Is(err, control.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Revoke(t.Context(), control.Revocation{Path: "/nothing"}); !errors.Is(err, control.ErrNotFound) {
		t.Errorf("a path of nothing: %v", err)
	}
	why, err := c.Why(t.Context(), 0, "/secret/1")
	if err != nil || len(why.Standings) != 1 || why.Standings[0].Reason != plan.ReasonPolicy || why.Standings[0].Detail != "no secrets" {
		t.Errorf("a refusal: %+v, %v", why, err)
	}
	if why, err := c.Why(t.Context(), 0, "hdfs://ns/runs/a/1"); err != nil || why.Path != "/runs/a/1" || len(why.Standings) != 1 {
		t.Errorf("by its URL: %+v, %v", why, err)
	}
	if r, err := c.Ranking(t.Context(), 1); err != nil || len(r.Placements) != 1 || r.All != 3 {
		t.Errorf("one of the ranking: %+v, %v", r, err)
	}
	if told := w.engine.Took(); len(told) > 0 {
		t.Errorf("done all the same: %q", told)
	}
	w.drains(c)
	gone := control.NewClient("127.0.0.1:1", control.ClientOptions{})
	defer gone.Close()
	if _, err := gone.Status(t.Context()); !errors.Is(err, control.ErrUnreachable) {
		t.Errorf("nobody there: %v", err)
	}
}

// drains: on and off, each said once.
func (w *world) drains(c *control.Client) {
	w.t.Helper()
	for _, on := range []bool{true, true, false, false} {
		st, err := c.Status(w.t.Context())
		must(w.t, err)
		was, err := c.Drain(w.t.Context(), on, false)
		must(w.t, err)
		now, err := c.Status(w.t.Context())
		must(w.t, err)
		if was != st.Drained || now.Drained != on {
			w.t.Errorf("drain %t: was %t, is %t", on, was, now.Drained)
		}
	}
	if told := w.engine.Took(); !slices.Equal(told, []string{"user-of-ops: {On:true}", "user-of-ops: {On:false}"}) {
		w.t.Errorf("told %q", told)
	}
}
