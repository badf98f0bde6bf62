package hdfs_test

import (
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
)

var damages = []hdfstest.Damage{hdfstest.FlipData, hdfstest.FlipChecksum, hdfstest.Truncate, hdfstest.Delete}

// One damaged replica, which is the one read first, costs a turn to another; wrong bytes are told to the NameNode.
func TestFaultOneReplica(t *testing.T) {
	c := hdfstest.Shared(t)
	for _, what := range damages {
		t.Run(string(what), func(t *testing.T) {
			path := c.Dir(t) + "/f"
			data := hdfstest.Bytes(21, 1<<20)
			putReported(c, path, data, 3)
			s := faulty(t, c, beside(c, 1))
			f := openFile(t, s, path)
			c.Corrupt(path, 0, 1, what)
			mustRead(t, f, data)
			stats := s.ReadStats()
			retries := int64(0)
			for _, n := range stats.Retries {
				retries += n
			}
			if retries == 0 {
				t.Errorf("the damaged replica was not even tried: %+v", stats)
			}
			wrong := what == hdfstest.FlipData || what == hdfstest.FlipChecksum
			if wrong && (stats.Retries["checksum"] == 0 || stats.Calls["reportBadBlocks"] == 0) {
				t.Errorf("nobody was told: %+v", stats)
			}
		})
	}
}

// Where all replicas are damaged there are no bytes: wrong ones everywhere are corrupt content, missing ones are not.
func TestFaultAllReplicas(t *testing.T) {
	c := hdfstest.Shared(t)
	for _, what := range damages {
		t.Run(string(what), func(t *testing.T) {
			t.Parallel()
			path := c.Dir(t) + "/f"
			data := hdfstest.Bytes(22, 1<<20)
			putReported(c, path, data, 3)
			f := openFile(t, faulty(t, c, nil), path)
			for dn := range 3 {
				c.Corrupt(path, 0, dn, what)
			}
			err := tryRead(t, f, data, 400_000, 300_000)
			if what == hdfstest.FlipData || what == hdfstest.FlipChecksum {
				wantClass(t, err, store.Corrupt)
			} else {
				wantClass(t, err, store.Corrupt, store.Retryable)
			}
			if err := tryRead(t, f, data, 0, 1000); what != hdfstest.Delete && err != nil {
				t.Errorf("the part that is whole: %v", err)
			}
		})
	}
}
