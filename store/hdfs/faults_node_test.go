package hdfs_test

import (
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
)

// What happens to DataNodes while a file is open. The subtests follow each other on one cluster.
func TestFaultNodes(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 4})
	path := c.Dir(t) + "/f"
	data := hdfstest.Bytes(31, 3<<20)
	putReported(c, path, data, 2)
	holders := func() []int { return c.Locations(path)[0].Nodes }
	opened := func(t *testing.T, dn int) (*hdfs.Store, store.File) {
		s := faulty(t, c, beside(c, dn))
		f := openFile(t, s, path)
		mustRead(t, f, data)
		return s, f
	}

	t.Run("moved by the balancer", func(t *testing.T) {
		from := holders()[0]
		_, f := opened(t, from)
		to := 0
		for has := holders(); to == has[0] || to == has[1]; {
			to++
		}
		c.Move(path, 0, from, to)
		mustRead(t, f, data)
	})
	t.Run("restarted on another port", func(t *testing.T) {
		dn := holders()[0]
		_, f := opened(t, dn)
		c.Kill(dn)
		wantSum(t, f, data)
		mustRead(t, f, data)
		c.Restart(dn, false)
		mustRead(t, f, data)
		mustRead(t, openFile(t, faulty(t, c, beside(c, dn)), path), data)
	})
	t.Run("all moved to other ports", func(t *testing.T) {
		_, f := opened(t, 0)
		for dn := range 4 {
			c.Kill(dn)
			c.Restart(dn, false)
		}
		mustRead(t, f, data)
	})
	t.Run("decommissioned", func(t *testing.T) {
		has := holders()
		_, f := opened(t, has[0])
		c.Decommission(has...)
		mustRead(t, f, data)
		c.Kill(has[0])
		c.Kill(has[1])
		mustRead(t, f, data)
		c.Restart(has[0], true)
		c.Restart(has[1], true)
		c.Decommission()
	})
	t.Run("all gone", func(t *testing.T) {
		_, f := opened(t, 0)
		for dn := range 4 {
			c.Kill(dn)
		}
		wantClass(t, tryRead(t, f, data, 0, len(data)), store.Retryable)
		for dn := range 4 {
			c.Restart(dn, true)
		}
		mustRead(t, f, data)
	})
}

// A reader who is told wrong things about where it is reads the same bytes.
func TestFaultWrongTopology(t *testing.T) {
	c := hdfstest.Shared(t)
	path := c.Dir(t) + "/f"
	data := hdfstest.Bytes(32, 1<<20)
	putReported(c, path, data, 3)
	for name, change := range map[string]func(*hdfs.Options){
		"a rack that is none":     func(o *hdfs.Options) { o.Rack = "/nowhere/at/all" },
		"a node that is none":     func(o *hdfs.Options) { o.Node = "00000000-0000-0000-0000-000000000000" },
		"a host that is unknown":  func(o *hdfs.Options) { o.Host = "unknown.test" },
		"another node's rack":     func(o *hdfs.Options) { o.Host, o.Rack = "dn0.test", "/rack1" },
		"a rank beyond all nodes": func(o *hdfs.Options) { o.Rank = 1_000_003 },
	} {
		t.Run(name, func(t *testing.T) { mustRead(t, openFile(t, faulty(t, c, change), path), data) })
	}
}
