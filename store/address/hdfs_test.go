package address

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// environment is what a process has: HADOOP_CONF_DIR with these settings in its hdfs-site.xml, and more variables.
func environment(t *testing.T, settings map[string]string, more map[string]string) Options {
	t.Helper()
	dir := t.TempDir()
	xml := "<configuration>"
	for key, value := range settings {
		xml += "<property><name>" + key + "</name><value>" + value + "</value></property>"
	}
	must(t, os.WriteFile(filepath.Join(dir, "hdfs-site.xml"), []byte(xml+"</configuration>"), 0o600))
	o := Options{Getenv: func(name string) string {
		if name == "HADOOP_CONF_DIR" && settings != nil {
			return dir
		}
		return more[name]
	}}
	o.testing.lookup = func(_ context.Context, host string) ([]string, error) {
		if host == "known.test" {
			return []string{"192.0.2.1"}, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return o
}

var nameservice = map[string]string{
	"fs.defaultFS": "hdfs://prod", "dfs.nameservices": "prod", "dfs.ha.namenodes.prod": "a,b",
	"dfs.namenode.rpc-address.prod.a": "nn1.test:8020", "dfs.namenode.rpc-address.prod.b": "nn2.test:9000",
}

// TestHDFSAddresses: whatever a cluster is called, its addresses mean the same, and go back and forth.
func TestHDFSAddresses(t *testing.T) {
	o := environment(t, nameservice, nil)
	for url, back := range map[string]string{
		"hdfs://prod/photos/a b%20c": "hdfs://prod/photos/a b%20c", "hdfs://prod": "hdfs://prod/", "hdfs:///photos/": "hdfs://prod/photos",
		"hdfs://nn2.test:9000/x": "hdfs://nn2.test:9000/x", "hdfs://known.test/x": "hdfs://known.test:8020/x",
	} {
		p := open(t, url, o)
		if got := p.Store.Address(p.Name); got != back || !p.Remote || p.Simulated {
			t.Errorf("%s is %s again, %+v", url, got, p)
		}
	}
}

func TestHDFSResolve(t *testing.T) {
	wantResolved(t, open(t, "hdfs://prod/apps", environment(t, nameservice, nil)), map[string]string{
		"hdfs://prod/photos": "/photos", "hdfs:///photos/": "/photos", "hdfs://nn1.test/photos": "/photos", "hdfs://nn2.test:9000/": "/",
		"hdfs://nn1.test:9000/photos": "", "hdfs://other.test/photos": "", "/photos": "", "dir:///photos": "", "hdfs://prod/a/../b": "", "hdfs://prod:8020/x": "",
	})
}

// TestHDFSRefused: what keeps a cluster from being opened is named, with what to do.
func TestHDFSRefused(t *testing.T) {
	kerberos := map[string]string{"hadoop.security.authentication": "kerberos"}
	krb5 := filepath.Join(t.TempDir(), "krb5.conf")
	must(t, os.WriteFile(krb5, []byte("[libdefaults]\n default_realm = EXAMPLE.TEST\n"), 0o600))
	for name, row := range map[string]struct {
		url      string
		settings map[string]string
		more     map[string]string
		want     string
	}{
		"no configuration":      {"hdfs:///photos", nil, nil, "set HADOOP_CONF_DIR"},
		"no such folder":        {"hdfs:///photos", nil, map[string]string{"HADOOP_CONF_DIR": "/nonexistent"}, "HADOOP_CONF_DIR"},
		"name without settings": {"hdfs://prod/photos", nil, nil, "HADOOP_CONF_DIR is not set"},
		"unknown nameservice":   {"hdfs://prot/photos", nameservice, nil, `nameservices ["prod"]`},
		"nameservice with port": {"hdfs://prod:8020/photos", nameservice, nil, "hdfs://prod/"},
		"one slash":             {"hdfs:/photos", nameservice, nil, "hdfs:///photos"},
		"no ticket":             {"hdfs://nn.test:8020/", kerberos, map[string]string{"KRB5_CONFIG": krb5, "KRB5CCNAME": "/nonexistent"}, "kinit"},
		"no keytab":             {"hdfs://nn.test:8020/", kerberos, map[string]string{"KRB5_CONFIG": krb5, "KRB5_CLIENT_KTNAME": "/nonexistent"}, "/nonexistent"},
		"no token file":         {"hdfs://nn.test:8020/", kerberos, map[string]string{"HADOOP_TOKEN_FILE_LOCATION": "/nonexistent"}, "HADOOP_TOKEN_FILE_LOCATION"},
		"bad protection":        {"hdfs://nn.test:8020/", map[string]string{"hadoop.security.authentication": "kerberos", "hadoop.rpc.protection": "loud"}, map[string]string{"HADOOP_TOKEN_FILE_LOCATION": krb5}, "loud"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Open(t.Context(), row.url, environment(t, row.settings, row.more))
			if err == nil {
				p.Close()
			}
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
	if _, err := Open(t.Context(), "hdfs://prot/x", environment(t, nameservice, nil)); !errors.Is(err, ErrCluster) {
		t.Errorf("an unknown nameservice is %v", err)
	}
}

func TestUser(t *testing.T) {
	if got := userOf(environment(t, nil, map[string]string{"HADOOP_USER_NAME": "ann"})); got != "ann" {
		t.Errorf("user %q", got)
	}
	if got := userOf(Options{}); got == "" {
		t.Error("no user")
	}
}
