package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/policy"
)

// TestConfigurationFirst: what is wrong with any file that is given is said before the program says that it listens, and a pipe is not waited for.
func TestConfigurationFirst(t *testing.T) {
	w := newWorld(t)
	wrong, pipe := w.file("wrong"), w.file("pipe")
	must(t, os.WriteFile(wrong, []byte("what is this?\n"), 0o600))
	must(t, syscall.Mkfifo(pipe, 0o600))
	flags := []string{"--catalogue-key", "--key", "--agent-ca", "--tls-client-ca"}
	cert, key := certificate(t, w.dir, "controller", "127.0.0.1")
	try := func(args []string, want string, code int) {
		t.Helper()
		got, out, stderr := output(w.journaled(args...)...)
		if got != code || !strings.Contains(stderr, want) || out != "" {
			t.Errorf("%v: exit %d, want %d with %q: %s%s", args, got, code, want, out, stderr)
		}
	}
	for _, flag := range flags {
		for file, code := range map[string]int{wrong: exit.Misused, pipe: exit.Misused, "/nonexistent": exit.Environment} {
			try([]string{"--tls-cert", cert, "--tls-key", key, flag, file}, file, code)
		}
	}
	for _, flag := range []string{"--policy", "--budgets", "--prices", "--journal", "--audit", "--ledger", "--config"} {
		try([]string{flag, pipe}, "it is a pipe", exit.Misused)
	}
	must(t, syscall.Mkfifo(w.file("journal"+drainedSuffix), 0o600))
	try(nil, "it is a pipe", exit.Misused)
}

// TestStrangers: sites that are not named wherever they must be are said at the start, when the files change, and by config check.
func TestStrangers(t *testing.T) {
	w := newWorld(t)
	files := policy.Files{Rules: w.file("policy.yaml"), Budgets: w.file("budgets.yaml"), Prices: w.file("prices.yaml")}
	write := func(sites string) {
		w.write("policy.yaml", strings.Replace(policyText, "  east: {region: eu}\n", sites, 1))
	}
	core, logged := observer.New(zap.WarnLevel)
	told := func() (texts []string) {
		for _, e := range logged.TakeAll() {
			if e.Message == strangerWarning {
				texts = append(texts, strings.ReplaceAll(fmt.Sprint(e.ContextMap()["detail"]), w.dir+"/", ""))
			}
		}
		return texts
	}
	want := func(when string, want ...string) {
		t.Helper()
		if got := told(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	p := &program{log: zap.New(core), problems: newProblems()}
	p.s.homeSite, p.s.rules = "home", files
	p.given.urls = map[string]string{"east": "/x", "west": "/y"}
	write("  east: {region: eu}\n  home: {region: eu}\n  north: {region: eu}\n")
	var err error
	p.rules, err = readRules(files, p.problems, p.log, p.strangers)
	must(t, err)
	p.warn()
	west := "--site west: policy.yaml declares no site of this name: nothing is copied there"
	north := "policy.yaml declares the site north: nothing is copied there without --site north=URL, or --home-site north if it is the home store's"
	want("at the start", west, north)
	write("  east: {region: eu}\n  west: {region: eu}\n") // while it is a standby
	p.rules.begin(time.Now())
	want("when the files change", "--site west: budgets.yaml has no link to it: nothing is copied there")
	p.rules.tell = func(context.Context, string, plan.Event) error { return nil }
	must(t, p.rules.read(t.Context(), true))
	want("when nothing did")
	p.given.urls = nil
	write("  east: {region: eu}\n")
	must(t, p.rules.read(t.Context(), false))
	want("while they may be being written")
	must(t, p.rules.read(t.Context(), false))
	want("without any", "policy.yaml declares the site east, and budgets.yaml has a link to it: nothing is copied there without --site east=URL, or --home-site east if it is the home store's")
	code, out, stderr := output("config", "check", "--policy", files.Rules, "--budgets", files.Budgets, "--prices", files.Prices, "--site", "east=/x", "--site", "west=/y")
	if code != 0 || !strings.Contains(out, "\nwarning: --site west: ") || strings.Contains(out, "site east") {
		t.Errorf("config check: exit %d: %s%s", code, out, stderr)
	}
}
