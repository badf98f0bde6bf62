package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// kept is a ledger in memory that fails as told.
type kept struct {
	mu      sync.Mutex
	records []relay.Record
	fail    error
}

func (k *kept) Append(_ context.Context, r relay.Record) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail != nil {
		return 0, k.fail
	}
	k.records = append(k.records, r)
	return uint64(len(k.records)), nil
}

func (k *kept) take() []relay.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.records
	k.records = nil
	return all
}

// about is a hint about a checkpoint.
func (t *trainer) about(state hints.CheckpointState, path string, sequence uint64) hints.Hint {
	h := t.hint(hints.Hint{Checkpoint: &hints.Checkpoint{State: state, Path: path, Step: 7, Sequence: sequence}})
	h.Identity = [32]byte{}
	return h
}

func (t *trainer) starts(paths ...string) hints.Hint {
	s := &hints.Start{Ranks: 16, RanksPerHost: 8, ExpectedIn: time.Minute}
	for _, p := range paths {
		s.Files = append(s.Files, hints.HotFile{Path: p, Readers: 16})
	}
	return t.hint(hints.Hint{Start: s})
}

// jobNow is the one job of an agent's page.
func (r *liveAgent) jobNow(t testing.TB) jobStatus {
	t.Helper()
	_, page := r.get("/jobs")
	var jobs []jobStatus
	must(t, json.Unmarshal([]byte(page), &jobs))
	if len(jobs) != 1 {
		t.Fatalf("jobs: %s", page)
	}
	return jobs[0]
}

// TestRelays: every state and a start are accepted and kept, a save stops the job's clock until it is committed.
func TestRelays(t *testing.T) {
	c := newCluster(t)
	file := filepath.Join(t.TempDir(), "ledger")
	ledger, err := relay.Open(relay.Options{File: file})
	must(t, err)
	t.Cleanup(func() { must(t, ledger.Close()) })
	a := c.start("dn1", func(o *Options) { o.Relay = ledger })
	tr := c.trainer("job", "1", "")
	tr.taken(0)
	for state := hints.Saving; state <= hints.LossSpike; state++ {
		if r := tr.announce(tr.about(state, "/ckpt/step-7", uint64(state))); !r.Accepted {
			t.Fatalf("%s: %+v", state, r)
		}
		want := ""
		if state == hints.Saving {
			want = "/ckpt/step-7"
		}
		if got := a.jobNow(t).Saving; got != want {
			t.Errorf("after %s the clock stands still for %q, want %q", state, got, want)
		}
	}
	if r := tr.announce(tr.starts("/ckpt/step-7/.metadata")); !r.Accepted {
		t.Fatalf("start: %+v", r)
	}
	var got []string
	must(t, relay.Read(file, 0, func(r relay.Record) error {
		if r.Start != nil {
			got = append(got, fmt.Sprint("start ", r.Start.Files))
		} else {
			got = append(got, r.Checkpoint.State+" "+r.Checkpoint.Path)
		}
		return nil
	}))
	want := "saving /ckpt/step-7,committed /ckpt/step-7,evaluation-scheduled /ckpt/step-7,evaluation-cancelled /ckpt/step-7," +
		"evaluation-opened /ckpt/step-7,evaluation-done /ckpt/step-7,deleted /ckpt/step-7,loss-spike /ckpt/step-7,start [{/ckpt/step-7/.metadata 16}]"
	if strings.Join(got, ",") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, ","), want)
	}
	if n := a.metric(t, "relayed_total"); n != 9 {
		t.Errorf("%v counted", n)
	}
}

// TestRelaysTheEnd: how far a start is and the end of a run are kept; an end that cannot be is no reason to keep what was prepared.
func TestRelaysTheEnd(t *testing.T) {
	c := newCluster(t)
	keeps := &kept{}
	c.start("dn1", func(o *Options) { o.Relay = keeps })
	tr := c.trainer("job", "1", "")
	tr.taken(0)
	phase := func(s hints.Start) {
		s.Ranks, s.RanksPerHost = 16, 8
		h := tr.hint(hints.Hint{Start: &s})
		if r := tr.announce(h); !r.Accepted {
			t.Fatalf("%s: %+v", s.Phase, r)
		}
	}
	phase(hints.Start{Phase: hints.Opened, Files: []hints.HotFile{{Path: "/ckpt/step-7", Readers: 1}}})
	phase(hints.Start{Phase: hints.Read, Took: hints.Took{Median: time.Second, Last: 2 * time.Second, Bytes: 5}})
	end := tr.hint(hints.Hint{Close: &hints.Close{}})
	for range 2 {
		if r := tr.announce(end); !r.Accepted {
			t.Fatalf("%+v", r)
		}
	}
	got := keeps.take()
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	if s := got[0].Start; s == nil || s.Phase != "opened" || len(s.Files) != 1 || s.Files[0].Path != "/ckpt/step-7" {
		t.Errorf("%+v", s)
	}
	if s := got[1].Start; s == nil || s.Phase != "read" || s.MedianMS != 1000 || s.LastMS != 2000 || s.Bytes != 5 || len(s.Files) != 0 {
		t.Errorf("%+v", s)
	}
	if r := got[2]; !r.Ended || r.Start != nil || r.Checkpoint != nil || r.Job != "job" || r.Run != "1" {
		t.Errorf("%+v", r)
	}
	keeps.fail = errors.New("disk full")
	other := c.trainer("job", "2", "")
	other.taken(0)
	if r := other.announce(other.hint(hints.Hint{Close: &hints.Close{}})); !r.Accepted {
		t.Errorf("%+v", r)
	}
	if len(keeps.records) != 0 {
		t.Errorf("%+v", keeps.records)
	}
}

// TestHandsOver: a controller that follows gets each hint when it is kept, and is let go when the agent leaves.
func TestHandsOver(t *testing.T) {
	c := newCluster(t)
	ledger, err := relay.Open(relay.Options{File: filepath.Join(t.TempDir(), "ledger")})
	must(t, err)
	t.Cleanup(func() { must(t, ledger.Close()) })
	a := c.start("dn1", func(o *Options) { o.Relay = ledger })
	client := relay.NewClient(hints.ClientOptions{})
	defer client.Close()
	got, ended := make(chan relay.Handed, 1), make(chan error, 1)
	go func() {
		ended <- client.Records(t.Context(), a.addr, relay.Cursor{}, 0, func() {}, func(h relay.Handed) error {
			got <- h
			return nil
		})
	}()
	tr := c.trainer("job", "1", "")
	for sequence := range uint64(3) {
		if r := tr.announce(tr.about(hints.LossSpike, "/ckpt/step-7", sequence+1)); !r.Accepted {
			t.Fatalf("%+v", r)
		}
		if h := <-got; h.Record.Number != sequence+1 || h.Record.Checkpoint.Sequence != sequence+1 || h.Age > time.Minute {
			t.Errorf("%+v", h)
		}
	}
	a.stop(t)
	if err := <-ended; !errors.Is(err, hints.ErrUnreachable) {
		t.Errorf("the agent left: %v", err)
	}
}

// TestRelaysOnce: the same hint, a thousand times and many at once, is kept once; so is what comes late, never.
func TestRelaysOnce(t *testing.T) {
	c := newCluster(t)
	k := &kept{}
	a := c.start("dn1", func(o *Options) { o.Relay = k })
	tr := c.trainer("job", "1", "")
	tr.taken(0)
	h := tr.about(hints.Committed, "/ckpt/step-7", 2)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			for range 100 {
				if r, err := tr.hints.Announce(t.Context(), a.addr, h); err != nil || !r.Accepted {
					t.Errorf("%+v, %v", r, err)
				}
			}
		})
	}
	group.Wait()
	if all := k.take(); len(all) != 1 || all[0].ID != h.ID {
		t.Errorf("kept %d times", len(all))
	}
	r := tr.announce(tr.about(hints.Saving, "/ckpt/step-7", 1)) // was sent before, and overtaken
	if !r.Accepted || !strings.Contains(r.Detail, "late") || len(k.take()) != 0 || a.jobNow(t).Saving != "" {
		t.Errorf("a late save: %+v, the clock stands still for %q", r, a.jobNow(t).Saving)
	}
	if r := tr.announce(tr.about(hints.Saving, "/ckpt/step-8", 3)); !r.Accepted || len(k.take()) != 1 {
		t.Errorf("another checkpoint: %+v", r)
	}
}

// TestRelayRefuses: who may not speak for the job or about the path is refused, logged, and leaves nothing.
func TestRelayRefuses(t *testing.T) {
	c := newCluster(t)
	key, err := auth.NewKey("k1", []byte(strings.Repeat("s", 32)))
	must(t, err)
	ring, err := auth.NewKeyring(key)
	must(t, err)
	lines, log := observer.New(zap.WarnLevel)
	k := &kept{}
	a := c.start("dn1", func(o *Options) {
		o.Keys, o.Log, o.Relay = ring, zap.New(lines), k
		o.Access = &fakeAccess{say: func(_, name string) error {
			return map[string]error{"/ckpt/secret": fs.ErrPermission, "/ckpt/unknown": errFake}[name]
		}}
	})
	mint := func(job string, left time.Duration, rights ...string) string {
		token, err := auth.Mint(key, auth.Claims{Job: job, User: "ann", Roots: []string{"/ckpt"}, Rights: rights, Expires: time.Now().Add(left)})
		must(t, err)
		return token
	}
	good := mint("job", time.Hour, "hint")
	var folders []string
	for i := range mostFolders + 1 {
		folders = append(folders, fmt.Sprintf("/ckpt/%d/x", i))
	}
	for name, row := range map[string]struct {
		token  string
		hint   func(*trainer) hints.Hint
		reason hints.Reason // "" for a token that is refused
		words  string
	}{
		"another's job":                 {mint("other", time.Hour, "hint"), func(tr *trainer) hints.Hint { return tr.about(hints.Deleted, "/ckpt/a", 1) }, hints.ReasonDenied, "another job"},
		"expired":                       {mint("job", -time.Minute, "hint"), func(tr *trainer) hints.Hint { return tr.about(hints.Deleted, "/ckpt/a", 1) }, "", "expired"},
		"without a token":               {"", func(tr *trainer) hints.Hint { return tr.starts("/ckpt/a") }, "", "authorization"},
		"without a right":               {mint("job", time.Hour, "fetch"), func(tr *trainer) hints.Hint { return tr.starts("/ckpt/a") }, "", "right"},
		"another's path":                {good, func(tr *trainer) hints.Hint { return tr.about(hints.Deleted, "/theirs/a", 1) }, hints.ReasonDenied, "outside the token's roots"},
		"one path of many":              {good, func(tr *trainer) hints.Hint { return tr.starts("/ckpt/a", "/ckpt/../theirs") }, hints.ReasonDenied, ""},
		"another's file":                {good, func(tr *trainer) hints.Hint { return tr.starts("/ckpt/a", "/theirs/x") }, hints.ReasonDenied, "outside the token's roots"},
		"not readable":                  {good, func(tr *trainer) hints.Hint { return tr.about(hints.Committed, "/ckpt/secret", 1) }, hints.ReasonDenied, "permission"},
		"a folder that is not readable": {good, func(tr *trainer) hints.Hint { return tr.starts("/ckpt/a/x", "/ckpt/secret/x") }, hints.ReasonDenied, "permission"},
		"nobody knows":                  {good, func(tr *trainer) hints.Hint { return tr.about(hints.Committed, "/ckpt/unknown", 1) }, hints.ReasonUnavailable, "not known now"},
		"many folders":                  {good, func(tr *trainer) hints.Hint { return tr.starts(folders...) }, hints.ReasonBusy, "folders"},
		"in another store":              {good, func(tr *trainer) hints.Hint { return tr.about(hints.Committed, "s3://x/y", 1) }, hints.ReasonDenied, "not in this agent's store"},
	} {
		log.TakeAll()
		tr := c.trainer("job", "1", row.token)
		r, err := tr.hints.Announce(t.Context(), a.addr, row.hint(tr))
		if r.Accepted || r.Reason != row.reason || row.reason == "" && !errors.Is(err, hints.ErrDenied) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		audited := log.TakeAll()
		if len(audited) != 1 || audited[0].ContextMap()["audit"] != true || !strings.Contains(fmt.Sprint(audited[0].ContextMap()["detail"]), row.words) {
			t.Errorf("%s: %v, want one line with %q", name, audited, row.words)
		}
		if all := k.take(); len(all) != 0 {
			t.Errorf("%s: kept %+v", name, all)
		}
	}
	tr := c.trainer("job", "1", good)
	if r, err := tr.hints.Announce(t.Context(), a.addr, tr.about(hints.Committed, "/ckpt/a", 1)); err != nil || !r.Accepted {
		t.Errorf("%+v, %v", r, err)
	}
	if all := k.take(); len(all) != 1 || all[0].User != "ann" || all[0].Job != "job" {
		t.Errorf("%+v", all)
	}
}

// TestRelayFails: what cannot be kept is refused, and taken when it is sent again; without a ledger nothing is taken.
func TestRelayFails(t *testing.T) {
	c := newCluster(t)
	k := &kept{fail: errors.New("no space left on device")}
	a := c.start("dn1", func(o *Options) { o.Relay = k })
	tr := c.trainer("job", "1", "")
	tr.taken(0)
	h := tr.about(hints.Saving, "/ckpt/a", 1)
	if r := tr.announce(h); r.Reason != hints.ReasonUnavailable || !strings.Contains(r.Detail, "no space left") || a.jobNow(t).Saving != "" || a.metric(t, "relay_failures_total") != 1 {
		t.Errorf("%+v", r)
	}
	k.mu.Lock()
	k.fail = nil
	k.mu.Unlock()
	if r := tr.announce(h); !r.Accepted || len(k.take()) != 1 || a.jobNow(t).Saving != "/ckpt/a" {
		t.Errorf("again: %+v", r)
	}
	without := newCluster(t)
	without.start("dn1", nil)
	tr = without.trainer("job", "1", "")
	if r := tr.announce(tr.about(hints.Saving, "/ckpt/a", 1)); r.Reason != hints.ReasonUnsupported {
		t.Errorf("without a ledger: %+v", r)
	}
}
