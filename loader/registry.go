package loader

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

// finder finds the agents that Options.Agents ask for.
type finder struct {
	tokens   bool // there is a token to be sent
	store    store.Store
	dir      string // of the registry
	registry *hints.Registry
	auto     bool
	fixed    []peer          // given as node=address
	byAddr   map[string]bool // given as an address, whose node the registry must tell
}

func newFinder(o Options) (*finder, error) {
	f := &finder{tokens: o.Token != "", store: o.Store, dir: o.Registry, registry: hints.NewRegistry(store.Files{Store: o.Store}, o.Registry), byAddr: map[string]bool{}}
	if _, local := o.Store.(store.Localizer); !local {
		f.registry.BelieveRenewals()
	}
	for _, a := range o.Agents {
		if a == AgentsAuto {
			f.auto = true
			continue
		}
		node, addr, err := splitAgent(a)
		if err != nil {
			return nil, err
		}
		if node != "" {
			f.fixed = append(f.fixed, newPeer(node, addr, true))
		} else {
			f.byAddr[addr] = true
		}
	}
	return f, nil
}

// splitAgent takes host:port or node=host:port apart.
func splitAgent(a string) (node, addr string, err error) {
	node, addr, named := strings.Cut(a, "=")
	if !named {
		node, addr = "", a
	}
	if _, _, err := net.SplitHostPort(addr); err != nil || named && node == "" {
		return "", "", fmt.Errorf("agents: %q: must be %q, host:port or node=host:port", a, AgentsAuto)
	}
	return node, addr, nil
}

// find lists the agents now. Agents that cannot be found are left out. Of the doubted ones the entries are read
// again.
func (f *finder) find(ctx context.Context, now time.Duration, doubted []string) ([]peer, error) {
	f.registry.Doubt(doubted...)
	list := append([]peer{}, f.fixed...)
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
			list = append(list, newPeer(e.Node, e.Addr, given || trusted(e.Node)))
		}
	}
	return list, nil
}

// trust returns which agents' registry files may be believed: one that anyone put there must not be sent a token.
// It may if it belongs to the owner of the store's root; or to the owner of the registry's folder, where the folder
// above that one belongs to the owner of the root, who then gave it away. Where an owner cannot be told, it is nobody's.
func (f *finder) trust(ctx context.Context) func(node string) bool {
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
