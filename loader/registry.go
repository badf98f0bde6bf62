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
	store    store.Store
	dir      string // of the registry
	registry *hints.Registry
	auto     bool
	fixed    []peer          // given as node=address
	byAddr   map[string]bool // given as an address, whose node the registry must tell
}

func newFinder(o Options) (*finder, error) {
	f := &finder{store: o.Store, dir: o.Registry, registry: hints.NewRegistry(store.Files{Store: o.Store}, o.Registry), byAddr: map[string]bool{}}
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

// find lists the agents now. Agents that cannot be found are left out.
func (f *finder) find(ctx context.Context, now time.Duration) ([]peer, error) {
	list := append([]peer{}, f.fixed...)
	if !f.auto && len(f.byAddr) == 0 {
		return list, nil
	}
	found, err := f.registry.List(ctx, now)
	if err != nil {
		return list, err
	}
	for _, e := range found.Live {
		given := f.byAddr[e.Addr]
		if f.auto || given {
			list = append(list, newPeer(e.Node, e.Addr, given || f.ownedByStore(ctx, e.Node)))
		}
	}
	return list, nil
}

// ownedByStore tells whether an agent's registry file may be believed: a file that anyone put there must not
// be sent a token. It may if it belongs to the owner of the store's root; or to the owner of the registry's
// folder, where the folder above that one belongs to the owner of the root, who then gave it away. Where an owner
// cannot be told, it is nobody's.
func (f *finder) ownedByStore(ctx context.Context, node string) bool {
	owner := func(name string) string {
		info, err := f.store.Stat(ctx, name)
		if err != nil {
			return ""
		}
		return info.Owner
	}
	root, file := owner("/"), owner(hints.EntryName(f.dir, node))
	switch {
	case root == "" || file == "":
		return false
	case file == root:
		return true
	}
	above := path.Dir(f.dir)
	return above != "/" && owner(above) == root && owner(f.dir) == file
}
