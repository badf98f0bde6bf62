package hdfs_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
)

// manyFiles is a folder of eleven pages, so that a failover falls between two of them.
const manyFiles = 10_000

// The active NameNode changes while a large folder is listed again and again, and dies in the end: every listing is whole.
func TestFaultFailover(t *testing.T) {
	t.Parallel()
	c := hdfstest.Start(t, hdfstest.Options{NameNodes: 2, DataNodes: 1})
	dir := c.Dir(t)
	data := hdfstest.Bytes(51, 2<<20)
	c.Put(dir+"/f", data, 1, 0)
	c.Mkdir(dir + "/many")
	c.ManyFiles(dir+"/many", manyFiles)
	s := faulty(t, c, nil)
	f := openFile(t, s, dir+"/f")

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	lists := 0
	wg.Go(func() {
		for ctx.Err() == nil {
			infos, err := s.List(faultContext(t), dir+"/many")
			if err != nil || len(infos) != manyFiles {
				t.Errorf("listing %d has %d files: %v", lists, len(infos), err)
			}
			lists++
		}
	})
	for _, active := range []int{1, 0, 1} {
		c.Failover(active)
		mustRead(t, f, data)
		mustRead(t, openFile(t, s, dir+"/f"), data)
	}
	c.StopNameNode(1)
	c.Failover(0)
	mustRead(t, openFile(t, s, dir+"/f"), data)
	stop()
	wg.Wait()
	if lists == 0 {
		t.Error("nothing was listed meanwhile")
	}
}
