package loader

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/store/dir"
)

// A token goes to agents given by address, and to those whose registry file is the store owner's.
func TestTokenGoesOnlyWhereItMay(t *testing.T) {
	const stranger = 12345
	for _, c := range []struct {
		name      string
		simulated bool   // the store cannot tell owners
		agents    string // "" by node and address
		owner     int    // of the registry file, 0: ours
		sent      bool
	}{
		{"given with its node", true, "", 0, true},
		{"given by address", true, "127.0.0.1:7000", 0, true},
		{"found, owner unknown", true, AgentsAuto, 0, false},
		{"found, the store owner's", false, AgentsAuto, 0, true},
		{"found, a stranger's", false, AgentsAuto, stranger, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t, 16, 16, nil)
			node := "dn1"
			if !c.simulated {
				must(t, os.Remove(filepath.Join(k.root, ".stepahead", "store.json")))
				st, _, err := dir.Open(k.root, dir.Options{})
				must(t, err)
				k.store, node = st, "local"
			}
			cl := newCluster(t, k, node)
			cl.register(t, cl.agents[0])
			if c.owner != 0 {
				if os.Getuid() != 0 {
					t.Skip("only root can give a file away")
				}
				must(t, os.Chown(filepath.Join(k.root, ".stepahead", "agents", node+".json"), c.owner, c.owner))
			}
			o := cl.options(t)
			o.Token = "secret"
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
				if (got == "Bearer secret") != c.sent || got != "" && !c.sent {
					t.Fatalf("the agent got %q", got)
				}
			}
		})
	}
}
