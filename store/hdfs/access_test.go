package hdfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

func TestOthersAreBounded(t *testing.T) {
	cluster := conf.Cluster{Name: "h:1", NameNodes: []conf.NameNode{{Addr: "h:1"}}}
	p := newOthers(namenode.Options{Cluster: cluster, User: "agent"})
	held, err := p.acquire("held")
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxOthers + 10 {
		user := fmt.Sprint("user", i)
		if _, err := p.acquire(user); err != nil {
			t.Fatal(err)
		}
		p.release(user)
	}
	if n := len(p.clients); n != maxOthers {
		t.Errorf("%d clients are kept, want %d", n, maxOthers)
	}
	if again, err := p.acquire("held"); again != held || err != nil {
		t.Errorf("a client in use was dropped: %v", err)
	}
	if p.clients["user0"] != nil || p.clients[fmt.Sprint("user", maxOthers+9)] == nil {
		t.Error("not the one used longest ago was dropped")
	}
	for _, user := range []string{"", "alice/host", "alice@REALM", "a\x00b"} {
		if _, err := p.acquire(user); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%q: %v", user, err)
		}
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
	if _, err := p.acquire("late"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func TestOthersActByTheRealUser(t *testing.T) {
	for _, c := range []struct{ own, real, user, wantUser, wantReal string }{
		{"agent", "", "alice", "alice", "agent"},
		{"agent", "", "agent", "agent", ""},
		{"bob", "agent", "alice", "alice", "agent"},
		{"bob", "agent", "bob", "bob", "agent"},
		{"bob", "agent", "agent", "agent", ""},
	} {
		o, err := newOthers(namenode.Options{User: c.own, RealUser: c.real}).options(c.user)
		if err != nil || o.User != c.wantUser || o.RealUser != c.wantReal {
			t.Errorf("%+v: %q by %q, %v", c, o.User, o.RealUser, err)
		}
	}
	tokens := namenode.NewAuth(namenode.AuthOptions{})
	if _, err := newOthers(namenode.Options{Auth: tokens}).options("alice"); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "keytab") {
		t.Errorf("with a token alone: %v", err)
	}
}

func TestImpersonationIsExplained(t *testing.T) {
	for message, want := range map[string]string{
		"User: agent is not allowed to impersonate alice":                                         "hadoop.proxyuser.agent.users",
		"User: agent@EXAMPLE.COM is not allowed to impersonate alice":                             "hadoop.proxyuser.agent.hosts",
		"User: agent/dn1.example@EXAMPLE.COM (auth:KERBEROS) is not allowed to impersonate alice": "hadoop.proxyuser.agent.users",
		"Unauthorized connection for super-user: agent from IP 127.0.0.1":                         "",
	} {
		err := explained(fmt.Errorf("call: %w", &namenode.RemoteError{Class: "org.apache.hadoop.security.authorize.AuthorizationException", Message: message}))
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), message) || strings.Contains(err.Error(), "hadoop.proxyuser") != (want != "") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}
