package agent

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// TestAuditsTokens: every call that is refused for its token before it comes to a handler leaves one audit
// line and is counted; no line holds a token.
func TestAuditsTokens(t *testing.T) {
	c := newCluster(t)
	key, err := auth.NewKey("k1", []byte(strings.Repeat("s", 32)))
	must(t, err)
	ring, err := auth.NewKeyring(key)
	must(t, err)
	lines, log := observer.New(zap.WarnLevel)
	ledger, err := relay.Open(relay.Options{File: filepath.Join(t.TempDir(), "ledger")})
	must(t, err)
	t.Cleanup(func() { must(t, ledger.Close()) })
	a := c.start("dn1", func(o *Options) { o.Keys, o.Log, o.Relay = ring, zap.New(lines), ledger })
	mint := func(job string, left time.Duration, rights ...string) string {
		token, err := auth.Mint(key, auth.Claims{Job: job, User: "ann", Roots: []string{datasetDir}, Rights: rights, Expires: time.Now().Add(left)})
		must(t, err)
		return token
	}
	forged := mint("job", time.Hour, "fetch", "hint")
	forged = forged[:len(forged)-8] + "AAAAAAAA"
	for name, row := range map[string]struct{ token, hint, fetch, relay string }{
		"none":        {"", "authorization", "authorization", "authorization"},
		"nonsense":    {"secret.words", "not a token", "not a token", "not a token"},
		"forged":      {forged, "signature", "signature", "signature"},
		"expired":     {mint("job", -time.Minute, "fetch", "hint"), "expired", "expired", "expired"},
		"another job": {mint("other", time.Hour, "fetch", "hint"), "another job", "another job", ""},
		"hint only":   {mint("job", time.Hour, "hint"), "", "right", ""},
		"fetch only":  {mint("job", time.Hour, "fetch"), "right", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr := c.trainer("job", "1", row.token)
			ledgers := relay.NewClient(hints.ClientOptions{Token: row.token})
			defer ledgers.Close()
			counted := a.metric(t, "refusals_total", "reason", "denied")
			log.TakeAll()
			reply, err := tr.hints.Announce(t.Context(), a.addr, tr.schedule(0))
			if denied := errors.Is(err, hints.ErrDenied) || reply.Reason == hints.ReasonDenied; denied != (row.hint != "") {
				t.Fatalf("hint: %+v, %v", reply, err)
			}
			auditedOnce(t, log.TakeAll(), row.token, "hint", row.hint)
			req := tr.request(0, 0, tr.sampler.Step(0, nil)...)
			_, err = tr.ask(a.addr, req)
			if denied := fetch.ReasonOf(err) == fetch.ReasonDenied; denied != (row.fetch != "") {
				t.Fatalf("fetch: %v", err)
			}
			auditedOnce(t, log.TakeAll(), row.token, "fetch", row.fetch)
			err = ledgers.Records(t.Context(), a.addr, relay.Cursor{}, 0, func() {}, func(relay.Handed) error { return nil })
			if !errors.Is(err, hints.ErrDenied) {
				t.Fatalf("relay: %v", err)
			}
			auditedOnce(t, log.TakeAll(), row.token, "relay", cmp.Or(row.relay, "right"))
			want := 3.0
			if row.hint == "" || row.fetch == "" {
				want = 2
			}
			if got := a.metric(t, "refusals_total", "reason", "denied") - counted; got != want {
				t.Errorf("%v refusals counted, want %v", got, want)
			}
		})
	}
}

// auditedOnce wants one audit line whose detail has words, none if words is empty.
func auditedOnce(t *testing.T, lines []observer.LoggedEntry, token, what, words string) {
	t.Helper()
	if words == "" {
		if len(lines) != 0 {
			t.Errorf("%s: %v", what, lines)
		}
		return
	}
	if len(lines) != 1 {
		t.Fatalf("%s: %d lines: %v", what, len(lines), lines)
	}
	m := lines[0].ContextMap()
	detail, _ := m["detail"].(string)
	if m["audit"] != true || m["what"] != what || m["reason"] != "denied" || !strings.Contains(detail, words) || !strings.HasPrefix(fmt.Sprint(m["peer"]), "127.0.0.1:") {
		t.Errorf("%s: %v, want %q", what, m, words)
	}
	if token != "" && strings.Contains(fmt.Sprint(lines[0].Message, m), token) {
		t.Errorf("%s: the line holds the token: %v", what, m)
	}
}
