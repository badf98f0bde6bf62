package datanode

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// conn is a connection to a DataNode on which one operation at a time runs. One goroutine may read while another writes.
type conn struct {
	net.Conn
	src io.Reader // what the DataNode says, unwrapped
	dst io.Writer
	raw syscall.RawConn // nil where the bytes must be unwrapped, or there is no socket

	stall  time.Duration                   // without any byte for so long, the connection is broken
	armed  struct{ read, write time.Time } // when the deadlines were last moved
	wire   int64                           // bytes received
	data   int                             // bytes of data in the DataNode's packets, as last seen; 0: not yet
	reused bool
	idle   time.Time // since when nobody uses it

	abort  func() // closes it; whoever waits for it then fails
	vector vector
}

// vector is the arguments and results of a scattered read, which goes through a function that is made once.
type vector struct {
	to   [][]byte
	n    int
	err  error
	read func(fd uintptr) bool
}

func newConn(c net.Conn, stall time.Duration) *conn {
	k := &conn{Conn: c, stall: stall}
	k.src, k.dst = k, k
	k.vector.read = k.vector.receive
	k.abort = func() { c.Close() }
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			k.raw = raw
		}
	}
	return k
}

// Read reads from the wire, at most for the time a connection may stand still.
func (k *conn) Read(b []byte) (int, error) {
	k.armRead()
	n, err := k.Conn.Read(b)
	k.wire += int64(n)
	return n, k.still(err)
}

// Write writes to the wire, likewise.
func (k *conn) Write(b []byte) (int, error) {
	if at, moved := k.due(&k.armed.write); moved {
		_ = k.SetWriteDeadline(at)
	}
	n, err := k.Conn.Write(b)
	return n, k.still(err)
}

// readv reads into pieces, in this order, as much as is there, and at least a byte. There must be a socket (raw) and at
// most maxPieces.
func (k *conn) readv(pieces [][]byte) (int, error) {
	k.armRead()
	k.vector.to = pieces
	err := k.raw.Read(k.vector.read)
	k.vector.to = nil
	if err == nil {
		err = k.vector.err
	}
	if err != nil {
		return 0, k.still(err)
	}
	if k.vector.n == 0 {
		return 0, io.EOF
	}
	k.wire += int64(k.vector.n)
	return k.vector.n, nil
}

// receive implements what RawConn.Read asks for: false waits until there is something to read.
func (v *vector) receive(fd uintptr) bool {
	for {
		v.n, v.err = unix.Readv(int(fd), v.to)
		switch {
		case errors.Is(v.err, unix.EINTR):
		case errors.Is(v.err, unix.EAGAIN):
			return false
		default:
			if v.err != nil {
				v.err = os.NewSyscallError("readv", v.err)
			}
			return true
		}
	}
}

// due moves a deadline ahead. Moving it costs more than asking for the time, so it is moved a few times in a stall only.
func (k *conn) due(armed *time.Time) (at time.Time, moved bool) {
	now := time.Now()
	if now.Sub(*armed) < k.stall/8 {
		return time.Time{}, false
	}
	*armed = now
	return now.Add(k.stall), true
}

func (k *conn) armRead() {
	if at, moved := k.due(&k.armed.read); moved {
		_ = k.SetReadDeadline(at) // fails on closed connections only, and then so does what follows
	}
}

func (k *conn) still(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("nothing moved for %v: %w", k.stall, err)
	}
	return err
}
