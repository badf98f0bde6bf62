package hdfs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// Open returns the store that an address leads to, and the address's name in it: hdfs://nameservice/path,
// hdfs://host:port/path, or hdfs:///path and a path alone in the cluster that the configuration names. Every byte of the path
// stands for itself. It connects to nothing: that is left to the first call.
func Open(url string, o Options) (*Store, string, error) {
	s, name, err := open(url, o)
	if err != nil {
		return nil, "", fmt.Errorf("hdfs.Open %s: %w", url, err)
	}
	return s, name, nil
}

func open(url string, o Options) (*Store, string, error) {
	if err := o.Validate(); err != nil {
		return nil, "", err
	}
	o = o.withDefaults()
	authority, name, err := ParseURL(url)
	if err != nil {
		return nil, "", err
	}
	if name, err = below(o.Root, name); err != nil {
		return nil, "", err
	}
	cluster, err := o.Conf.Cluster(authority)
	if err != nil {
		return nil, "", err
	}
	calls, err := namenode.Options{Cluster: cluster, User: o.User, RealUser: o.RealUser, Auth: o.Auth, Dial: o.Dial}.WithConfig(o.Conf)
	if err == nil {
		err = calls.Validate()
	}
	if err != nil {
		return nil, "", err
	}
	nn := namenode.New(calls)
	security, err := newProtection(o.Conf, nn, o.Auth != nil)
	if err != nil {
		return nil, "", err
	}
	pool := datanode.NewPool(datanode.Options{
		Dial: o.Dial, Security: security, MaxConns: o.MaxNodeReads + o.MaxNodeBulkReads, MaxTotal: 4 * (o.MaxReads + o.MaxBulkReads),
		Stall: max(o.Conf.Duration("dfs.client.socket-timeout", 0, time.Millisecond), 0),
	})
	s := newStore(o, cluster, nn, pool)
	s.nn, s.pool, s.writes, s.others = nn, pool, newWriting(nn, o.Conf, pool, &s.nodes), newOthers(calls)
	s.places = nn
	s.visible = func(ctx context.Context, n *node, b *block) (int64, error) {
		return namenode.VisibleLength(ctx, dataNodeCalls(calls, o.Conf, n), b.ext)
	}
	return s, name, nil
}

// dataNodeCalls are a NameNode's options as they are for a DataNode, which is asked once.
func dataNodeCalls(o namenode.Options, c *conf.Config, n *node) namenode.Options {
	host, _, _ := net.SplitHostPort(n.addr)
	at := conf.NameNode{
		Addr:      net.JoinHostPort(host, strconv.FormatUint(uint64(n.ipcPort), 10)),
		Principal: strings.Replace(c.String("dfs.datanode.kerberos.principal", ""), "/_HOST@", "/"+strings.ToLower(n.host)+"@", 1),
	}
	o.Cluster = conf.Cluster{Name: at.Addr, NameNodes: []conf.NameNode{at}}
	o.Rounds, o.FirstRounds, o.BusyRetries = 1, 1, 0
	return o
}

// below returns a path as a name below root.
func below(root, name string) (string, error) {
	if root == "/" {
		return name, nil
	}
	rest, ok := strings.CutPrefix(name, root)
	if !ok || rest != "" && rest[0] != '/' {
		return "", fmt.Errorf("%w: %q is not below the store's root %s", store.ErrName, name, root)
	}
	return path.Join("/", rest), nil
}

// Close ends all calls that are in flight and closes all connections.
func (s *Store) Close() error {
	if s.nn == nil {
		return nil
	}
	return errors.Join(s.others.close(), s.nn.Close(), s.pool.Close())
}

// rpcStats adds what calls and connections cost.
func (s *Store) rpcStats(r *store.ReadStats) {
	if s.nn == nil {
		return
	}
	p := s.pool.Stats()
	r.Wire, r.Connections, r.Reused = p.Wire, p.Opened, p.Reused
	r.Retries["stale"] = p.Stale
	calls := s.nn.Stats()
	r.Calls, r.CallRetries = calls.Calls, calls.Retries
}
