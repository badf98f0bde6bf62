package hdfs

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// TestALostLeaseIsSaid: it must not look as if the name that is written did not exist.
func TestALostLeaseIsSaid(t *testing.T) {
	lease := exception("hdfs.server.namenode.LeaseExpiredException")
	for _, lost := range []struct {
		method string
		err    error
	}{{"addBlock", missing("/f")}, {"addBlock", lease}, {"complete", lease}, {"rename2", missing("/f")}} {
		c := newLake(t)
		c.fail = func(method, _ string) error {
			if method == lost.method {
				return lost.err
			}
			return nil
		}
		err := writeFile(newWriteStore(c), "/f", []byte("x"))
		if !errors.Is(err, errGone) || store.ClassOf(err) != store.Retryable {
			t.Errorf("%s: %v is %s", lost.method, err, store.ClassOf(err))
		}
	}
}

// TestLeasesAreRenewed for as long as a file is written, whether or not renewals succeed.
func TestLeasesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int64
		keep := func() *lease {
			return keepLease(ctx, leaseBeat, func(context.Context) error { n.Add(1); return store.ErrUnavailable })
		}
		l := keep()
		time.Sleep(5*leaseBeat + time.Second)
		l.drop()
		l.drop()
		time.Sleep(10 * leaseBeat)
		if n.Load() != 5 {
			t.Errorf("%d renewals, want 5", n.Load())
		}
		if err := (&output{lease: l}).failed(missing("f")); !errors.Is(err, errGone) || !strings.Contains(err.Error(), "the last renewal of its lease: "+store.ErrUnavailable.Error()) {
			t.Errorf("a lost lease: %v", err)
		}
		keep()
		cancel()
		time.Sleep(10 * leaseBeat)
		if n.Load() > 6 {
			t.Errorf("%d renewals after the end", n.Load()-5)
		}
	})
}
