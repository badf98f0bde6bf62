package namenode_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Two NameNodes: the active one changes in the middle of a listing, dies, comes back, is in safe mode; and both are
// away for a while. Each step sees the same folder.
func TestRealFailover(t *testing.T) {
	cluster := hdfstest.Start(t, hdfstest.Options{NameNodes: 2, DataNodes: 1})
	dir := cluster.Dir(t)
	cluster.ManyFiles(dir, 2500)
	o := realOptions(t, cluster, hdfstest.User)
	if !o.Cluster.HA || len(o.Cluster.NameNodes) != 2 {
		t.Fatalf("%+v", o.Cluster)
	}
	c := newClient(t, o)
	list := func(at int, event func()) {
		t.Helper()
		n := 0
		must(t, c.ListAll(t.Context(), dir, func(s *hproto.FileStatus) error {
			if string(s.GetPath()) != fmt.Sprintf("%06d", n) {
				t.Fatalf("entry %d is %q", n, s.GetPath())
			}
			if n++; n == at {
				event()
			}
			return nil
		}))
		if n != 2500 {
			t.Fatalf("%d entries", n)
		}
	}
	list(1, func() {})
	list(1000, func() { cluster.Failover(1) })
	if s := c.Stats(); s.Failovers != 1 || s.Retries["standby"] != 1 {
		t.Errorf("after a failover in order: %+v", s)
	}
	takenOver := make(chan error, 1)
	list(1000, func() { // the active one dies, and the other takes over while calls wait
		cluster.StopNameNode(1)
		go func() { takenOver <- cluster.Do(t.Context(), "activate", map[string]any{"nn": 0}, nil) }()
	})
	must(t, <-takenOver)
	other := cluster.Dir(t)
	must(t, c.Mkdirs(t.Context(), other+"/made", 0o755, true))
	cluster.RestartNameNode(1)
	cluster.Failover(1)
	deleted, err := c.Delete(t.Context(), other+"/made", true)
	if !deleted || err != nil {
		t.Errorf("after the second failover: %v, %v", deleted, err)
	}
	cluster.Failover(0)
	cluster.SafeMode(true)
	o.BusyRetries, o.PauseMax = 2, time.Second
	impatient := newClient(t, o)
	err = impatient.Mkdirs(t.Context(), other+"/safe", 0o755, true)
	if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), "safe mode") {
		t.Errorf("safe mode: %v", err)
	}
	cluster.SafeMode(false)
	must(t, impatient.Mkdirs(t.Context(), other+"/safe", 0o755, true))
}

// A NameNode restarts under a job: calls wait for it and go on, over a new connection.
func TestRealRestart(t *testing.T) {
	cluster := hdfstest.Start(t, hdfstest.Options{DataNodes: 1})
	dir := cluster.Dir(t)
	cluster.Put(dir+"/f", []byte("hello"), 1, 0)
	c := realClient(t, cluster, hdfstest.User)
	_, err := c.GetFileInfo(t.Context(), dir+"/f")
	must(t, err)
	stop := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		for {
			info, err := c.GetFileInfo(t.Context(), dir+"/f")
			if err == nil && info.GetLength() != 5 {
				err = fmt.Errorf("length %d", info.GetLength())
			}
			if err != nil {
				ended <- err
				return
			}
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
		}
	}()
	cluster.RestartNameNode(0)
	close(stop)
	must(t, <-ended)
	if s := c.Stats(); s.Connections < 2 {
		t.Errorf("%+v", s)
	}
}
