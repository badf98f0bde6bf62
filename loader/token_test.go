package loader

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
)

// ownerless is a store that cannot tell whose a file is.
type ownerless struct{ store.Store }

func (s ownerless) Stat(ctx context.Context, name string) (store.Info, error) {
	info, err := s.Store.Stat(ctx, name)
	info.Owner = ""
	return info, err
}

// A token goes to agents given by address, and to those whose registry file is the store owner's.
func TestTokenGoesOnlyWhereItMay(t *testing.T) {
	const stranger = 12345
	for _, c := range []struct {
		name    string
		unknown bool   // the store cannot tell owners
		agents  string // "" by node and address
		theirs  string // which of the registry's file, folder and the folder above a stranger owns
		sent    bool
	}{
		{"given with its node", true, "", "", true},
		{"given by address", true, "127.0.0.1:7000", "", true},
		{"found, owner unknown", true, AgentsAuto, "", false},
		{"found, the store owner's", false, AgentsAuto, "", true},
		{"found, a stranger's", false, AgentsAuto, "file", false},
		{"found, of whom the folder was given to", false, AgentsAuto, "file folder", true},
		{"found, in a stranger's folder of folders", false, AgentsAuto, "file folder above", false},
		{"found, the store owner's in a folder given away", false, AgentsAuto, "folder", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t, 16, 16, nil)
			node := "dn1"
			cl := newCluster(t, k, node)
			cl.register(t, cl.agents[0])
			for what, name := range map[string]string{"file": "agents/" + node + ".json", "folder": "agents", "above": "."} {
				if !strings.Contains(c.theirs, what) {
					continue
				}
				if os.Getuid() != 0 {
					testdata.Missing(t, "root, to give a file away")
				}
				must(t, os.Chown(filepath.Join(k.root, ".stepahead", name), stranger, stranger))
			}
			o := cl.options(t)
			o.Token = mintToken(t, tokenKey(t), "job", "/data", time.Hour)
			if c.unknown {
				o.Store = ownerless{o.Store}
			}
			if c.agents != "" {
				o.Agents = []string{c.agents}
			}
			l := mustOpen(t, o)
			cl.warm(t, l)
			contents(t, l, 4)
			a := cl.agents[0]
			a.mu.Lock()
			defer a.mu.Unlock()
			if len(a.tokens) == 0 {
				t.Fatal("the agent was not asked")
			}
			for _, got := range a.tokens {
				if (got == "Bearer "+o.Token) != c.sent || got != "" && !c.sent {
					t.Fatalf("the agent got %q", got)
				}
			}
		})
	}
}

func tokenKey(t *testing.T) auth.Key {
	t.Helper()
	key, err := auth.NewKey("k1", bytes.Repeat([]byte{7}, 32))
	must(t, err)
	return key
}

func mintToken(t *testing.T, key auth.Key, job, root string, until time.Duration) string {
	t.Helper()
	token, err := auth.Mint(key, auth.Claims{Job: job, User: "u", Roots: []string{root}, Rights: []string{auth.RightFetch, auth.RightHint}, Expires: time.Now().Add(until)})
	must(t, err)
	return token
}

// With a token the job is the token's; another one, and what is no token, is an error of the options.
func TestTokenNamesTheJob(t *testing.T) {
	k := newKit(t, 16, 16, nil)
	token := mintToken(t, tokenKey(t), "of-token", "/data", time.Hour)
	for _, c := range []struct{ job, token, says string }{
		{"", token, ""},
		{"of-token", token, ""},
		{"other", token, `"other": the token is of job "of-token"`},
		{"", "sesame", "stepahead token mint"},
	} {
		cl := newCluster(t, k, "dn1")
		o := cl.options(t)
		o.Job, o.Token = c.job, c.token
		if err := o.Validate(); c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), c.token) {
				t.Errorf("job %q: %v, want %q", c.job, err, c.says)
			}
			continue
		}
		l := mustOpen(t, o)
		cl.warm(t, l)
		must(t, l.Close())
		a := cl.agents[0]
		a.mu.Lock()
		if last := a.hints[len(a.hints)-1]; last.Job != "of-token" {
			t.Errorf("job %q: the agent was told of job %q", c.job, last.Job)
		}
		a.mu.Unlock()
	}
}

// A token that is missing, expired or for another root costs the agents' help and nothing else; one that
// fits brings it.
func TestTokensThatDoNotFit(t *testing.T) {
	key := tokenKey(t)
	keys, err := auth.NewKeyring(key)
	must(t, err)
	k := newKit(t, 48, 20, nil)
	want := contents(t, mustOpen(t, k.options(t)), 6)
	for _, c := range []struct{ name, token, reason string }{
		{"fits", mintToken(t, key, "job", "/data", time.Hour), ""},
		{"missing", "", "denied"},
		{"expired", mintToken(t, key, "job", "/data", -time.Minute), "denied"},
		{"another root", mintToken(t, key, "job", "/elsewhere", time.Hour), "denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := newClusterWithKeys(t, k, keys, kitNodes...)
			o := cl.options(t)
			o.Token = c.token
			l := mustOpen(t, o)
			if c.reason == "" {
				cl.warm(t, l)
			} else {
				waitUntil(t, func() bool { return l.Stats().HintsFailed >= 3 })
			}
			if got := contents(t, l, 6); got != want {
				t.Fatal("other bytes than without agents")
			}
			s := l.Stats()
			if c.reason == "" && s.Prepared != 48 || c.reason != "" && (s.Prepared != 0 || s.ByReason[c.reason] == 0) {
				t.Fatalf("prepared %d, reasons %v", s.Prepared, s.ByReason)
			}
		})
	}
}
