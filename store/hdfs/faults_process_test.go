package hdfs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
)

// What signals and small disks do to DataNodes that are processes of their own. They send slowly, so that a signal falls
// into the middle of a read.
func TestFaultProcesses(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{
		OneJVMEach: true,
		DiskBytes:  48 << 20,
		Site:       map[string]string{"dfs.datanode.data.read.bandwidthPerSec": "4m"},
	})
	dir := c.Dir(t)
	data := hdfstest.Bytes(61, 8<<20)
	c.Put(dir+"/f", data, 3, 8<<20)
	c.WaitReplication(dir+"/f", 3)
	begun := func(t *testing.T) (s *hdfs.Store, done chan error) {
		s = faulty(t, c, func(o *hdfs.Options) { beside(c, 0)(o); o.NoHedge = true })
		f := openFile(t, s, dir+"/f")
		done = make(chan error, 1)
		go func() { done <- readRange(t.Context(), f, data, 0, len(data)) }()
		until(t, "the first bytes", func() bool { return s.ReadStats().Wire > 1<<20 })
		return s, done
	}

	t.Run("killed in a packet", func(t *testing.T) {
		_, done := begun(t)
		c.Kill(0)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		c.Restart(0, true)
	})
	t.Run("stopped in a packet", func(t *testing.T) {
		s, done := begun(t)
		c.Pause(0)
		defer c.Resume(0)
		if err := <-done; err != nil {
			t.Fatalf("%v: %+v", err, s.ReadStats())
		}
	})
	t.Run("full disks", func(t *testing.T) {
		s := faulty(t, c, nil)
		ctx, cancel := context.WithTimeout(t.Context(), faultTime)
		defer cancel()
		err := write(ctx, s, dir+"/big", hdfstest.Bytes(62, 64<<20))
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("64 MiB on disks of 48 MiB: %v", err)
		}
		wantClass(t, err, store.Retryable, store.Permanent)
		if _, err := s.Stat(ctx, dir+"/big"); store.ClassOf(err) != store.NotFound {
			t.Errorf("half a file is there: %v", err)
		}
		mustRead(t, openFile(t, s, dir+"/f"), data)
	})
}

// write writes a file, or leaves nothing behind.
func write(ctx context.Context, s store.Store, name string, data []byte) error {
	w, err := s.Create(ctx, name)
	if err != nil {
		return err
	}
	defer w.Abort()
	for rest := data; len(rest) > 0; rest = rest[min(1<<20, len(rest)):] {
		if _, err := w.Write(rest[:min(1<<20, len(rest))]); err != nil {
			return err
		}
	}
	return w.Close()
}
