package namenode_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
	"github.com/stepahead-io/stepahead/store/hdfs/token"
)

// The life of a delegation token, all by our own calls: given out for a ticket, used, renewed, expired, cancelled.
func TestRealTokens(t *testing.T) {
	const life = 8 * time.Second // long enough to be used on a busy machine
	cluster := hdfstest.Start(t, hdfstest.Options{Kerberos: "authentication", DataNodes: 1, Site: map[string]string{
		"dfs.namenode.delegation.token.renew-interval": "8000",
	}})
	dir := cluster.Dir(t)
	cluster.Put(dir+"/f", []byte("hello"), 1, 0)
	trainer := kerberosClient(t, cluster, hdfstest.User)
	ctx := t.Context()
	if _, err := realClient(t, cluster, hdfstest.User).GetFileInfo(ctx, dir); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without credentials: %v", err)
	}

	given, err := trainer.GetDelegationToken(ctx, hdfstest.User)
	must(t, err)
	holder := tokenClient(t, cluster, given)
	info, err := holder.GetFileInfo(ctx, dir+"/f")
	if err != nil || info.GetLength() != 5 {
		t.Fatalf("with a token: %v, %v", info, err)
	}
	if _, err := holder.GetDelegationToken(ctx, hdfstest.User); err == nil {
		t.Error("a token begot a token")
	}
	end, err := trainer.RenewDelegationToken(ctx, given)
	if left := time.Until(time.UnixMilli(end)); err != nil || left > life {
		t.Errorf("renewed for %v, %v", left, err)
	}
	if _, err := kerberosClient(t, cluster, hdfstest.Intruder).RenewDelegationToken(ctx, given); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("renewed by somebody else: %v", err)
	}
	refusedIn(t, 2*life, cluster, given) // nobody renews it

	second, err := trainer.GetDelegationToken(ctx, hdfstest.User)
	must(t, err)
	must(t, trainer.CancelDelegationToken(ctx, second))
	refusedIn(t, 0, cluster, second)
}

// refusedIn waits until new connections with a token are refused, as its credentials, within d.
func refusedIn(t *testing.T, d time.Duration, cluster *hdfstest.Cluster, given *hproto.Token) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d+time.Minute)
	defer cancel()
	for {
		c := tokenClient(t, cluster, given)
		err := c.Msync(ctx)
		c.Close()
		if errors.Is(err, namenode.ErrCredentials) {
			return
		}
		if err != nil || d == 0 {
			t.Fatalf("a token that should be refused: %v", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func kerberosClient(t *testing.T, cluster *hdfstest.Cluster, user string) *namenode.Client {
	t.Helper()
	login := sasl.LoginFromEnv(cluster.Getenv)
	login.Keytab = cluster.Keytab(user)
	credentials, err := sasl.Login(t.Context(), login)
	must(t, err)
	o := realOptions(t, cluster, "")
	o.Auth = namenode.NewAuth(namenode.AuthOptions{Cluster: o.Cluster, Kerberos: credentials})
	return newClient(t, o)
}

func tokenClient(t *testing.T, cluster *hdfstest.Cluster, given *hproto.Token) *namenode.Client {
	t.Helper()
	o := realOptions(t, cluster, "")
	held := map[string]token.Token{given.GetService(): {
		Kind: given.GetKind(), Service: given.GetService(), Identifier: given.GetIdentifier(), Password: token.NewSecret(given.GetPassword()),
	}}
	o.Auth = namenode.NewAuth(namenode.AuthOptions{Cluster: o.Cluster, Tokens: func() (map[string]token.Token, error) { return held, nil }})
	return newClient(t, o)
}
