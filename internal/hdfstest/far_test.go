package hdfstest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// datanodeID encodes a DatanodeIDProto of Hadoop.
func datanodeID(host string, port uint64) (b []byte) {
	for i, text := range []string{"127.0.0.1", host, "7f1d5a3c-uuid"} {
		b = protowire.AppendTag(b, protowire.Number(i+1), protowire.BytesType)
		b = protowire.AppendString(b, text)
	}
	for i, n := range []uint64{port, 9864, 9867} {
		b = protowire.AppendTag(b, protowire.Number(i+4), protowire.VarintType)
		b = protowire.AppendVarint(b, n)
	}
	return b
}

// speaker is a NameNode that says the same to everyone, in pieces.
func speaker(t *testing.T, says []byte) (addr string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for piece := range slices.Chunk(says, 7) {
			if _, err := c.Write(piece); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return listener.Addr().String()
}

// In answers of a NameNode over a link, DataNodes are where they are found over the link; all else is as it was.
func TestAnswersNameTheLink(t *testing.T) {
	far := farEnd(t, 1000)
	_, text, _ := net.SplitHostPort(far)
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	frame := func(parts ...[]byte) []byte {
		body := bytes.Join(parts, nil)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	answers := func(port uint64) []byte {
		cut := datanodeID("dn2.test", port)
		return bytes.Join([][]byte{
			frame([]byte("header"), datanodeID("dn0.test", port), []byte{0x12, 3, 1, 2, 3}, datanodeID("a host of another length", port)),
			frame(located),                  // and nothing behind it
			frame([]byte("x"), cut[:40]),    // without its port
			frame(bytes.Repeat(located, 3)), // of itself
			frame(),
			frame([]byte("end")),
		}, nil)
	}
	l := newLink(time.Millisecond, 100<<20)
	defer l.end(t)
	l.nameNode = speaker(t, answers(port))
	c, err := l.Dial(t.Context(), "tcp", l.nameNode)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	at, err := l.proxy(far)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = net.SplitHostPort(at)
	if port, err = strconv.ParseUint(text, 10, 16); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, answers(port)) {
		t.Errorf("got %q, want %q", got, answers(port))
	}
}
