package loader

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// handClock is a clock that a test moves.
type handClock struct{ at atomic.Int64 }

func (c *handClock) now() time.Duration      { return time.Duration(c.at.Load()) }
func (c *handClock) advance(d time.Duration) { c.at.Add(int64(d)) }

// stop lets a test hold something at a place.
type stop struct {
	reached chan struct{}
	resume  chan struct{}
	once    sync.Once
}

func newStop() *stop { return &stop{reached: make(chan struct{}), resume: make(chan struct{})} }

func (s *stop) hold(ctx context.Context) {
	s.once.Do(func() { close(s.reached) })
	select {
	case <-s.resume:
	case <-ctx.Done():
	}
}

// slowFile holds reads of parts.
type slowFile struct {
	store.File
	stop *atomic.Pointer[stop]
}

func (f slowFile) ReadRanges(ctx context.Context, r []store.Range) error {
	if s := f.stop.Load(); s != nil && r[0].Off > 0 {
		s.hold(ctx)
	}
	return f.File.ReadRanges(ctx, r)
}

// A wait is split by what it was for, and the time outside Next is the consumer's.
func TestStallAccounting(t *testing.T) {
	k := newKit(t, 40, 40, nil)
	clock := &handClock{}
	var reading, running atomic.Pointer[stop]
	o := k.options(t)
	o.Prefetch = 1
	o.StatsPath = filepath.Join(t.TempDir(), "stats.jsonl")
	o.testing.now = clock.now
	o.Store = &tally{Store: k.store, wrap: func(f store.File) store.File { return slowFile{f, &reading} }}
	o.Runner = &fakePool{hold: func(ctx context.Context, _ uint64) error {
		if s := running.Load(); s != nil {
			s.hold(ctx)
		}
		return nil
	}}
	l := mustOpen(t, o)
	next := func() StepStats {
		b, err := l.Next(t.Context())
		must(t, err)
		b.Release()
		return b.Stats
	}
	// held calls Next, which waits at s for d.
	held := func(at *atomic.Pointer[stop], s *stop, d time.Duration) StepStats {
		got := make(chan StepStats)
		go func() { got <- next() }()
		<-s.reached
		waitUntil(t, func() bool { return l.Stats().Waiting })
		clock.advance(d)
		at.Store(nil)
		close(s.resume)
		return <-got
	}
	s := newStop()
	running.Store(s)
	all := []StepStats{held(&running, s, 5*time.Second)}
	if d := all[0]; d.Stall != 5 || d.Transform != 5 || d.Consumer != 0 {
		t.Fatalf("held in a transform: %+v", d)
	}
	<-l.run.slots[1].ready
	clock.advance(3 * time.Second)
	all = append(all, next())
	if d := all[1]; d.Stall != 0 || d.Consumer != 3 {
		t.Fatalf("a slow consumer: %+v", d)
	}
	<-l.run.slots[2].ready
	s = newStop()
	reading.Store(s)
	all = append(all, next(), held(&reading, s, 2*time.Second))
	if d := all[3]; d.Stall != 2 || d.Network != 2 || d.Local != 8 {
		t.Fatalf("held in a read: %+v", d)
	}
	checkTotals(t, l, o.StatsPath, all)
}

// waitUntil polls: there is no event to wait for.
func waitUntil(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it did not happen")
		}
	}
}

func checkTotals(t *testing.T, l *Loader, path string, all []StepStats) {
	t.Helper()
	total := l.Stats()
	if total.Steps != 4 || total.Samples != 32 || total.Stall != 7 || total.Transform != 5 || total.Network != 2 || total.Consumer != 3 || total.Local != 32 {
		t.Fatalf("totals: %+v", total)
	}
	if !reflect.DeepEqual(total.Recent, all) {
		t.Fatalf("recent: %+v\nwant %+v", total.Recent, all)
	}
	data, err := os.ReadFile(path)
	must(t, err)
	lines := bufio.NewScanner(bytes.NewReader(data))
	for i := 0; lines.Scan(); i++ {
		var d StepStats
		must(t, json.Unmarshal(lines.Bytes(), &d))
		d.ByReason, all[i].ByReason = nil, nil
		if !reflect.DeepEqual(d, all[i]) {
			t.Fatalf("line %d: %+v, want %+v", i, d, all[i])
		}
	}
	if n := bytes.Count(data, []byte("\n")); n != len(all) {
		t.Fatalf("%d lines", n)
	}
	total.Recent[0].Step = 99
	if l.Stats().Recent[0].Step == 99 {
		t.Fatal("Stats shares memory with its caller")
	}
}

// A stats file whose last line a killed process left unfinished goes on with whole lines.
func TestStatsFileContinues(t *testing.T) {
	k := newKit(t, 16, 16, nil)
	o := k.options(t)
	o.StatsPath = filepath.Join(t.TempDir(), "stats.jsonl")
	must(t, os.WriteFile(o.StatsPath, []byte("{\"step\":0}\n{\"step\":1,\"sta"), 0o644))
	l := mustOpen(t, o)
	contents(t, l, 1)
	must(t, l.Close())
	data, err := os.ReadFile(o.StatsPath)
	must(t, err)
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("line %q", line)
		}
	}
	if len(lines) != 2 {
		t.Errorf("%d lines: %q", len(lines), data)
	}
}
