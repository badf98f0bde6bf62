package hdfs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
	"github.com/stepahead-io/stepahead/store/hdfs/token"
)

// secureOn returns a store that proves who it is by what auth gets filled in.
func secureOn(t *testing.T, c *hdfstest.Cluster, auth namenode.AuthOptions) *Store {
	t.Helper()
	cfg, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if auth.Cluster, err = cfg.Cluster(""); err != nil {
		t.Fatal(err)
	}
	s, _, err := Open(c.URL(), Options{Conf: cfg, User: hdfstest.User, Auth: namenode.NewAuth(auth)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func kerberosOn(t *testing.T, c *hdfstest.Cluster) namenode.AuthOptions {
	t.Helper()
	login := sasl.LoginFromEnv(c.Getenv)
	login.Keytab = c.Keytab(hdfstest.User)
	creds, err := sasl.Login(t.Context(), login)
	if err != nil {
		t.Fatal(err)
	}
	return namenode.AuthOptions{Kerberos: creds}
}

// TestSecureWrites: under every protection of RPC and data, and with encrypted data transfer, Hadoop reads what was written.
func TestSecureWrites(t *testing.T) {
	for name, o := range map[string]hdfstest.Options{
		"authentication": {Kerberos: "authentication"}, "integrity": {Kerberos: "integrity"},
		"privacy": {Kerberos: "privacy"}, "encrypted": {Kerberos: "authentication", Encrypt: true},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "integrity" || name == "encrypted" { // a cluster each; the other two go the same ways
				testdata.Soak(t)
			}
			c := hdfstest.Start(t, o)
			s := secureOn(t, c, kerberosOn(t, c))
			dir := c.Dir(t)
			data := random(2<<20+77, 3) // in three blocks
			if err := writeFile(s, dir+"/f", data); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(c.Get(dir+"/f"), data) {
				t.Fatal("Hadoop reads other bytes")
			}
			tokenAlone(t, c, dir)
			if name == "authentication" {
				asAnother(t, c)
			}
		})
	}
}

// tokenAlone: a delegation token is enough to write and to change names.
func tokenAlone(t *testing.T, c *hdfstest.Cluster, dir string) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, c.DelegationToken(hdfstest.User, hdfstest.User, false), 0o600); err != nil {
		t.Fatal(err)
	}
	s := secureOn(t, c, namenode.AuthOptions{Tokens: func() (map[string]token.Token, error) { return token.Load(path) }})
	data := random(3<<20+7, 4)
	if err := writeFile(s, dir+"/token", data); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(c.Get(dir+"/token"), data) {
		t.Fatal("Hadoop reads other bytes")
	}
	if err := s.Replace(t.Context(), dir+"/token", data[:99]); err != nil || !bytes.Equal(c.Get(dir+"/token"), data[:99]) {
		t.Errorf("Replace: %v", err)
	}
	if err := s.SetReplication(t.Context(), dir+"/f", 2); err != nil {
		t.Error(err)
	}
	if err := s.Rename(t.Context(), dir+"/f", dir+"/g"); err != nil {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), dir+"/g"); err != nil {
		t.Error(err)
	}
}

// asAnother: who may act as others writes as them.
func asAnother(t *testing.T, c *hdfstest.Cluster) {
	login := sasl.LoginFromEnv(c.Getenv)
	login.Keytab = c.Keytab(hdfstest.Agent)
	creds, err := sasl.Login(t.Context(), login)
	if err != nil {
		t.Fatal(err)
	}
	s, dir := secureOn(t, c, namenode.AuthOptions{Kerberos: creds, User: hdfstest.User}), c.Dir(t)
	if err := writeFile(s, dir+"/f", []byte("theirs")); err != nil {
		t.Fatal(err)
	}
	info, err := s.Stat(t.Context(), dir+"/f")
	if err != nil || info.Owner != hdfstest.User {
		t.Errorf("%+v, %v", info, err)
	}
}
