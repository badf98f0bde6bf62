package hdfs_test

import (
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

// Kerberos tickets end again and again while a store is used, and every connection is a new one.
func TestFaultTicketsEnd(t *testing.T) {
	testdata.Soak(t)
	const life = 20 * time.Second
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 1, Kerberos: "integrity", TicketSeconds: int(life.Seconds())})
	path := c.Dir(t) + "/f"
	data := hdfstest.Bytes(81, 1<<20)
	c.Put(path, data, 1, 0)
	login := sasl.LoginFromEnv(c.Getenv)
	login.Keytab = c.Keytab(hdfstest.User)
	credentials, err := sasl.Login(t.Context(), login)
	if err != nil {
		t.Fatal(err)
	}
	network := c.Network()
	proxies := []*hdfstest.Proxy{network.Proxy(c.NameNodes()[0].Addr), network.Proxy(c.DataNodes()[0].Addr)}
	s := faulty(t, c, func(o *hdfs.Options) {
		cluster, err := o.Conf.Cluster("")
		if err != nil {
			t.Fatal(err)
		}
		o.Dial = network.Dial
		o.Auth = namenode.NewAuth(namenode.AuthOptions{Cluster: cluster, Kerberos: credentials})
	})
	for end := time.Now().Add(4 * life); time.Now().Before(end); {
		mustRead(t, openFile(t, s, path), data)
		for _, p := range proxies {
			p.Down()
			p.Up()
		}
	}
}
