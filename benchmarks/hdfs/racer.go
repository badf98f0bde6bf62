package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// racer does tasks with one client, and with more where a task is about many.
type racer struct {
	client client
	create func(reader int) (client, error)
	open   map[opened]file
}

// opened names a file that stays open from task to task, as a dataset's do.
type opened struct {
	worker int
	path   string
}

func (r *racer) file(ctx context.Context, worker int, path string) (file, error) {
	if r.client.shared() {
		worker = 0
	}
	key := opened{worker, path}
	if f, ok := r.open[key]; ok {
		return f, nil
	}
	f, err := r.client.open(ctx, path)
	if err == nil {
		r.open[key] = f
	}
	return f, err
}

func (r *racer) run(ctx context.Context, t task) (result, error) {
	work := map[string]func(context.Context, task, *result) error{
		"stream": r.stream, "ranges": r.ranges, "many": r.many, "readers": r.readers, "memory": r.memory, "digest": r.digest,
	}[t.Do]
	if work == nil {
		return result{}, fmt.Errorf("no such task")
	}
	var got result
	connections, wire := r.client.wire()
	begin, cpu, calls := time.Now(), cpuTime(), callsOf(r.client)
	if err := work(ctx, t, &got); err != nil {
		return got, err
	}
	if got.Wall == 0 {
		got.Wall = time.Since(begin).Seconds()
	}
	got.CPU = (cpuTime() - cpu).Seconds()
	got.Calls = callsOf(r.client) - calls
	after, bytes := r.client.wire()
	got.Wire = bytes - wire
	for node, n := range after {
		got.Most = max(got.Most, n-connections[node])
	}
	return got, nil
}

// stream reads a file from end to end, into the same memory again and again.
func (r *racer) stream(ctx context.Context, t task, got *result) error {
	f, err := r.client.open(ctx, t.Path)
	if err != nil {
		return err
	}
	defer f.close()
	got.Bytes = f.size()
	return readAll(ctx, f, make([]byte, t.Step))
}

func readAll(ctx context.Context, f file, buf []byte) error {
	for off := int64(0); off < f.size(); off += int64(len(buf)) {
		if err := f.readAt(ctx, buf[:min(int64(len(buf)), f.size()-off)], off); err != nil {
			return err
		}
	}
	return nil
}

// ranges reads ranges, so many at once, each by a call of its own. Opening files is not timed.
func (r *racer) ranges(ctx context.Context, t task, got *result) error {
	files := make([]map[string]file, t.AtOnce)
	for i := range files {
		files[i] = map[string]file{}
		for _, p := range paths(t.Ranges) {
			f, err := r.file(ctx, i, p)
			if err != nil {
				return err
			}
			files[i][p] = f
		}
	}
	todo := make(chan extent, len(t.Ranges))
	for _, x := range t.Ranges {
		todo <- x
		got.Bytes += x.Len
	}
	close(todo)
	var mu sync.Mutex
	begin := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for i := range t.AtOnce {
		g.Go(func() error {
			var buf []byte
			for x := range todo {
				if int64(len(buf)) < x.Len {
					buf = make([]byte, x.Len)
				}
				start := time.Now()
				if err := files[i][x.Path].readAt(ctx, buf[:x.Len], x.Off); err != nil {
					return err
				}
				took := time.Since(start)
				mu.Lock()
				got.Millis = append(got.Millis, took.Seconds()*1e3)
				mu.Unlock()
			}
			return nil
		})
	}
	err := g.Wait()
	got.Wall = time.Since(begin).Seconds()
	return err
}

// vectored is a client that reads many ranges in one call.
type vectored interface {
	readMany(ctx context.Context, open func(path string) (file, error), ranges []extent, bufs [][]byte) error
}

func (r *racer) many(ctx context.Context, t task, got *result) error {
	v, ok := r.client.(vectored)
	if !ok {
		return r.ranges(ctx, t, got)
	}
	bufs := make([][]byte, len(t.Ranges))
	for i, x := range t.Ranges {
		bufs[i] = make([]byte, x.Len)
		got.Bytes += x.Len
	}
	open := func(path string) (file, error) { return r.file(ctx, 0, path) }
	for _, p := range paths(t.Ranges) {
		if _, err := open(p); err != nil {
			return err
		}
	}
	begin := time.Now()
	err := v.readMany(ctx, open, t.Ranges, bufs)
	got.Wall = time.Since(begin).Seconds()
	return err
}

// readers has many clients read a file from end to end; the time is that of the last.
func (r *racer) readers(ctx context.Context, t task, got *result) error {
	all := make([]file, t.Count)
	for i := range all {
		k, err := r.create(i)
		if err != nil {
			return err
		}
		defer k.close()
		if all[i], err = k.open(ctx, t.Path); err != nil {
			return err
		}
		defer all[i].close()
		got.Bytes += all[i].size()
	}
	begin := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for _, f := range all {
		g.Go(func() error { return readAll(ctx, f, make([]byte, t.Step)) })
	}
	err := g.Wait()
	got.Wall = time.Since(begin).Seconds()
	return err
}

// memory reads so many pieces at once and says how far the process grew beyond their buffers.
func (r *racer) memory(ctx context.Context, t task, got *result) error {
	f, err := r.client.open(ctx, t.Path)
	if err != nil {
		return err
	}
	defer f.close()
	bufs := make([][]byte, t.Count)
	for i := range bufs {
		bufs[i] = make([]byte, t.Step)
		for k := 0; k < len(bufs[i]); k += os.Getpagesize() {
			bufs[i][k] = 1
		}
	}
	before, err := resident("VmRSS")
	if err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins anew
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for i, buf := range bufs {
		g.Go(func() error {
			for round := range 4 {
				off := (int64(i+round*len(bufs)) * t.Step) % (f.size() - t.Step + 1)
				if err := f.readAt(ctx, buf, off); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	peak, err := resident("VmHWM")
	got.Peak = peak - before
	return err
}

// digest is of all ranges, one after the other: the gate before any speed.
func (r *racer) digest(ctx context.Context, t task, got *result) error {
	h := sha256.New()
	for _, x := range t.Ranges {
		f, err := r.client.open(ctx, x.Path)
		if err != nil {
			return err
		}
		buf := make([]byte, x.Len)
		err = f.readAt(ctx, buf, x.Off)
		f.close()
		if err != nil {
			return err
		}
		h.Write(buf)
	}
	got.Sha256 = hex.EncodeToString(h.Sum(nil))
	return nil
}

func callsOf(c client) int64 {
	if k, ok := c.(interface{ calls() int64 }); ok {
		return k.calls()
	}
	return 0
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is a line of /proc/self/status, in bytes.
func resident(field string) (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == field+":" {
			kib, err := strconv.ParseInt(words[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no %s", field)
}
