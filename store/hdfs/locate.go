package hdfs

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Locate implements store.Store. It asks the NameNode, except soon after Prefetch. The nodes of a striped block group are
// those of all its units: each holds a part of its bytes.
func (s *Store) Locate(ctx context.Context, name string, off, n int64) ([]store.Replica, error) {
	if err := s.begin(ctx, name); err != nil {
		return nil, s.failed("Locate", name, err)
	}
	blocks, err := s.locate(ctx, name, off, n)
	if err != nil {
		return nil, s.failed("Locate", name, err)
	}
	var rows []store.Replica
	for _, b := range blocks {
		for _, p := range s.reader.order(b, func(place) int { return fine }, nil) {
			rows = append(rows, store.Replica{Node: p.node.id, Rack: p.node.rack, Addr: p.node.addr, Storage: p.storage, Off: b.off, Len: b.len})
		}
	}
	return rows, nil
}

func (s *Store) locate(ctx context.Context, name string, off, n int64) ([]*block, error) {
	l, fresh, err := s.open(ctx, s.path(name))
	if err != nil {
		return nil, err
	}
	if err := store.CheckRange(off, n, l.size); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, nil
	}
	if !fresh {
		if err := s.relearn(ctx, l, off, n); err != nil {
			return nil, err
		}
	}
	return s.blocksOf(ctx, l, off, n)
}

// relearn asks the NameNode for all blocks of [off, off+n), known or not.
func (s *Store) relearn(ctx context.Context, l *layout, off, n int64) error {
	if err := l.ask(ctx); err != nil {
		return err
	}
	defer l.asked()
	batch := l.batch()
	for at := off; at < off+n; at += batch {
		if err := s.fetch(ctx, l, at, min(batch, off+n-at)); err != nil {
			return err
		}
	}
	return nil
}

// FindNode returns the live DataNode that text names: its UUID, host name, IP address, or either with the port for data
// transfer. Only Node, Rack and Addr are set.
func (s *Store) FindNode(ctx context.Context, text string) (store.Replica, error) {
	live, err := s.nn.LiveNodes(ctx)
	if err != nil {
		return store.Replica{}, s.failed("FindNode", text, err)
	}
	var found []*node
	for _, d := range live {
		if n := s.nodes.of(d, false); n.is(text) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return store.Replica{}, s.failed("FindNode", text, notOne(found, live))
	}
	if found[0].id == "" { // what the NameNode shows to everybody has none
		return store.Replica{}, s.failed("FindNode", text, fmt.Errorf("%w: only a superuser is told the UUIDs of DataNodes: give it, it is in the DataNode's VERSION file (datanodeUuid)", fs.ErrPermission))
	}
	return store.Replica{Node: found[0].id, Rack: found[0].rack, Addr: found[0].addr}, nil
}

// is tells whether a text names the node.
func (n *node) is(text string) bool {
	port := strconv.FormatUint(uint64(n.port), 10)
	return slices.Contains([]string{n.id, n.host, n.ip, net.JoinHostPort(n.host, port), net.JoinHostPort(n.ip, port)}, text)
}

// notOne is the error of a text that names several DataNodes, or none; it shows which there are.
func notOne(found []*node, live []*hproto.DatanodeInfo) error {
	const most = 16
	what, choice := "several DataNodes have this name", make([]string, 0, most)
	for _, n := range found {
		choice = append(choice, n.String())
	}
	if len(found) == 0 {
		what = fmt.Sprintf("none of the %d live DataNodes has this name", len(live))
		for _, d := range live {
			choice = append(choice, fmt.Sprintf("%s (%s)", d.GetId().GetDatanodeUuid(), d.GetId().GetHostName()))
		}
	}
	if len(choice) > most {
		choice = append(choice[:most], "...")
	}
	return fmt.Errorf("%w: %s: give the UUID or host:port of one of: %s", fs.ErrNotExist, what, strings.Join(choice, ", "))
}
