package fetch

import "net"

// sendBuffer bounds what the kernel holds of a connection within one host, in bytes. Linux lets it grow to
// megabytes there, more than a core's cache holds, so that every byte is written to memory and read back: up
// to a third more CPU time for the whole way (benchmarks/wire). Between hosts that growth is what fills the
// network, and is left alone.
const sendBuffer = 256 << 10

// Listener returns lis for a server that serves fetches: its connections from this host hold little in the
// kernel. Others are as lis gives them.
func Listener(lis net.Listener) net.Listener { return listener{lis} }

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil && local(tcp) {
		_ = tcp.SetWriteBuffer(sendBuffer) // a matter of speed alone
	}
	return conn, err
}

// local reports whether both ends of a connection are on this host: then they have the same address, or
// loopback ones.
func local(conn *net.TCPConn) bool {
	here, ok1 := conn.LocalAddr().(*net.TCPAddr)
	there, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	return ok1 && ok2 && (there.IP.IsLoopback() || there.IP.Equal(here.IP))
}
