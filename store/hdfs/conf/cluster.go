package conf

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// Cluster is one namespace: what the authority of an hdfs:// address means.
type Cluster struct {
	// Name is the nameservice, or host:port where there is none.
	Name string
	// HA is true for a nameservice with several NameNodes, of which one is active.
	HA        bool
	NameNodes []NameNode // at least one, in the order of the configuration
}

// NameNode is one NameNode of a cluster.
type NameNode struct {
	// ID is its name in the nameservice, or "".
	ID string
	// Addr is host:port of its RPC service.
	Addr string
	// Principal is its Kerberos principal, _HOST replaced; "" where none is configured.
	Principal string
	// PrincipalPattern is a glob that its principal must match instead; "" where none is configured.
	PrincipalPattern string
	// Web is the root of its web service, http://host:port or https://host:port.
	Web string
}

const (
	defaultRPCPort   = "8020"
	defaultHTTPPort  = "9870"
	defaultHTTPSPort = "9871"
)

// Nameservices are the logical names that the configuration knows.
func (c *Config) Nameservices() []string { return c.Strings("dfs.nameservices") }

// Cluster resolves the authority of an hdfs:// address: a nameservice, or host or host:port of one NameNode
// (port 8020 without one). "" means the one of fs.defaultFS.
func (c *Config) Cluster(authority string) (Cluster, error) {
	cluster, err := c.cluster(authority)
	if err != nil {
		return Cluster{}, fmt.Errorf("conf.Cluster %s: %w", authority, err)
	}
	return cluster, nil
}

func (c *Config) cluster(authority string) (Cluster, error) {
	if authority == "" {
		var err error
		if authority, err = c.defaultAuthority(); err != nil {
			return Cluster{}, err
		}
	}
	if strings.ContainsAny(authority, "@/ \t\n") {
		return Cluster{}, fmt.Errorf("%.100q: want a nameservice, host or host:port", authority)
	}
	if c.isNameservice(authority) {
		return c.nameservice(authority)
	}
	host, port, err := splitAddr(authority)
	if err != nil {
		return Cluster{}, err
	}
	if c.isNameservice(host) {
		return Cluster{}, fmt.Errorf("%s is a nameservice and has no port: write hdfs://%s/", host, host)
	}
	addr := net.JoinHostPort(host, port)
	return Cluster{Name: addr, NameNodes: []NameNode{c.nameNode(addr, "", "")}}, nil
}

func (c *Config) defaultAuthority() (string, error) {
	fs, ok := c.lookup("fs.defaultFS")
	if !ok {
		return "", fmt.Errorf("no cluster is named and fs.defaultFS is not set: write hdfs://host:port/..., or set HADOOP_CONF_DIR")
	}
	scheme, rest, found := strings.Cut(fs, "://")
	authority, _, _ := strings.Cut(rest, "/")
	if !found || scheme != "hdfs" || authority == "" {
		return "", fmt.Errorf("fs.defaultFS (%s) is %.100q: want hdfs://nameservice or hdfs://host:port", c.Source("fs.defaultFS"), fs)
	}
	return authority, nil
}

func (c *Config) isNameservice(name string) bool {
	return slices.Contains(c.Nameservices(), name) || len(c.Strings("dfs.ha.namenodes."+name)) > 0
}

func (c *Config) nameservice(name string) (Cluster, error) {
	ids := c.Strings("dfs.ha.namenodes." + name)
	cluster := Cluster{Name: name, HA: len(ids) > 1}
	if len(ids) == 0 {
		ids = []string{""}
	}
	for _, id := range ids {
		key := suffixed("dfs.namenode.rpc-address", name, id)
		value, ok := c.lookup(key)
		if !ok {
			return Cluster{}, fmt.Errorf("%s is not set: it is the address of a NameNode of this nameservice", key)
		}
		host, port, err := splitAddr(value)
		if err != nil {
			return Cluster{}, fmt.Errorf("%s (%s): %w", key, c.Source(key), err)
		}
		cluster.NameNodes = append(cluster.NameNodes, c.nameNode(net.JoinHostPort(host, port), name, id))
	}
	return cluster, nil
}

// splitAddr takes host or host:port apart.
func splitAddr(addr string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(addr)
	if err != nil {
		host, port, err = net.SplitHostPort(addr + ":" + defaultRPCPort)
	}
	if n, ok := parseInt(port); err != nil || host == "" || !ok || n < 1 || n > 65535 {
		return "", "", fmt.Errorf("%.100q: want host or host:port", addr)
	}
	return host, port, nil
}

func (c *Config) nameNode(addr, service, id string) NameNode {
	host, _, _ := net.SplitHostPort(addr)
	principal := c.specific("dfs.namenode.kerberos.principal", service, id)
	return NameNode{
		ID: id, Addr: addr,
		Principal:        strings.Replace(principal, "/_HOST@", "/"+strings.ToLower(host)+"@", 1),
		PrincipalPattern: c.String("dfs.namenode.kerberos.principal.pattern", ""),
		Web:              c.web(host, service, id),
	}
}

// web returns the root of a NameNode's web service; an address that listens everywhere is on the RPC's host.
func (c *Config) web(host, service, id string) string {
	scheme, key, port := "http", "dfs.namenode.http-address", defaultHTTPPort
	if strings.EqualFold(c.String("dfs.http.policy", ""), "HTTPS_ONLY") {
		scheme, key, port = "https", "dfs.namenode.https-address", defaultHTTPSPort
	}
	if h, p, err := net.SplitHostPort(c.specific(key, service, id)); err == nil && p != "" {
		port = p
		if ip := net.ParseIP(h); h != "" && (ip == nil || !ip.IsUnspecified()) {
			host = h
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// specific returns the value for one NameNode, else for its nameservice, else for all.
func (c *Config) specific(key, service, id string) string {
	for _, k := range []string{suffixed(key, service, id), suffixed(key, service, ""), key} {
		if v, ok := c.lookup(k); ok {
			return v
		}
	}
	return ""
}

func suffixed(key, service, id string) string {
	for _, s := range []string{service, id} {
		if s != "" {
			key += "." + s
		}
	}
	return key
}
