package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// TestRelayProgram: what a job foretells of a checkpoint is there after a kill -9 right after the answer, is printed while an agent runs, and
// numbers go on.
func TestRelayProgram(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "ledger")
	say := func(addr string, state hints.CheckpointState) {
		t.Helper()
		c := hints.NewClient(hints.ClientOptions{Token: w.token})
		defer func() { must(t, c.Close()) }()
		r, err := c.Announce(t.Context(), addr, hints.Hint{
			ID: hints.NewID(), Job: "job", Run: "1", TTL: time.Hour, Confidence: 1,
			Checkpoint: &hints.Checkpoint{State: state, Path: filepath.Join(w.root, "photos/step-3"), Step: 3},
		})
		if err != nil || !r.Accepted {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	cmd, words := w.start(t, "dn1", "--relay", file)
	say(words["addr"], hints.Saving)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	_, words = w.start(t, "dn1", "--relay", file)
	say(words["addr"], hints.Committed)
	code, out, stderr := output("relay", "print", "--relay", file)
	var records []relay.Record
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var r relay.Record
		must(t, json.Unmarshal([]byte(line), &r))
		records = append(records, r)
	}
	if code != exit.OK || len(records) != 2 || records[0].Checkpoint.State != "saving" || records[1].Checkpoint.State != "committed" ||
		records[1].Number != 2 || records[1].User != "ann" || records[1].Checkpoint.Path != "/photos/step-3" {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
	if _, out, _ := output("relay", "print", "--relay", file, "--after", "1"); strings.Contains(out, "saving") || !strings.Contains(out, "committed") {
		t.Errorf("after 1: %s", out)
	}
}

// TestLedgerOfTheStore: what an agent keeps where no file is given is found however the store is written.
func TestLedgerOfTheStore(t *testing.T) {
	w := newWorld(t)
	cache := t.TempDir()
	_, words := w.start(t, "dn1", "--cache", cache)
	c := hints.NewClient(hints.ClientOptions{Token: w.token})
	r, err := c.Announce(t.Context(), words["addr"], hints.Hint{
		ID: hints.NewID(), Job: "job", Run: "1", TTL: time.Hour, Confidence: 1, Checkpoint: &hints.Checkpoint{State: hints.Saving, Path: filepath.Join(w.root, "photos/step-3"), Step: 3},
	})
	if err != nil || !r.Accepted {
		t.Fatalf("%+v, %v", r, err)
	}
	must(t, c.Close())
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(w.root, link))
	for _, store := range []string{w.root, w.root + "/", "file://" + w.root, link} {
		if code, out, stderr := output("relay", "print", "--node", "dn1", "--store", store, "--cache", cache); code != exit.OK || !strings.Contains(out, "photos/step-3") {
			t.Errorf("%s: exit %d: %s%s", store, code, out, stderr)
		}
	}
}

func TestRelayPrint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	must(t, os.WriteFile(file, []byte("what\n"), 0o600))
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	for _, row := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"relay"}, exit.Misused, "print"},
		{[]string{"relay", "print"}, exit.Misused, "--relay"},
		{[]string{"relay", "print", "--relay", "none"}, exit.Misused, "--relay"},
		{[]string{"relay", "print", "--relay", file}, exit.Found, "at byte 0"},
		{[]string{"relay", "print", "--relay", file + "x"}, exit.OK, ""},
		{[]string{"relay", "print", "--node", "local", "--store", t.TempDir(), "--cache", t.TempDir()}, exit.OK, ""},
		{[]string{"relay", "print", "--node", "dn9", "--store", t.TempDir(), "--cache", t.TempDir()}, exit.Environment, "dn9"},
		{[]string{"relay", "print", "--node", "local", "--store", "s3://x", "--cache", t.TempDir()}, exit.Misused, "--store"},
		{[]string{"relay", "print", "--relay", pipe}, exit.Misused, "it is a pipe"},
	} {
		if code, _, stderr := output(row.args...); code != row.code || !strings.Contains(stderr, row.want) {
			t.Errorf("%v: exit %d, want %d: %s", row.args, code, row.code, stderr)
		}
	}
}
