package hdfstest

import (
	"os"
	"time"
)

// Keytab returns the path of a user's keytab.
func (c *Cluster) Keytab(user string) string {
	c.t.Helper()
	realm := c.Realm()
	if realm == nil || realm.Keytabs[user] == "" {
		c.t.Fatalf("hdfstest: no keytab for %s: set Options.Kerberos, and name a user that the package knows", user)
	}
	return realm.Keytabs[user]
}

// DelegationToken returns a credential file, in Hadoop's older or newer format, with a new token of a user that renewer
// may renew. Without Kerberos it needs the setting dfs.namenode.delegation.token.always-use=true.
func (c *Cluster) DelegationToken(user, renewer string, newer bool) []byte {
	c.t.Helper()
	local := c.local("token")
	c.do("delegationToken", args{"user": user, "renewer": renewer, "local": local, "protobuf": newer}, nil)
	data, err := os.ReadFile(local)
	if err != nil {
		c.t.Fatal(err)
	}
	return data
}

// CancelTokens makes the NameNode forget the tokens of a credential file.
func (c *Cluster) CancelTokens(file []byte) {
	c.t.Helper()
	local := c.local("token")
	if err := os.WriteFile(local, file, 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.do("cancelToken", args{"local": local}, nil)
}

// BlockTokenLife makes block tokens that are given out from now on expire so soon. It needs block tokens: Kerberos,
// Encrypt, or the setting dfs.block.access.token.enable=true.
func (c *Cluster) BlockTokenLife(d time.Duration) {
	c.t.Helper()
	c.do("blockTokenLife", args{"ms": d.Milliseconds()}, nil)
}
