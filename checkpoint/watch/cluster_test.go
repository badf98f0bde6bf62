package watch

import (
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// TestCallsOnCluster: on a real cluster a watch sees what is committed and deleted, and where nothing happens it costs one call an interval.
func TestCallsOnCluster(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	file := append(append([]byte("PK\x03\x04"), make([]byte, 8)...), append([]byte("PK\x05\x06"), make([]byte, 18)...)...)
	for _, name := range []string{"step-1", "step-2", "step-3"} {
		c.Put(root+"/"+name+"/model.pt", file, 1, 1<<20)
	}
	cfg, err := conf.Load(c.Getenv)
	must(t, err)
	s, _, err := hdfs.Open(c.URL()+"/", hdfs.Options{Conf: cfg, User: hdfstest.User})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	w := &world{t: t, store: &counting{Store: s, lists: map[string]int{}}}
	var before map[string]int64
	scenes := []func(){
		func() {
			w.expect("committed step-3", "committed step-2")
			before = c.Calls(0)
		},
	}
	const quiet = 20
	for range quiet - 1 {
		scenes = append(scenes, func() {})
	}
	scenes = append(scenes, func() {
		w.expect()
		for _, method := range []string{"GetListing", "GetFileInfo", "GetBlockLocations"} {
			want := int64(0)
			if method == "GetListing" {
				want = quiet
			}
			if n := c.Calls(0)[method] - before[method]; n != want {
				t.Errorf("%d times %s in %d quiet intervals, want %d", n, method, quiet, want)
			}
		}
		c.Put(root+"/step-4/model.pt", file, 1, 1<<20)
		c.Delete(root + "/step-1")
	}, func() { w.expect("deleted step-1", "committed step-4") })
	w.watchIn(root, Options{Recent: 2}, scenes...)
}
