package hdfstest

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestProcesses(t *testing.T) {
	c := Start(t, Options{OneJVMEach: true})
	path := c.Dir(t) + "/file"
	want := Bytes(3, 1<<20)
	c.Put(path, want, 3, 0)
	c.Pause(1)
	c.Resume(1)
	if c.CPU(0) < 100*time.Millisecond {
		t.Errorf("DataNode 0 started with %v of CPU time", c.CPU(0))
	}
	c.Kill(2)
	c.Restart(2, true)
	if got := c.Get(path); !bytes.Equal(got, want) {
		t.Fatal("other bytes")
	}
	c.Pause(0) // the end of the cluster must end this one too
	pid := c.DataNodes()[0].PID
	t.Cleanup(func() {
		c.Close()
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("the paused DataNode outlives its cluster: %s", stat)
		}
	})
}

func TestTwoNameNodes(t *testing.T) {
	c := Start(t, Options{NameNodes: 2, DataNodes: 1})
	path := c.Dir(t) + "/file"
	want := Bytes(4, 1<<20)
	c.Put(path, want, 1, 0)
	c.Failover(1)
	if got := c.Get(path); !bytes.Equal(got, want) {
		t.Fatal("other bytes after the failover")
	}
	c.StopNameNode(1)
	c.Failover(0)
	if got := c.Get(path); !bytes.Equal(got, want) {
		t.Fatal("other bytes after the end of a NameNode")
	}
	c.RestartNameNode(1)
	c.Failover(1)
	if n := c.Calls(1)["GetBlockLocations"]; n != 0 {
		t.Errorf("a new NameNode has served %d calls already", n)
	}
}

func TestKerberos(t *testing.T) {
	c := Start(t, Options{Kerberos: "authentication", DataNodes: 1})
	path := c.Dir(t) + "/file"
	want := Bytes(5, 1<<20)
	c.Put(path, want, 1, 0)
	c.BlockTokenLife(time.Minute)
	if got := c.Get(path); !bytes.Equal(got, want) {
		t.Fatal("other bytes")
	}
	for _, user := range []string{User, Intruder, Agent} {
		if _, err := os.Stat(c.Keytab(user)); err != nil {
			t.Error(err)
		}
	}
	token := c.DelegationToken(User, User, false)
	if !bytes.HasPrefix(token, []byte("HDTS\x00")) || !bytes.Contains(token, []byte("HDFS_DELEGATION_TOKEN")) {
		t.Errorf("got %q", token)
	}
	if newer := c.DelegationToken(User, User, true); !bytes.HasPrefix(newer, []byte("HDTS\x01")) {
		t.Errorf("got %q", newer)
	}
	c.CancelTokens(token)
}
