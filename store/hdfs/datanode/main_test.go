package datanode

import (
	"context"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
)

func TestMain(m *testing.M) { hdfstest.Main(m) }

// start starts a fake DataNode that ends with the test.
func start(t testing.TB, o fakedn.Options) *fakedn.Node {
	t.Helper()
	n, err := fakedn.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// newPool returns a pool that ends with the test, before the nodes that were started before it.
func newPool(t testing.TB, o Options) *Pool {
	t.Helper()
	p := NewPool(o)
	t.Cleanup(func() { p.Close() })
	return p
}

// within is a context for a test's calls: long enough for a busy machine, shorter than the test's own limit.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func at(n *fakedn.Node) Node { return Node{Addr: n.Addr()} }

// content is n bytes that repeat nowhere.
func content(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// hidden is a connection without a socket to see, as one through TLS is.
type hidden struct{ net.Conn }

func dialHidden(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return hidden{c}, nil
}

// ways are both ways in which bytes come to the caller's memory.
var ways = map[string]Options{"direct": {}, "buffered": {Dial: dialHidden}}
