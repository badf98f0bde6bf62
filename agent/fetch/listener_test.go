package fetch

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestListenerBoundsLocalConnections: the kernel must hold no more of a connection within this host than
// sendBuffer; it doubles the figure for its own book-keeping.
func TestListenerBoundsLocalConnections(t *testing.T) {
	plain := listen(t, "tcp", "127.0.0.1:0")
	tuned := Listener(listen(t, "tcp", "127.0.0.1:0"))
	_, conn := connect(t, plain)
	if got := writeBuffer(t, conn.(*net.TCPConn)); got == 2*sendBuffer {
		t.Fatalf("the system's own send buffer is %d, too: this test shows nothing", got)
	}
	_, conn = connect(t, tuned)
	if got := writeBuffer(t, conn.(*net.TCPConn)); got != 2*sendBuffer {
		t.Errorf("send buffer %d, want %d", got, 2*sendBuffer)
	}
}

// TestListenerPassesOthers: what is not TCP, and errors, pass through.
func TestListenerPassesOthers(t *testing.T) {
	lis := Listener(listen(t, "unix", t.TempDir()+"/s"))
	if client, conn := connect(t, lis); conn == nil || client == nil {
		t.Error("no connection")
	}
	lis.Close()
	if conn, err := lis.Accept(); err == nil || conn != nil {
		t.Errorf("closed: got %v, %v", conn, err)
	}
}

func listen(t *testing.T, network, addr string) net.Listener {
	t.Helper()
	lis, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	return lis
}

// connect returns both ends of a connection.
func connect(t *testing.T, lis net.Listener) (client, server net.Conn) {
	t.Helper()
	client, err := net.Dial(lis.Addr().Network(), lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err = lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

func writeBuffer(t *testing.T, conn *net.TCPConn) (size int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failure error
	err = raw.Control(func(fd uintptr) { size, failure = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF) })
	if err != nil || failure != nil {
		t.Fatal(err, failure)
	}
	return size
}
