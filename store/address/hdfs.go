package address

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// openHDFS opens a store of HDFS as Hadoop's own programs would: by the configuration, the user and the credentials that
// the environment names.
func openHDFS(ctx context.Context, url string, o Options) (*Place, error) {
	cfg, err := conf.Load(o.getenv)
	if err != nil {
		return nil, err
	}
	cluster, err := clusterOf(ctx, url, cfg, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	ho := hdfs.Options{Conf: cfg, User: userOf(o), Rank: o.Rank}
	ho.Host, _ = os.Hostname() // without it no replica counts as near
	if ho.Auth, err = authenticator(ctx, cluster, cfg, o); err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	st, name, err := hdfs.Open(url, ho)
	if err != nil {
		return nil, err
	}
	p := &Place{Store: st, Name: name, Remote: true, kind: lake{st, cfg}}
	if o.Node == "" {
		return p, nil
	}
	node, err := findNode(ctx, st, o.Node)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, errors.Join(err, st.Close()))
	}
	st.RunsBeside(node)
	p.Node = node.Node
	return p, nil
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// findNode finds a DataNode by what its administrator calls it. Where the NameNode does not tell who its DataNodes are, a
// UUID is believed: then only the node's rack is not known.
func findNode(ctx context.Context, st *hdfs.Store, text string) (store.Replica, error) {
	node, err := st.FindNode(ctx, text)
	switch {
	case errors.Is(err, fs.ErrPermission) && uuid.MatchString(text):
		return store.Replica{Node: text}, nil
	case errors.Is(err, fs.ErrNotExist):
		return node, fmt.Errorf("%w: %w", ErrNode, err)
	}
	return node, err
}

// clusterOf is the cluster that an address names. A name that is neither a nameservice of the configuration nor a host is
// refused here; else it would show only when nobody answers.
func clusterOf(ctx context.Context, url string, cfg *conf.Config, o Options) (conf.Cluster, error) {
	authority, _, err := hdfs.ParseURL(url)
	if err != nil {
		return conf.Cluster{}, err
	}
	cluster, err := cfg.Cluster(authority)
	if err != nil || authority == "" || cluster.Name == authority || strings.Contains(authority, ":") {
		return cluster, err
	}
	lookup := o.testing.lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	_, err = lookup(ctx, authority)
	var unknown *net.DNSError
	if !errors.As(err, &unknown) || !unknown.IsNotFound {
		return cluster, ctx.Err() // found, or not known today
	}
	where := "HADOOP_CONF_DIR is not set"
	if dir := o.getenv("HADOOP_CONF_DIR"); dir != "" {
		where = fmt.Sprintf("the configuration in %s knows the nameservices %q", dir, cfg.Nameservices())
	}
	return cluster, fmt.Errorf("%w: %q is neither a nameservice nor a host that can be found: %s", ErrCluster, authority, where)
}

// userOf is who reads and writes where the cluster believes what clients say, as Hadoop's programs find it.
func userOf(o Options) string {
	if name := o.getenv("HADOOP_USER_NAME"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "" // the store's own default
}

func (o Options) getenv(name string) string {
	if o.Getenv == nil {
		return ""
	}
	return o.Getenv(name)
}

// lake is an HDFS store's kind.
type lake struct {
	*hdfs.Store
	cfg *conf.Config
}

func (l lake) root() string {
	var nodes []string
	for _, n := range l.Cluster().NameNodes {
		nodes = append(nodes, n.Addr)
	}
	slices.Sort(nodes)
	return "hdfs://" + strings.Join(nodes, ",") + "/"
}

// resolve takes an address of the same cluster, whatever it calls the cluster.
func (l lake) resolve(url string) (string, error) {
	if !strings.HasPrefix(url, "hdfs://") {
		return "", fmt.Errorf("%q: not an hdfs:// address: this store is %s", url, l.Address("/"))
	}
	authority, name, err := hdfs.ParseURL(url)
	if err != nil {
		return "", err
	}
	cluster, err := l.cfg.Cluster(authority)
	if err != nil {
		return "", err
	}
	if !sameCluster(cluster, l.Cluster()) {
		return "", fmt.Errorf("%q is in another cluster than this store, %s", url, l.Address("/"))
	}
	return name, nil
}

// sameCluster tells whether two clusters have a NameNode in common.
func sameCluster(a, b conf.Cluster) bool {
	return slices.ContainsFunc(a.NameNodes, func(x conf.NameNode) bool {
		return slices.ContainsFunc(b.NameNodes, func(y conf.NameNode) bool { return x.Addr == y.Addr })
	})
}
