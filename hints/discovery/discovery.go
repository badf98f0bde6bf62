// Package discovery knows how a job finds the agents of a store, and which of them may see its token.
package discovery

import (
	"context"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/store"
)

// Auto, alone in Options.Agents, takes the agents that the registry lists.
const Auto = "auto"

// Agent is one that was found.
type Agent struct {
	hints.Agent
	// Trusted: it may be sent the job's token, since it was given by its address or its registry file belongs to the store's owner.
	Trusted bool
}

// Options say where agents are looked for.
type Options struct {
	// Store holds the registry, in the folder Registry.
	Store    store.Store
	Registry string
	// Agents is [Auto] alone, or addresses, each host:port or node=host:port.
	Agents []string
	// Token: there is one to be sent, so that it matters whom to believe.
	Token bool
}

// Finder finds agents again and again. It is used by one goroutine at a time.
type Finder struct {
	tokens   bool
	store    store.Store
	dir      string // of the registry
	registry *hints.Registry
	auto     bool
	fixed    []Agent         // given as node=address
	byAddr   map[string]bool // given as an address, whose node the registry must tell
}

// New returns a finder. It does no I/O. An agent that is given in another form is an error.
func New(o Options) (*Finder, error) {
	f := &Finder{tokens: o.Token, store: o.Store, dir: o.Registry, registry: hints.NewRegistry(store.Files{Store: o.Store}, o.Registry), byAddr: map[string]bool{}}
	if _, local := o.Store.(store.Localizer); !local {
		f.registry.BelieveRenewals()
	}
	for _, a := range o.Agents {
		if a == Auto {
			f.auto = true
			continue
		}
		node, addr, err := Split(a)
		if err != nil {
			return nil, err
		}
		if node != "" {
			f.fixed = append(f.fixed, Agent{hints.Agent{Node: node, Addr: addr}, true})
		} else {
			f.byAddr[addr] = true
		}
	}
	return f, nil
}

// Address is what the registry is called in messages.
func (f *Finder) Address() string { return f.store.Address(f.dir) }

// Split takes host:port or node=host:port apart.
func Split(a string) (node, addr string, err error) {
	node, addr, named := strings.Cut(a, "=")
	if !named {
		node, addr = "", a
	}
	if _, _, err := net.SplitHostPort(addr); err != nil || named && node == "" {
		return "", "", fmt.Errorf("agents: %q: must be %q, host:port or node=host:port", a, Auto)
	}
	return node, addr, nil
}

// Find lists the agents now, by a time of this process that grows. Agents that cannot be found are left out. Of the nodes that are doubted the
// entries are read again.
func (f *Finder) Find(ctx context.Context, now time.Duration, doubted []string) ([]Agent, error) {
	f.registry.Doubt(doubted...)
	list := append([]Agent{}, f.fixed...)
	if !f.auto && len(f.byAddr) == 0 {
		return list, nil
	}
	found, err := f.registry.List(ctx, now)
	if err != nil {
		return list, err
	}
	trusted := f.trust(ctx)
	for _, e := range found.Live {
		given := f.byAddr[e.Addr]
		if f.auto || given {
			list = append(list, Agent{hints.Agent{Node: e.Node, Addr: e.Addr}, given || trusted(e.Node)})
		}
	}
	return list, nil
}

// trust returns which agents' registry files may be believed: one that anyone put there must not be sent a token.
// It may if it belongs to the owner of the store's root; or to the owner of the registry's folder, where the folder
// above that one belongs to the owner of the root, who then gave it away. Where an owner cannot be told, it is nobody's.
func (f *Finder) trust(ctx context.Context) func(node string) bool {
	if !f.tokens {
		return func(string) bool { return false } // nothing to believe anybody with
	}
	owner := func(name string) string {
		info, err := f.store.Stat(ctx, name)
		if err != nil {
			return ""
		}
		return info.Owner
	}
	owners := map[string]string{}
	infos, err := f.store.List(ctx, f.dir)
	if err != nil {
		return func(string) bool { return false }
	}
	for _, i := range infos {
		owners[i.Name] = i.Owner
	}
	root, folder := owner("/"), ""
	if above := path.Dir(f.dir); root != "" && above != "/" && owner(above) == root {
		folder = owner(f.dir)
	}
	return func(node string) bool {
		file := owners[hints.EntryName(f.dir, node)]
		return file != "" && root != "" && (file == root || file == folder)
	}
}
