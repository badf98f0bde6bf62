package ranges

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// tensors wants n tensors, one after the other in files of size bytes: 65 of 100 shorter than 16 KB, the others so long that
// all files are full.
func tensors(r *rand.Rand, n, files int, size int64) []Want {
	var wants []Want
	for file := range files {
		of := n / files
		long := of * 35 / 100
		lengths := make([]int, of)
		left := size
		for i := long; i < of; i++ {
			lengths[i] = 64 + r.IntN(16_000)
			left -= int64(lengths[i])
		}
		for i := range long {
			lengths[i] = int(left / int64(long))
		}
		r.Shuffle(of, func(i, j int) { lengths[i], lengths[j] = lengths[j], lengths[i] })
		var off int64
		for _, length := range lengths {
			wants = append(wants, want(file, off, length))
			off += int64(length)
		}
	}
	r.Shuffle(len(wants), func(i, j int) { wants[i], wants[j] = wants[j], wants[i] })
	return wants
}

func openCluster(t testing.TB, c *hdfstest.Cluster, change func(*hdfs.Options)) *hdfs.Store {
	t.Helper()
	cfg, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	o := hdfs.Options{Conf: cfg, User: hdfstest.User}
	if change != nil {
		change(&o)
	}
	s, _, err := hdfs.Open(c.URL()+"/", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// shards writes files of size bytes in blocks of a size.
func shards(c *hdfstest.Cluster, dir string, files int, size, block int64, replication int) (names []string, data [][]byte) {
	for i := range files {
		data = append(data, hdfstest.Bytes(uint64(i), int(size)))
		names = append(names, fmt.Sprintf("%s/shard-%d", dir, i))
		c.Put(names[i], data[i], replication, block)
	}
	return names, data
}

func openAll(t testing.TB, s store.Store, names []string) (files []File) {
	for _, name := range names {
		files = append(files, File{name, storetest.Open(t, s, name)})
	}
	return files
}

// Tensors of a checkpoint on a real cluster come with few requests, also past a corrupt replica; what is deleted meanwhile is
// an error or as it was.
func TestRealCluster(t *testing.T) {
	c := hdfstest.Shared(t)
	dir := c.Dir(t)
	names, data := shards(c, dir, 3, 4<<20, 1<<20, 3)
	for _, name := range names {
		c.WaitReplication(name, 3)
	}
	s := openCluster(t, c, nil)
	files := openAll(t, s, names)
	wants := tensors(rand.New(rand.NewPCG(1, 2)), 600, 3, 4<<20)
	wants = wants[:len(wants)*3/4] // holes between them
	stats, err := Read(t.Context(), files, wants, Options{})
	if err == nil {
		err = compare(wants, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	read := s.ReadStats()
	if stats.Reads > 6 || stats.SmallAvoided < 250 || stats.Read > 2*stats.Wanted || read.Wire > 21*stats.Wanted/10 || read.Connections > 16 {
		t.Errorf("%+v; %d bytes on the wire, %d connections", stats, read.Wire, read.Connections)
	}
	for dn := range 2 {
		c.Corrupt(names[0], 1, dn, hdfstest.FlipData)
	}
	if _, err := Read(t.Context(), files, wants, Options{}); err != nil {
		t.Errorf("with corrupt replicas: %v", err)
	} else if err := compare(wants, data); err != nil {
		t.Errorf("with corrupt replicas: %v", err)
	}
	if err := s.Remove(t.Context(), names[1]); err != nil {
		t.Fatal(err)
	}
	_, err = Read(t.Context(), files, wants, Options{})
	switch class := store.ClassOf(err); {
	case err == nil:
		if err := compare(wants, data); err != nil {
			t.Errorf("a deleted file: %v", err)
		}
	case class != store.NotFound && class != store.IdentityChanged:
		t.Errorf("a deleted file: class %s: %v", class, err)
	}
}

// On a link with a long round trip, 2,000 tensors come at about the rate of the link. link-share is what they take of it.
func BenchmarkDelayedLink(b *testing.B) {
	const rtt, rate = 100 * time.Millisecond, 125_000_000
	c := hdfstest.Start(b, hdfstest.Options{})
	names, data := shards(c, c.Dir(b), 16, 64<<20, 32<<20, 1)
	all := tensors(rand.New(rand.NewPCG(1, 2)), 2000, len(names), 64<<20)
	for name, wants := range map[string][]Want{"all": all, "half": all[:1000]} {
		b.Run(name, func(b *testing.B) {
			link := c.Link(rtt, rate)
			s := openCluster(b, c, func(o *hdfs.Options) { o.Dial = link.Dial })
			var bytes int64
			for b.Loop() {
				if err := s.Prefetch(b.Context(), names); err != nil {
					b.Fatal(err)
				}
				stats, err := Read(b.Context(), openAll(b, s, names), wants, Options{})
				if err != nil {
					b.Fatal(err)
				}
				bytes += stats.Wanted
				b.ReportMetric(float64(stats.SmallAvoided), "small-avoided")
				b.ReportMetric(float64(stats.Reads), "reads")
				b.ReportMetric(float64(stats.Read)/float64(stats.Wanted), "over-read")
			}
			b.ReportMetric(float64(bytes)/b.Elapsed().Seconds()/rate, "link-share")
			if err := compare(wants, data); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// With slow DataNodes a large file comes from all nodes that hold it. nodes-share is the rate as a part of what all of its
// nodes send together.
func BenchmarkThrottledNodes(b *testing.B) {
	const rate = 40_000_000
	c := hdfstest.Start(b, hdfstest.Options{DataNodes: 6})
	for _, file := range []struct {
		name        string
		size, block int64
		nodes       int
	}{{"16 blocks", 1 << 30, 64 << 20, 6}, {"one block", 256 << 20, 256 << 20, 3}} {
		names, data := shards(c, c.Dir(b), 1, file.size, file.block, 3)
		c.WaitReplication(names[0], 3)
		b.Run(file.name, func(b *testing.B) {
			links := map[string]*hdfstest.Link{}
			for _, dn := range c.DataNodes() {
				links[dn.Addr] = c.Link(0, rate)
			}
			s := openCluster(b, c, func(o *hdfs.Options) {
				o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if l := links[addr]; l != nil {
						return l.Dial(ctx, network, addr)
					}
					return new(net.Dialer).DialContext(ctx, network, addr)
				}
			})
			wants := []Want{want(0, 0, int(file.size))}
			for b.Loop() {
				if _, err := Read(b.Context(), openAll(b, s, names), wants, Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(file.size)*float64(b.N)/b.Elapsed().Seconds()/rate/float64(file.nodes), "nodes-share")
			if err := compare(wants, data); err != nil {
				b.Fatal(err)
			}
		})
	}
}
