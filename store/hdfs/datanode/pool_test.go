package datanode

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
)

func noDial(t testing.TB) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, errors.New("no")
	}
}

// TestStalePooledConnection: a connection that the node closed while it lay idle is replaced without an error.
func TestStalePooledConnection(t *testing.T) {
	ctx := within(t)
	n := start(t, fakedn.Options{})
	b := Block{ExtendedBlock: n.Put(7, content(1000))}
	p := newPool(t, Options{IdleFor: time.Hour})
	for range 3 {
		if _, err := p.Read(ctx, at(n), b, []Part{{0, make([]byte, 1000)}}); err != nil {
			t.Fatal(err)
		}
		n.Drop()
	}
	if s := p.Stats(); s.Opened != 3 || s.Reused != 2 || s.Stale != 2 {
		t.Errorf("%+v", s)
	}
}

// TestStaleOnlyOnce: a fresh connection that is closed without an answer is an error.
func TestStaleOnlyOnce(t *testing.T) {
	ctx := within(t)
	n := start(t, fakedn.Options{Script: func(r fakedn.Request) fakedn.Fault {
		return fakedn.Fault{Hangup: r.Conn > 0 || r.Nth > 0}
	}})
	b := Block{ExtendedBlock: n.Put(7, content(1000))}
	p := newPool(t, Options{})
	part := []Part{{0, make([]byte, 1000)}}
	if _, err := p.Read(ctx, at(n), b, part); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(ctx, at(n), b, part); !errors.Is(err, ErrBroken) {
		t.Errorf("got %v", err)
	}
	if accepted, _ := n.Conns(); accepted != 2 {
		t.Errorf("%d connections", accepted)
	}
}

// TestIdleConnectionsEnd: they are used while they are young, and closed without anybody asking when they are old.
func TestIdleConnectionsEnd(t *testing.T) {
	ctx := within(t)
	n := start(t, fakedn.Options{})
	b := Block{ExtendedBlock: n.Put(7, content(1000))}
	var now atomic.Int64
	p := newPool(t, Options{IdleFor: time.Hour, Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	read := func() {
		t.Helper()
		if _, err := p.Read(ctx, at(n), b, []Part{{0, make([]byte, 1000)}}); err != nil {
			t.Fatal(err)
		}
	}
	read()
	now.Store(3599)
	read()
	if s := p.Stats(); s.Opened != 1 || s.Reused != 1 {
		t.Errorf("young: %+v", s)
	}
	now.Store(2 * 3600)
	read()
	if s := p.Stats(); s.Opened != 2 || s.Connections != 1 || s.Stale != 0 {
		t.Errorf("old: %+v", s)
	}
	p.sweep()
	if s := p.Stats(); s.Idle != 1 {
		t.Errorf("swept too early: %+v", s)
	}
	now.Store(4 * 3600)
	p.sweep()
	if s := p.Stats(); s.Idle != 0 || s.Connections != 0 || p.sweeper != nil || len(p.nodes) != 0 {
		t.Errorf("not swept: %+v", s)
	}
}

// TestBounds: never more connections than allowed, to a node or to all; those who wait get theirs.
func TestBounds(t *testing.T) {
	ctx := within(t)
	data := content(100_000)
	var nodes []*fakedn.Node
	var b Block
	for range 4 {
		n := start(t, fakedn.Options{})
		b.ExtendedBlock = n.Put(7, data)
		nodes = append(nodes, n)
	}
	p := newPool(t, Options{MaxConns: 2, MaxTotal: 5})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for k := range 5 {
				parts := []Part{{int64(i), make([]byte, 90_000)}}
				if _, err := p.Read(ctx, at(nodes[(i+k)%4]), b, parts); err != nil {
					t.Error(err)
				}
				checkParts(t, data, parts)
				if s := p.Stats(); s.Connections > 5 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
	wg.Wait()
	if s := p.Stats(); s.Waiting != 0 || s.Connections != s.Idle || s.Delivered != 64*5*90_000 {
		t.Errorf("%+v", s)
	}
}

// TestCancel: the end of a context ends a read wherever it stands, closes its connection and blames nobody.
func TestCancel(t *testing.T) {
	data := content(200_000)
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			var stall atomic.Int64 // the node may look when the read has long failed
			n := start(t, fakedn.Options{Script: func(fakedn.Request) fakedn.Fault { return fakedn.Fault{Stall: int(stall.Load())} }})
			b := Block{ExtendedBlock: n.Put(7, data)}
			p := newPool(t, o)
			for _, bytes := range []int64{1, 40, 100, 70_000} {
				stall.Store(bytes)
				ctx, cancel := context.WithCancel(within(t))
				stop := time.AfterFunc(20*time.Millisecond, cancel)
				_, err := p.Read(ctx, at(n), b, []Part{{0, make([]byte, len(data))}})
				stop.Stop()
				cancel()
				if !errors.Is(err, context.Canceled) || errors.Is(err, ErrBroken) {
					t.Errorf("stalled at %d: %v", bytes, err)
				}
			}
			if s := p.Stats(); s.Connections != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestCancelWaiting: a read that waits for a connection leaves the line when its context ends.
func TestCancelWaiting(t *testing.T) {
	n := start(t, fakedn.Options{Script: func(fakedn.Request) fakedn.Fault { return fakedn.Fault{Stall: 1} }})
	b := Block{ExtendedBlock: n.Put(7, content(10))}
	p := newPool(t, Options{MaxConns: 1})
	holding, release := context.WithCancel(within(t))
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = p.Read(holding, at(n), b, []Part{{0, make([]byte, 10)}}) })
	for p.Stats().Connections == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(within(t), 10*time.Millisecond)
	defer cancel()
	if _, err := p.Read(ctx, at(n), b, []Part{{0, make([]byte, 10)}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if s := p.Stats(); s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	release()
	wg.Wait()
}

// TestStall: a node that sends nothing for too long is broken, at whatever step.
func TestStall(t *testing.T) {
	data := content(200_000)
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			var stall atomic.Int64 // the node may look when the read has long failed
			n := start(t, fakedn.Options{Script: func(fakedn.Request) fakedn.Fault { return fakedn.Fault{Stall: int(stall.Load())} }})
			b := Block{ExtendedBlock: n.Put(7, data)}
			o.Stall = 30 * time.Millisecond
			p := newPool(t, o)
			for _, bytes := range []int64{1, 40, 70_000} {
				stall.Store(bytes)
				if _, err := p.Read(within(t), at(n), b, []Part{{0, make([]byte, len(data))}}); !errors.Is(err, ErrBroken) {
					t.Errorf("stalled at %d: %v", bytes, err)
				}
			}
		})
	}
}

// TestClose: reads in flight and those that wait fail, later ones too.
func TestClose(t *testing.T) {
	ctx := within(t)
	n := start(t, fakedn.Options{Script: func(fakedn.Request) fakedn.Fault { return fakedn.Fault{Stall: 50} }})
	b := Block{ExtendedBlock: n.Put(7, content(1000))}
	p := newPool(t, Options{MaxConns: 1})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := p.Read(ctx, at(n), b, []Part{{0, make([]byte, 1000)}}); err == nil {
				t.Error("no error")
			}
		})
	}
	for p.Stats().Waiting < 2 {
		time.Sleep(time.Millisecond)
	}
	p.Close()
	p.Close()
	wg.Wait()
	if _, err := p.Read(ctx, at(n), b, []Part{{0, make([]byte, 1000)}}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// TestConnectFails: no connection is ErrConnect, soon.
func TestConnectFails(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lis.Close()
	b := Block{ExtendedBlock: &hproto.ExtendedBlock{PoolId: new(string), BlockId: new(uint64), GenerationStamp: new(uint64)}}
	part := []Part{{0, make([]byte, 10)}}
	p := newPool(t, Options{})
	if _, err := p.Read(within(t), Node{Addr: lis.Addr().String()}, b, part); !errors.Is(err, ErrConnect) {
		t.Errorf("refused: %v", err)
	}
	never := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	p = newPool(t, Options{Dial: never, ConnectTimeout: 10 * time.Millisecond})
	if _, err := p.Read(within(t), Node{Addr: "x:1"}, b, part); !errors.Is(err, ErrConnect) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("never: %v", err)
	}
	if s := p.Stats(); s.Connections != 0 {
		t.Errorf("%+v", s)
	}
}

// TestSteadyPathDoesNotAllocate: a read of a hundred packets allocates no more than a read of two.
func TestSteadyPathDoesNotAllocate(t *testing.T) {
	ctx := within(t)
	data := content(8 << 20)
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			answers := map[int64][]byte{} // made once: the node's allocations count too
			n := start(t, fakedn.Options{Script: func(r fakedn.Request) fakedn.Fault {
				return fakedn.Fault{Answer: answers[r.Len], Rewrite: func(b []byte) []byte { answers[r.Len] = b; return b }}
			}})
			b := Block{ExtendedBlock: n.Put(7, data)}
			p := newPool(t, o)
			count := func(size int) float64 {
				part := []Part{{0, make([]byte, size)}}
				return testing.AllocsPerRun(5, func() {
					if _, err := p.Read(ctx, at(n), b, part); err != nil {
						t.Fatal(err)
					}
				})
			}
			small, large := count(64<<10), count(len(data))
			t.Logf("allocations of both ends: %.0f for 64 KiB, %.0f for 8 MiB", small, large)
			if large > small+8 {
				t.Errorf("%.0f allocations for 1 packet, %.0f for 128", small, large)
			}
		})
	}
}
