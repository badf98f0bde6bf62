package hdfstest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Far is a Link to the whole cluster for programs that cannot be told how to dial: those that begin at its address, which is that of the
// only NameNode, find all DataNodes over the link too. Without Kerberos.
func (s *Server) Far(rtt time.Duration, bytesPerSecond int64) (*Link, string, error) {
	if len(s.NameNodes()) > 1 || s.Realm() != nil {
		return nil, "", fmt.Errorf("hdfstest.Far: a cluster with one NameNode and without Kerberos is needed")
	}
	l := newLink(rtt, bytesPerSecond)
	l.nameNode = s.NameNodes()[0].Addr
	at, err := l.proxy(l.nameNode)
	if err != nil {
		return nil, "", err
	}
	return l, at, nil
}

// renaming is a connection from a NameNode in whose answers each DataNode has the port at which it is found over the link.
type renaming struct {
	net.Conn
	link    *Link
	frames  *bufio.Reader
	pending []byte
}

// Read implements net.Conn.
func (r *renaming) Read(p []byte) (int, error) {
	if len(r.pending) == 0 {
		frame, err := r.next()
		if err != nil {
			return 0, err
		}
		r.pending = frame
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}

// next reads an answer: the length of the rest in four bytes, and the rest.
func (r *renaming) next() ([]byte, error) {
	if r.frames == nil {
		r.frames = bufio.NewReader(r.Conn)
	}
	head, err := r.frames.Peek(4)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, 4+int(binary.BigEndian.Uint32(head)))
	if _, err := io.ReadFull(r.frames, frame); err != nil {
		return nil, err
	}
	if err := r.link.rename(frame); err != nil {
		r.link.note(err)
		return nil, err
	}
	return frame, nil
}

// located is how each DatanodeIDProto begins: its IP address, and the tag of what follows.
var located = []byte("\x0a\x09127.0.0.1\x12")

// rename changes the ports of all DataNodes in an answer. It keeps its length, and with it all lengths inside it: a port from 2^14 on takes
// three bytes.
func (l *Link) rename(frame []byte) error {
	for {
		at := bytes.Index(frame, located)
		if at < 0 {
			return nil
		}
		frame = frame[at+len(located)-1:]
		port := portOf(frame)
		if port == nil {
			continue
		}
		n, _ := protowire.ConsumeVarint(port)
		far, err := l.proxy(net.JoinHostPort("127.0.0.1", strconv.FormatUint(n, 10)))
		if err != nil {
			return err
		}
		_, text, _ := net.SplitHostPort(far)
		if n, err = strconv.ParseUint(text, 10, 16); err != nil {
			return err
		}
		if protowire.SizeVarint(n) != len(port) {
			return fmt.Errorf("hdfstest.Far: port %d takes other than %d bytes: let the system give ports from 16384 on", n, len(port))
		}
		copy(port, protowire.AppendVarint(nil, n))
	}
}

// portOf returns the bytes of the port that follows a DataNode's host name and UUID, nil where none does.
func portOf(rest []byte) []byte {
	for want := protowire.Number(2); want < 4; want++ {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 || number != want || kind != protowire.BytesType {
			return nil
		}
		skip := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if skip < 0 {
			return nil
		}
		rest = rest[n+skip:]
	}
	number, kind, n := protowire.ConsumeTag(rest)
	if n < 0 || number != 4 || kind != protowire.VarintType {
		return nil
	}
	_, size := protowire.ConsumeVarint(rest[n:])
	if size < 0 {
		return nil
	}
	return rest[n : n+size]
}
