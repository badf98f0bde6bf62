package save

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

func openCluster(t testing.TB, c *hdfstest.Cluster, root string, set map[string]string) *hdfs.Store {
	t.Helper()
	cfg, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range set {
		cfg = cfg.With(k, v)
	}
	s, _, err := hdfs.Open(c.URL()+root, hdfs.Options{Conf: cfg, User: hdfstest.User, Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// ranks saves so many bytes in all from n stores, as the ranks of a job do, and returns when the marker is written.
func ranks(ctx context.Context, stores []*hdfs.Store, name string, data []byte, l Limits) error {
	o := Options{Layout: TorchDCP(), Limits: l}
	var g errgroup.Group
	writers := make([]*Writer, len(stores))
	saved := make([][]Saved, len(stores))
	for i, s := range stores {
		var err error
		if i == 0 {
			writers[i], err = Begin(ctx, s, name, o)
		} else {
			writers[i], err = Join(ctx, s, name, o)
		}
		if err != nil {
			return err
		}
	}
	for i, w := range writers {
		share := data[i*len(data)/len(writers) : (i+1)*len(data)/len(writers)]
		g.Go(func() error {
			f, err := w.Create(shard(i))
			if err != nil {
				return err
			}
			if _, err := f.Write(share); err != nil {
				return err
			}
			if err := f.End(); err != nil {
				return err
			}
			saved[i], err = w.Wait(ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var others []Saved
	for _, s := range saved[1:] {
		others = append(others, s...)
	}
	return writers[0].Commit(ctx, ".metadata", []byte("marker"), others...)
}

// Six DataNodes that take so many bytes a second each, three replicas: nodes-share is the rate as a part of what all nodes together
// take, less what replicas cost.
func BenchmarkThrottledSave(b *testing.B) {
	const nodes, rate, replicas = 6, 40 << 20, 3
	c := hdfstest.Start(b, hdfstest.Options{DataNodes: nodes, Site: map[string]string{"dfs.datanode.data.write.bandwidthPerSec": fmt.Sprint(rate)}})
	data := hdfstest.Bytes(1, 1<<30)
	for _, n := range []int{1, 4} {
		for _, partSize := range []int64{16 << 20, 32 << 20} {
			b.Run(fmt.Sprintf("%d writers, parts of %d MiB", n, partSize>>20), func(b *testing.B) {
				var stores []*hdfs.Store
				for range n {
					stores = append(stores, openCluster(b, c, "/", map[string]string{"dfs.blocksize": "128m"}))
				}
				dir := c.Dir(b)
				before := c.Calls(0)
				began := time.Now()
				for i := range b.N {
					if err := ranks(b.Context(), stores, path.Join(dir, fmt.Sprint(i)), data, Limits{PartSize: partSize}); err != nil {
						b.Fatal(err)
					}
				}
				took := time.Since(began).Seconds()
				b.StopTimer()
				b.ReportMetric(float64(len(data))*float64(b.N)/took/(nodes*rate/replicas), "nodes-share")
				calls := 0.0
				for call, n := range c.Calls(0) {
					if d := n - before[call]; d > 0 && clientCall(call) {
						b.Logf("%s %d", call, d)
						calls += float64(d)
					}
				}
				b.ReportMetric(calls/float64(b.N)/float64(len(data)/int(partSize)), "calls/part")
				c.Delete(dir)
			})
		}
	}
}

func clientCall(name string) bool {
	switch name {
	case "SendHeartbeat", "FileNotFoundException", "BlockReceivedAndDeleted", "BlockReport", "RegisterDatanode", "VersionRequest":
		return false
	}
	return !strings.HasPrefix(name, "Overall")
}
