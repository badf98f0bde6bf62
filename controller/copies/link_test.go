package copies

import (
	"fmt"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// A checkpoint over a link with a long round trip, as large files and as many small ones, into a folder. link-share is what its bytes take of the link's rate, reading back
// and ending included.
func BenchmarkLink(b *testing.B) {
	const rtt, rate = 100 * time.Millisecond, 50_000_000
	c := hdfstest.Start(b, hdfstest.Options{})
	for what, shape := range map[string]struct{ files, size int }{"large": {8, 48 << 20}, "small": {400, 50 << 10}} {
		root := c.Dir(b)
		for i := range shape.files {
			c.Put(fmt.Sprintf("%s/tag/zero_pp_rank_%04d_mp_rank_00_optim_states.pt", root, i), noise(shape.size, uint64(i)), 1, 32<<20)
		}
		b.Run(what, func(b *testing.B) {
			cfg, err := conf.Load(c.Getenv)
			must(b, err)
			link := c.Link(rtt, rate)
			home, _, err := hdfs.Open(c.URL()+root, hdfs.Options{Conf: cfg, User: hdfstest.User, Root: root, Dial: link.Dial})
			must(b, err)
			defer func() { must(b, home.Close()) }()
			site, _, err := dir.Open(b.TempDir(), dir.Options{})
			must(b, err)
			defer func() { must(b, site.Close()) }()
			mk, err := New(Options{Controller: "ctl", Stores: &lakes{home: home, site: site}, Key: newKey(b, b.TempDir())})
			must(b, err)
			src, err := checkpoint.Open(b.Context(), home, "/tag", checkpoint.Options{})
			must(b, err)
			id := plan.ID(0)
			for b.Loop() {
				id++
				p := controller.Placement{Make: plan.Make{ID: id, Means: plan.Copy, Path: "/tag", Identity: src.Identity(), Site: "b"}, Lease: time.Hour}
				_, err := mk.Make(b.Context(), p, controller.Tools{})
				must(b, err)
			}
			b.ReportMetric(float64(src.Bytes())*float64(b.N)/b.Elapsed().Seconds()/rate, "link-share")
		})
	}
}
