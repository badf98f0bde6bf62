package hdfs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
)

// What signals and small disks do to DataNodes that are processes of their own. They send slowly, so that a signal falls
// into the middle of a read.
func TestFaultProcesses(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{
		OneJVMEach: true,
		DiskBytes:  48 << 20,
		Site: map[string]string{
			"dfs.datanode.data.read.bandwidthPerSec": "4m",
			"dfs.client.socket-timeout":              "3000", // of DataNodes that wait for each other, too
		},
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
	// written harms a DataNode while a file is written through it, among all others.
	written := func(t *testing.T, name string, harm func()) {
		s := faulty(t, c, nil)
		w, err := s.Create(faultContext(t), dir+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		for at := 0; at < len(data); at += 1 << 20 {
			if at == 2<<20 {
				harm()
			}
			if _, err := w.Write(data[at : at+1<<20]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		mustRead(t, openFile(t, s, dir+"/"+name), data)
		if err := s.Remove(t.Context(), dir+"/"+name); err != nil {
			t.Error(err)
		}
	}
	t.Run("killed under a writer", func(t *testing.T) {
		written(t, "killed", func() { c.Kill(1) })
		c.Restart(1, true)
	})
	t.Run("stopped under a writer", func(t *testing.T) {
		testdata.Soak(t) // who waits for it notices after 8 to 18 seconds
		defer c.Resume(2)
		written(t, "stopped", func() { c.Pause(2) })
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
