package hdfstest

import (
	"bytes"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

func TestPutGet(t *testing.T) {
	c := Shared(t)
	path := c.Dir(t) + "/file with blank, ü and %"
	want := Bytes(1, 2<<20+777)
	c.Put(path, want, 3, 0)
	if got := c.Get(path); !bytes.Equal(got, want) {
		t.Fatalf("got %d other bytes, want %d", len(got), len(want))
	}
	c.WaitReplication(path, 3)
	blocks := c.Locations(path)
	if len(blocks) != 3 || len(blocks[0].Nodes) != 3 || blocks[2].Length != 777 {
		t.Fatalf("got %+v", blocks)
	}
}

func TestKillAndRestart(t *testing.T) {
	c := Start(t, Options{DataNodes: 2, Racks: []string{"/a", "/b"}})
	path := c.Dir(t) + "/file"
	want := Bytes(2, 1<<20)
	c.Put(path, want, 2, 0)
	before := c.DataNodes()
	if before[0].Rack != "/a" || before[1].Rack != "/b" || before[0].Host != "dn0.test" {
		t.Fatalf("got %+v", before)
	}
	c.Kill(0)
	c.Bury(0)
	if nodes := c.Locations(path)[0].Nodes; len(nodes) != 1 || nodes[0] != 1 {
		t.Fatalf("DataNode 0 is dead, and locations are %v", nodes)
	}
	c.Restart(0, false)
	c.WaitReplication(path, 2)
	after := c.DataNodes()
	if after[0].UUID != before[0].UUID || after[0].Addr == before[0].Addr {
		t.Fatalf("the same DataNode on another port: %+v, before %+v", after[0], before[0])
	}
	c.Corrupt(path, 0, 0, FlipData)
	if got := c.Get(path); !bytes.Equal(got, want) {
		t.Fatal("other bytes: Hadoop's client did not turn to the good replica")
	}
	c.Corrupt(path, 0, 1, Delete)
	c.Kill(0)
	c.Restart(0, true)
	if again := c.DataNodes(); again[0].Addr != after[0].Addr {
		t.Fatalf("port changed: %s, before %s", again[0].Addr, after[0].Addr)
	}
}
