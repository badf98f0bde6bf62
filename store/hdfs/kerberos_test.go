package hdfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
	"github.com/stepahead-io/stepahead/store/hdfs/token"
)

func configOf(t testing.TB, c *hdfstest.Cluster) (*conf.Config, conf.Cluster) {
	t.Helper()
	config, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := config.Cluster("")
	if err != nil {
		t.Fatal(err)
	}
	return config, cluster
}

// login logs a user in with the keytab.
func login(t testing.TB, c *hdfstest.Cluster, user string, now func() time.Time) *sasl.Credentials {
	t.Helper()
	o := sasl.LoginFromEnv(c.Getenv)
	o.Keytab, o.Now = c.Keytab(user), now
	creds, err := sasl.Login(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return creds
}

func readWhole(t testing.TB, s *hdfs.Store, name string, want []byte) {
	t.Helper()
	got, err := store.ReadFile(t.Context(), s, name, int64(len(want)))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, equal %v, %v", name, len(got), bytes.Equal(got, want), err)
	}
}

// wantSum wants a file's sum from its DataNodes.
func wantSum(t testing.TB, f store.File, data []byte) {
	t.Helper()
	got, err := f.(store.Checksummer).CRC32C(faultContext(t))
	if want := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); err != nil || got != want {
		t.Errorf("the sum %08x, %v; want %08x", got, err, want)
	}
}

// TestWhoMayRead asks as other users on a cluster that believes names.
func TestWhoMayRead(t *testing.T) {
	c := hdfstest.Shared(t)
	whoMayRead(t, c, open(t, c, "/", hdfs.Options{User: hdfstest.Agent}), open(t, c, "/", hdfs.Options{User: hdfstest.Intruder}), hdfstest.Intruder)
}

// whoMayRead: agent may act as others, helpless may not.
func whoMayRead(t *testing.T, c *hdfstest.Cluster, agent, helpless *hdfs.Store, name string) {
	t.Helper()
	dir := c.Dir(t)
	for file, mode := range map[string]uint32{"open": 0o644, "closed": 0o600} {
		c.Put(dir+"/"+file, []byte("text"), 1, blockSize)
		c.Chmod(dir+"/"+file, hdfstest.User, mode)
	}
	for _, row := range []struct {
		user, file string
		want       error
	}{
		{hdfstest.User, "open", nil}, {hdfstest.User, "closed", nil}, {hdfstest.Intruder, "open", nil},
		{hdfstest.Intruder, "closed", fs.ErrPermission}, {hdfstest.User, "absent", fs.ErrNotExist},
		{hdfstest.Agent, "closed", fs.ErrPermission}, {"nobody-knows-me", "closed", fs.ErrPermission}, {"nobody-knows-me", "open", nil},
	} {
		if err := agent.MayRead(t.Context(), row.user, dir+"/"+row.file); !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
			t.Errorf("%s, %s: %v; want %v", row.user, row.file, err, row.want)
		}
	}
	err := helpless.MayRead(t.Context(), hdfstest.User, dir+"/open")
	for _, want := range []string{"hadoop.proxyuser." + name + ".users", "hadoop.proxyuser." + name + ".hosts", "core-site.xml", hdfstest.User} {
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), want) {
			t.Errorf("without the right: %v; want %q in it", err, want)
		}
	}
	if err := agent.MayRead(t.Context(), hdfstest.User, "no/name"); !errors.Is(err, store.ErrName) {
		t.Errorf("a wrong name: %v", err)
	}
}

// noMoves: where blocks have tokens no owner of a file moves its replicas, and is told why.
func noMoves(t *testing.T, c *hdfstest.Cluster, dir string, s *hdfs.Store) {
	c.Put(dir+"/single", []byte("text"), 1, blockSize)
	rows, err := s.Locate(t.Context(), "/file", 0, 1) // on both nodes
	if err != nil {
		t.Fatal(err)
	}
	at, err := s.Locate(t.Context(), "/single", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	other := slices.IndexFunc(rows, func(r store.Replica) bool { return r.Node != at[0].Node })
	if err := s.MoveReplica(t.Context(), "/single", 0, at[0].Node, rows[other].Node); !errors.Is(err, fs.ErrPermission) || store.ClassOf(err) != store.Permanent {
		t.Errorf("moving a replica: %v", err)
	}
}

// TestKerberos: a secure cluster is read with a keytab and with tokens of both forms, under every protection, and
// not by those who should not.
func TestKerberos(t *testing.T) {
	for _, protection := range []string{"privacy", "integrity", "authentication"} {
		t.Run(protection, func(t *testing.T) {
			if protection != "privacy" {
				testdata.Soak(t)
			}
			t.Parallel()
			c := hdfstest.Start(t, hdfstest.Options{Kerberos: protection, DataNodes: 2})
			secure(t, c)
		})
	}
}

func secure(t *testing.T, c *hdfstest.Cluster) {
	config, cluster := configOf(t, c)
	data := make([]byte, 3*blockSize+7)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	dir := c.Dir(t)
	c.Put(dir+"/file", data, 2, blockSize)
	c.Chmod(dir+"/file", hdfstest.User, 0o600)
	as := func(o namenode.AuthOptions) hdfs.Options {
		o.Cluster = cluster
		return hdfs.Options{Conf: config, Auth: namenode.NewAuth(o)}
	}
	var ahead atomic.Int64 // of the clock by which the trainer's ticket is renewed
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	trainer, agent, intruder := login(t, c, hdfstest.User, clock), login(t, c, hdfstest.Agent, nil), login(t, c, hdfstest.Intruder, nil)
	until := trainer.Until()
	if p := trainer.Principal(); p != hdfstest.User+"@"+c.Realm().Realm {
		t.Errorf("principal %s", p)
	}
	owner := open(t, c, dir, as(namenode.AuthOptions{Kerberos: trainer}))
	readWhole(t, owner, "/file", data)
	wantSum(t, openFile(t, owner, "/file"), data)
	noMoves(t, c, dir, owner)
	for _, newer := range []bool{false, true} {
		file := c.DelegationToken(hdfstest.User, hdfstest.Superuser, newer) // who may cancel it
		tokens, err := token.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, held := range tokens {
			if claims, err := held.Claims(); err != nil || claims.Owner != hdfstest.User && !strings.HasPrefix(claims.Owner, hdfstest.User+"@") || claims.Renewer != hdfstest.Superuser {
				t.Errorf("%v: %+v, %v", held, claims, err)
			}
		}
		o := as(namenode.AuthOptions{Tokens: func() (map[string]token.Token, error) { return token.Read(file) }})
		readWhole(t, open(t, c, dir, o), "/file", data)
		c.CancelTokens(file)
		_, err = open(t, c, dir, o).Stat(t.Context(), "/file")
		if !errors.Is(err, namenode.ErrCredentials) && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a cancelled token: %v", err)
		}
	}
	stranger := open(t, c, dir, as(namenode.AuthOptions{Kerberos: intruder}))
	if _, err := store.ReadFile(t.Context(), stranger, "/file", 1<<30); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("the intruder reads: %v", err)
	}
	if _, err := open(t, c, dir, as(namenode.AuthOptions{})).Stat(t.Context(), "/file"); !errors.Is(err, sasl.ErrAuth) || !strings.Contains(err.Error(), "no keytab") {
		t.Errorf("without credentials: %v", err)
	}
	root := func(creds *sasl.Credentials) *hdfs.Store {
		return open(t, c, "/", as(namenode.AuthOptions{Kerberos: creds}))
	}
	whoMayRead(t, c, root(agent), root(intruder), hdfstest.Intruder)
	impostor(t, c, trainer)
	// Near its end the ticket is replaced by a new one, with which connections are opened from then on.
	ahead.Store(int64(time.Until(until) * 9 / 10))
	// Tickets end at whole seconds, so one of the same second looks like the old one; each read takes another.
	for deadline := time.Now().Add(10 * time.Second); !trainer.Until().After(until) && time.Now().Before(deadline); {
		readWhole(t, open(t, c, dir, as(namenode.AuthOptions{Kerberos: trainer})), "/file", data)
	}
	if now := trainer.Until(); !now.After(until) {
		t.Errorf("the ticket was good until %v, and now is until %v", until, now)
	}
}

// impostor: a NameNode that is another principal than the configuration says gets no ticket.
func impostor(t *testing.T, c *hdfstest.Cluster, creds *sasl.Credentials) {
	t.Helper()
	config, _ := configOf(t, c)
	config = config.With("dfs.namenode.kerberos.principal", "nn/_HOST@"+c.Realm().Realm)
	cluster, err := config.Cluster("")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, c, "/", hdfs.Options{Conf: config, Auth: namenode.NewAuth(namenode.AuthOptions{Cluster: cluster, Kerberos: creds})})
	_, err = s.Stat(t.Context(), "/")
	for _, want := range []string{"dfs.namenode.kerberos.principal", fmt.Sprintf("%q", c.Realm().Principal)} {
		if !errors.Is(err, sasl.ErrAuth) || !strings.Contains(err.Error(), want) {
			t.Errorf("an impostor: %v; want %q in it", err, want)
		}
	}
}
