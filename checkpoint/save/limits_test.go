package save

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// gated is a store whose writes wait for a gate, and which counts them.
type gated struct {
	store.Store
	gate chan struct{} // closed: open

	mu         sync.Mutex
	calls, now int
	most       int   // at a time
	bytes      int64 // stored
}

func (g *gated) enter(n int64) {
	g.mu.Lock()
	g.calls++
	g.now++
	g.most = max(g.most, g.now)
	g.mu.Unlock()
	<-g.gate
	g.mu.Lock()
	g.now--
	g.bytes += n
	g.mu.Unlock()
}

func (g *gated) Create(ctx context.Context, name string) (store.Writer, error) {
	w, err := g.Store.Create(ctx, name)
	return &gatedWriter{w, g}, err
}

func (g *gated) CreateParts(ctx context.Context, name string) (store.PartsWriter, error) {
	w, err := store.CreateParts(ctx, g.Store, name)
	return &gatedParts{w, g}, err
}

type gatedWriter struct {
	store.Writer
	g *gated
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	w.g.enter(int64(len(p)))
	return w.Writer.Write(p)
}

type gatedParts struct {
	store.PartsWriter
	g *gated
}

func (w *gatedParts) WritePart(ctx context.Context, off int64, data [][]byte) error {
	n := int64(0)
	for _, b := range data {
		n += int64(len(b))
	}
	w.g.enter(n)
	return w.PartsWriter.WritePart(ctx, off, data)
}

// TestSmallWritesAreGathered: a hundred thousand of them are a few calls.
func TestSmallWritesAreGathered(t *testing.T) {
	g := &gated{Store: newDir(t), gate: make(chan struct{})}
	close(g.gate)
	f, err := Create(t.Context(), g, "/logits", Limits{PartSize: 4 << 20})
	must(t, err)
	data := random(10_000_000, 1)
	for at := 0; at < len(data); at += 100 {
		if _, err := f.Write(data[at : at+100]); err != nil {
			t.Fatal(err)
		}
	}
	must(t, f.Close())
	if g.calls != 3 {
		t.Errorf("%d calls, want 3 parts", g.calls)
	}
	if !bytes.Equal(storetest.Get(t, g, "/logits"), data) {
		t.Error("another content")
	}
}

// TestStagingIsBounded: while the store does not move, Write returns for as much as memory holds, and no more; so many parts are under way
// as may be.
func TestStagingIsBounded(t *testing.T) {
	const memory, parts, partSize = 16 * chunk, 3, 2 * chunk
	g := &gated{Store: newDir(t), gate: make(chan struct{})}
	w, err := Begin(t.Context(), g, "/step", Options{Layout: TorchDCP(), Limits: Limits{Memory: memory, Parts: parts, PartSize: partSize}})
	must(t, err)
	data := random(memory, 1)
	files := []*File{}
	for i := range 2 {
		f, err := w.Create(shard(i))
		must(t, err)
		files = append(files, f)
	}
	// Both fit, and nobody waits.
	for i, f := range files {
		if _, err := f.Write(data[i*memory/2 : (i+1)*memory/2]); err != nil {
			t.Fatal(err)
		}
	}
	more := make(chan error, 1)
	go func() {
		_, err := files[0].Write(data)
		more <- err
	}()
	select {
	case <-more:
		t.Fatal("more is staged than memory holds")
	default:
	}
	must(t, files[1].End())
	close(g.gate)
	must(t, <-more)
	must(t, files[0].End())
	w.s.mu.Lock()
	if n := w.s.chunks * chunk; n > memory {
		t.Errorf("%d bytes of memory, want at most %d", n, memory)
	}
	w.s.mu.Unlock()
	if _, err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if g.most > parts {
		t.Errorf("%d parts at a time, want at most %d", g.most, parts)
	}
	if g.bytes != 2*memory {
		t.Errorf("%d bytes were stored, want %d", g.bytes, 2*memory)
	}
	w.s.mu.Lock()
	if w.s.chunks != 0 || len(w.s.spare) != 0 {
		t.Errorf("%d chunks are kept after Wait", w.s.chunks)
	}
	w.s.mu.Unlock()
	must(t, w.Commit(t.Context(), ".metadata", nil))
	if got := storetest.Get(t, g, "/step/"+shard(0)); !bytes.Equal(got, append(bytes.Clone(data[:memory/2]), data...)) {
		t.Error("another content")
	}
}

// TestMemoryIsTheCallersAgain: what Write was given may be changed when it returns.
func TestMemoryIsTheCallersAgain(t *testing.T) {
	g := &gated{Store: newDir(t), gate: make(chan struct{})}
	f, err := Create(t.Context(), g, "/f", tight.Limits)
	must(t, err)
	data := random(2*chunk, 1)
	mine := bytes.Clone(data)
	if _, err := f.Write(mine); err != nil {
		t.Fatal(err)
	}
	clear(mine)
	close(g.gate)
	must(t, f.Close())
	if !bytes.Equal(storetest.Get(t, g, "/f"), data) {
		t.Error("another content")
	}
}

// TestAbortWaits: nothing of the save goes on after Abort.
func TestAbortWaits(t *testing.T) {
	g := &gated{Store: newDir(t), gate: make(chan struct{})}
	w, err := Begin(t.Context(), g, "/step", dcpNow)
	must(t, err)
	put(t, w, shard(0), random(2*chunk, 1))
	done := make(chan error, 1)
	go func() { done <- w.Abort(t.Context()) }()
	select {
	case <-done:
		t.Fatal("Abort did not wait for what is under way")
	default:
	}
	close(g.gate)
	must(t, <-done)
	if g.now != 0 {
		t.Errorf("%d calls are under way", g.now)
	}
	if _, err := w.Wait(t.Context()); !errors.Is(err, ErrAborted) {
		t.Errorf("Wait: %v", err)
	}
	wantEmpty(t, g.Store, "/step")
}
