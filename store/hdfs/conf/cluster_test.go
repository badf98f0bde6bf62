package conf_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

var lake = site(
	"fs.defaultFS", "hdfs://lake",
	"dfs.nameservices", "lake, sea",
	"dfs.ha.namenodes.lake", "nn1,nn2",
	"dfs.namenode.rpc-address.lake.nn1", "one.example:9000",
	"dfs.namenode.rpc-address.lake.nn2", "Two.example",
	"dfs.namenode.http-address.lake.nn1", "0.0.0.0:50070",
	"dfs.namenode.http-address.lake.nn2", "web.example:80",
	"dfs.namenode.rpc-address.sea", "[::1]:8021",
	"dfs.namenode.kerberos.principal", "nn/_HOST@EXAMPLE.COM",
	"dfs.namenode.kerberos.principal.sea", "sea/host@EXAMPLE.COM",
	"dfs.namenode.kerberos.principal.pattern", "nn/*@EXAMPLE.COM")

func TestCluster(t *testing.T) {
	c := parse(t, lake)
	pattern := "nn/*@EXAMPLE.COM"
	ha := conf.Cluster{Name: "lake", HA: true, NameNodes: []conf.NameNode{
		{ID: "nn1", Addr: "one.example:9000", Principal: "nn/one.example@EXAMPLE.COM", PrincipalPattern: pattern, Web: "http://one.example:50070"},
		{ID: "nn2", Addr: "Two.example:8020", Principal: "nn/two.example@EXAMPLE.COM", PrincipalPattern: pattern, Web: "http://web.example:80"},
	}}
	for authority, want := range map[string]conf.Cluster{
		"":     ha,
		"lake": ha,
		"sea":  {Name: "sea", NameNodes: []conf.NameNode{{Addr: "[::1]:8021", Principal: "sea/host@EXAMPLE.COM", PrincipalPattern: pattern, Web: "http://[::1]:9870"}}},
		"h": {Name: "h:8020", NameNodes: []conf.NameNode{
			{Addr: "h:8020", Principal: "nn/h@EXAMPLE.COM", PrincipalPattern: pattern, Web: "http://h:9870"}}},
		"10.0.0.7:9000": {Name: "10.0.0.7:9000", NameNodes: []conf.NameNode{
			{Addr: "10.0.0.7:9000", Principal: "nn/10.0.0.7@EXAMPLE.COM", PrincipalPattern: pattern, Web: "http://10.0.0.7:9870"}}},
	} {
		got, err := c.Cluster(authority)
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\n got %+v\nwant %+v", authority, got, want)
		}
	}
	one, err := parse(t, site("dfs.http.policy", "HTTPS_ONLY")).Cluster("h:1")
	must(t, err)
	if one.NameNodes[0].Web != "https://h:9871" || one.NameNodes[0].Principal != "" || one.HA {
		t.Errorf("without configuration: %+v", one)
	}
}

func TestClusterRefusals(t *testing.T) {
	for name, c := range map[string]struct{ site, authority, want string }{
		"nothing named":      {site(), "", "fs.defaultFS is not set"},
		"another scheme":     {site("fs.defaultFS", "viewfs://x"), "", `fs.defaultFS (0.xml:3) is "viewfs://x": want hdfs://`},
		"local":              {site("fs.defaultFS", "file:///"), "", "want hdfs://"},
		"port of a service":  {lake, "lake:8020", "write hdfs://lake/"},
		"address missing":    {site("dfs.ha.namenodes.x", "a,b", "dfs.namenode.rpc-address.x.a", "h"), "x", "dfs.namenode.rpc-address.x.b is not set"},
		"address of no form": {site("dfs.nameservices", "x", "dfs.namenode.rpc-address.x", "h:port"), "x", `dfs.namenode.rpc-address.x (0.xml:4): "h:port": want host`},
		"port 0":             {site(), "h:0", "want host or host:port"},
		"port too large":     {site(), "h:65536", "want host or host:port"},
		"no host":            {site(), ":9", "want host or host:port"},
		"user":               {site(), "me@h:9", "want a nameservice, host or host:port"},
	} {
		_, err := parse(t, c.site).Cluster(c.authority)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
