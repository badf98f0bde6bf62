package hdfstest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// farEnd answers each byte that comes on a connection with n bytes.
func farEnd(t *testing.T, n int) (addr string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				for one, data := make([]byte, 1), make([]byte, n); ; {
					if _, err := io.ReadFull(c, one); err != nil {
						return
					}
					if _, err := c.Write(data); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// fetch asks a far end over a link, on as many connections at a time.
func fetch(t *testing.T, l *Link, addr string, connections, n int) time.Duration {
	t.Helper()
	var all sync.WaitGroup
	start := time.Now()
	for range connections {
		all.Go(func() {
			c, err := l.Dial(t.Context(), "tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, err := c.Write([]byte{1}); err != nil {
				t.Error(err)
			}
			if _, err := io.CopyN(io.Discard, c, int64(n)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

// A link takes its round trip, and its rate is that of all connections together. On a busy machine it is slower, but not as
// slow as one on which each piece waits for the delay.
func TestLink(t *testing.T) {
	const rtt, rate = 100 * time.Millisecond, 20 << 20
	for _, c := range []struct{ connections, bytes int }{{1, 1}, {1, 4 << 20}, {4, 1 << 20}, {16, 256 << 10}} {
		l := newLink(rtt, rate)
		took := fetch(t, l, farEnd(t, c.bytes), c.connections, c.bytes)
		want := rtt + time.Duration(c.connections*c.bytes)*time.Second/rate
		if took < want-linkCredit || took > 10*want {
			t.Errorf("%d connections, %d bytes each: %v, want %v", c.connections, c.bytes, took, want)
		}
		l.end(t)
	}
}
